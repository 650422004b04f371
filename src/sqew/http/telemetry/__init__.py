"""Telemetry of the server: access log, counters, metrics and health."""
