"""Envelopes as in SNS, their signatures and keys, and the signatures of requests."""
