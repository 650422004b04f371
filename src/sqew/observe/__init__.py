"""Observation of messages: the event log, the figures of `stats`, metrics, logs and traces."""
