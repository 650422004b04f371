"""The findings in a run's event log: whether the queue kept its promises, and how fast it was."""
