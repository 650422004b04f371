"""The runtime of a job: Java, launchers, progress and failures."""
