"""Commands about events, subscriptions, deliveries and schedules."""
