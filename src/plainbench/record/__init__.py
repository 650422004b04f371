"""What a run leaves behind, and how to do it again."""
