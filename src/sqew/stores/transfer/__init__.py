"""Transfer: everything in a file, copied to PostgreSQL."""
