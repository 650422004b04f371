"""HTTP dialects, each a vocabulary of its own over the same queues."""
