"""SQS: its 23 actions."""

from sqew.http.dialects.aws.sqs import permissions, queues, receiving, sending, settling, tags
from sqew.http.dialects.aws.sqs.api import SQS

__all__ = ["SQS", "permissions", "queues", "receiving", "sending", "settling", "tags"]
