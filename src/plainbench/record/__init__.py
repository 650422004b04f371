"""The record that a run leaves behind, and the means to repeat it."""
