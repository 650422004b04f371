"""`plainbench tui`: a run on a terminal, live or recorded."""
