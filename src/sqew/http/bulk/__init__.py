"""Bulk: exports and imports, streamed."""
