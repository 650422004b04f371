"""Core: what can be done to a queue, and how operations are collected, executed and waited for."""
