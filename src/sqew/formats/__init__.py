"""Formats of messages as bytes: JSON, NDJSON, Arrow and columns."""
