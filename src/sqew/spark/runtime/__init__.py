"""The surroundings of a job: Java, launchers, progress and failures."""
