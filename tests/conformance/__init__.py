"""What every store must do, whatever it keeps its messages in: tests of the Store contract and of nothing else."""
