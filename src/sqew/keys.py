"""Signatures of requests, under the name that programs import them by."""

from sqew.envelopes.request_signature import mac_of, new_key, signature

__all__ = ["mac_of", "new_key", "signature"]
