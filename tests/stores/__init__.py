"""Behaviour particular to one store, such as the way SQLite finds rows, or processes share a file."""
