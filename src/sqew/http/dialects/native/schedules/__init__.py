"""Schedules in the native dialect: what fires when, and previews of it."""

from sqew.http.dialects.native.schedules import previews, routes

__all__ = ["previews", "routes"]
