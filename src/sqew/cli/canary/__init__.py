"""The canary: messages sent to itself, and timed."""
