"""The report of `sqew spark analyse`: one HTML file that needs nothing else."""
