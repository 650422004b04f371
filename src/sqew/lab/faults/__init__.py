"""Faults; see `plainbench.faults`."""
