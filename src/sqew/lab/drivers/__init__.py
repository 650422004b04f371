"""Drivers of queues; see `plainbench.drivers`."""
