"""A run: its processes, its clocks and its end."""
