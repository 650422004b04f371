"""The jobs: each reads, applies transforms and writes. The command line is a thin layer over them."""
