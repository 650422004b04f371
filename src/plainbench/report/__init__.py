"""`plainbench report`: a run as one HTML file, with plots of our own."""
