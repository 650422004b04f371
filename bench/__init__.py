"""Benchmarks. Each names its ceiling and its peers, and prints ratios; see docs/benchmarks.md."""
