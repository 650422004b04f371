"""What a run's event log says: whether the queue kept its promises, and how fast it was."""
