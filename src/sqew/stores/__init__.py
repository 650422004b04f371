"""Storage for messages. A store holds the SQL and nothing else."""
