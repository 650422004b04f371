"""What goes wrong in a run, on purpose and as the seed says."""
