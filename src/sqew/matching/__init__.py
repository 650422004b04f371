"""Matching of events with subscriptions, by routing key and by filter policy."""
