"""Formats: messages as bytes, in JSON, NDJSON, Arrow and columns."""
