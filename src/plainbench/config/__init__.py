"""What a run is to be: plainbench.yaml."""
