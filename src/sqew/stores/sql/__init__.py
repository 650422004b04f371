"""SQL of all stores: everything but the connection, and where the dialects of SQL differ."""
