"""Behaviour that every store owes, wherever it keeps its messages: tests of the Store contract and of nothing else."""
