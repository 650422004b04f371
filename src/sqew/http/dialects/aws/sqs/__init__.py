"""SQS: its 23 actions."""

from sqew.http.dialects.aws.sqs import moves, permissions, queues, receiving, sending, settling, tags
from sqew.http.dialects.aws.sqs.api import SQS

__all__ = ["SQS", "moves", "permissions", "queues", "receiving", "sending", "settling", "tags"]
