"""The Sqew dialect: ``/queues…`` in JSON, with all that a queue can do."""

# To import a part is to add its routes: in the order in which people are shown them.
from sqew.http.dialects.sqew import queues, send, leases, inspect, dead_letters, streams  # isort: skip
from sqew.http.dialects.sqew.dialect import DIALECT, routes

__all__ = ["DIALECT", "dead_letters", "inspect", "leases", "queues", "routes", "send", "streams"]
