"""Schedules in the native dialect, and previews of when they would fire."""

from sqew.http.dialects.native.schedules import previews, routes

__all__ = ["previews", "routes"]
