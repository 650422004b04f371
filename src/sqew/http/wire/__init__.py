"""HTTP on the wire: connections, requests and responses."""
