"""The SQLite store: one file, one writer, one transaction for all operations that arrived together."""

from sqew.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
