"""SNS: topics, their subscriptions, and publishing to them."""

from sqew.http.dialects.aws.sns import permissions, publish, subscriptions, tags, topics, unsupported
from sqew.http.dialects.aws.sns.api import SNS

__all__ = ["SNS", "permissions", "publish", "subscriptions", "tags", "topics", "unsupported"]
