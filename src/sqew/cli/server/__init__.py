"""Commands that run and maintain a server."""
