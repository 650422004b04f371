"""What can be told about the messages that go through: the event log, the figures of `stats`, and metrics."""
