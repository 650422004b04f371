"""Posting events to HTTP endpoints."""
