"""Queues in PostgreSQL, for any number of servers."""

from sqew.stores.postgres.clock import DatabaseClock
from sqew.stores.postgres.notifier import ListenNotifier
from sqew.stores.postgres.store import PostgresStore

__all__ = ["DatabaseClock", "ListenNotifier", "PostgresStore"]
