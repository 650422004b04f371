"""One HTTP vocabulary each, all over the same queues."""
