"""The table of SQS's actions, in which they register themselves."""

from __future__ import annotations

from sqew.http.dialects.aws.calls import Api
from sqew.http.dialects.aws.query import Elements, ListOf, MapOf

SQS = Api(
    name="sqs",
    target="AmazonSQS.",
    namespace="http://queue.amazonaws.com/doc/2012-11-05/",
    elements=Elements(
        entries={
            "QueueUrls": "QueueUrl",
            "queueUrls": "QueueUrl",
            "Attributes": "Attribute",
            "MessageAttributes": "MessageAttribute",
            "Messages": "Message",
            "Tags": "Tag",
            "Results": "ListMessageMoveTasksResultEntry",
            "Failed": "BatchResultErrorEntry",
        },
        keys={"Tags": "Key"},
    ),
    shapes={
        "Attribute": MapOf("Attributes"),
        "MessageAttribute": MapOf("MessageAttributes"),
        "MessageSystemAttribute": MapOf("MessageSystemAttributes"),
        "Tag": MapOf("Tags", "Key"),
        "Tags": MapOf("Tags", "Key"),
        "AttributeName": ListOf("AttributeNames"),
        "MessageAttributeName": ListOf("MessageAttributeNames"),
        "MessageSystemAttributeName": ListOf("MessageSystemAttributeNames"),
        "StringListValue": ListOf("StringListValues", "StringListValue"),
        "BinaryListValue": ListOf("BinaryListValues", "BinaryListValue"),
        "TagKey": ListOf("TagKeys"),
        # Lists that are empty come under their own names.
        **{name: ListOf(name) for name in ("Entries", "AttributeNames", "TagKeys", "Actions", "AWSAccountIds")},
        "AWSAccountId": ListOf("AWSAccountIds"),
        "ActionName": ListOf("Actions"),
        "SendMessageBatchRequestEntry": ListOf("Entries"),
        "DeleteMessageBatchRequestEntry": ListOf("Entries"),
        "ChangeMessageVisibilityBatchRequestEntry": ListOf("Entries"),
    },
)
