"""Signatures of requests, importable by programs under this name."""

from sqew.envelopes.request_signature import mac_of, new_key, signature

__all__ = ["mac_of", "new_key", "signature"]
