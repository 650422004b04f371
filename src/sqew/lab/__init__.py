"""The lab, under the name that it had before it was a package of its own: `plainbench`."""
