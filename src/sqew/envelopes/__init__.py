"""Envelopes: SNS's, their signatures and keys, and the signatures of requests."""
