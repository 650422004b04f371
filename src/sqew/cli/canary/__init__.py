"""The canary: messages that it sends to itself, and times."""
