"""Sqew: one durable message queue, embedded or served.

from sqew import Queue

q = Queue.open("queue.db")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqew.client import AsyncClient, Client, EnvelopeVerifier
    from sqew.core.broker import Broker
    from sqew.embedded import Queue
    from sqew.errors import MessageNotFound, QueueExists, QueueNotFound, SqewError, StaleLease, StoreError
    from sqew.model import Backoff, Message, NewMessage, NewMessages, Policy, QueueInfo, QueueStats
    from sqew.worker.threads import Worker
    from sqew.worker.verdicts import Ack, Dead, Retry

__version__ = "0.1.0"

__all__ = [
    "Ack",
    "AsyncClient",
    "Backoff",
    "Broker",
    "Client",
    "Dead",
    "EnvelopeVerifier",
    "Message",
    "MessageNotFound",
    "NewMessage",
    "NewMessages",
    "Policy",
    "Queue",
    "QueueExists",
    "QueueInfo",
    "QueueNotFound",
    "QueueStats",
    "Retry",
    "SqewError",
    "StaleLease",
    "StoreError",
    "Worker",
]

# Names are looked up when first used: `sqew --help` must not wait for SQLite to load.
_HOMES = {
    "sqew.core.broker": ("Broker",),
    "sqew.client": ("AsyncClient", "Client", "EnvelopeVerifier"),
    "sqew.embedded": ("Queue",),
    "sqew.errors": ("MessageNotFound", "QueueExists", "QueueNotFound", "SqewError", "StaleLease", "StoreError"),
    "sqew.model": ("Backoff", "Message", "NewMessage", "NewMessages", "Policy", "QueueInfo", "QueueStats"),
    "sqew.worker.threads": ("Worker",),
    "sqew.worker.verdicts": ("Ack", "Dead", "Retry"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    # Without what only this file needs, which is noise where a shell completes names.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sqew' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
