"""SQS: its 23 actions."""

from sqew.http.dialects.aws.sqs import move_tasks, permissions, queues, receive, send, settle, tags
from sqew.http.dialects.aws.sqs.api import SQS

__all__ = ["SQS", "move_tasks", "permissions", "queues", "receive", "send", "settle", "tags"]
