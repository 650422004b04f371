"""The queue over HTTP: the connection, the router, and one module for each dialect."""
