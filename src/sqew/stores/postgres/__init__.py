"""Queues in PostgreSQL, for any number of servers."""

from sqew.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
