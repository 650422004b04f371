"""What stores on SQL databases share: everything but the connection, and where the dialects of SQL differ."""
