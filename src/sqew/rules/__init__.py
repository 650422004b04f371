"""The rules for names, sizes, policies and addresses."""
