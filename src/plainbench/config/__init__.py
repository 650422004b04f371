"""The configuration of a run: plainbench.yaml."""
