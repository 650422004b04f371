"""Rules: what names, sizes, policies and addresses are allowed."""
