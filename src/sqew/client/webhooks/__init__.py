"""Checks for receivers of webhooks: signed envelopes and the certificates behind them."""
