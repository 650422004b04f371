"""Where messages are kept. A store holds the SQL and nothing else."""
