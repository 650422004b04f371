"""The table of SNS's actions, in which they register themselves."""

from __future__ import annotations

from sqew.http.dialects.aws.calls import Api
from sqew.http.dialects.aws.query import Elements, ListOf, MapOf
from sqew.http.dialects.aws.sns.refusals import in_sns_words

SNS = Api(
    name="sns",
    target="AmazonSNS.",
    namespace="http://sns.amazonaws.com/doc/2010-03-31/",
    elements=Elements(entries={"Attributes": "entry"}, keys={"Attributes": "key"}, value="value", wrapped=True),
    shapes={
        "Attributes": MapOf("Attributes", "key", "value", "entry"),
        "MessageAttributes": MapOf("MessageAttributes", "Name", "Value", "entry"),
        "PublishBatchRequestEntries": ListOf("PublishBatchRequestEntries", "member"),
        "Tags": ListOf("Tags", "member"),
        "TagKeys": ListOf("TagKeys", "member"),
        "AWSAccountId": ListOf("AWSAccountId", "member"),
        "ActionName": ListOf("ActionName", "member"),
    },
    words=in_sns_words,
)
