"""Webhooks: posting events to HTTP endpoints."""
