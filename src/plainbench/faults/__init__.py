"""The faults of a run, made on purpose and as the seed says."""
