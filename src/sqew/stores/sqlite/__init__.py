"""The SQLite store: one file, one writer, one transaction for whatever arrived together."""

from sqew.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
