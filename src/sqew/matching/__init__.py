"""Matching: the subscriptions that want an event, by routing key and by filter policy."""
