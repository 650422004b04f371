"""Schedules in the native dialect: what fires when, and previews of it."""

from sqew.http.dialects.schedules import keeping, previews

__all__ = ["keeping", "previews"]
