"""Sqew: one durable message queue, embedded or served."""

__version__ = "0.1.0"
