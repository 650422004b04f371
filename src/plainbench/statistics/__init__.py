"""Statistics: comparisons with confidence intervals."""
