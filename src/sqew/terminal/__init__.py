"""The terminal: tables, progress and exit codes, which command lines share."""
