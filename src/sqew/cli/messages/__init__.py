"""Commands about messages."""
