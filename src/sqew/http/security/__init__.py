"""Security of the server: tokens, keys, origins, signatures and backpressure."""
