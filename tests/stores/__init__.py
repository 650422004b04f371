"""What is particular to one store: how SQLite finds rows, and how processes share a file."""
