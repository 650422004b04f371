"""The Sqew dialect: ``/queues…`` in JSON, the whole of what a queue can do."""

# To import a part is to add its routes: in the order in which people are shown them.
from sqew.http.dialects.sqew import queues, sending, leases, looking, dead, streams  # isort: skip
from sqew.http.dialects.sqew.wording import DIALECT, routes

__all__ = ["DIALECT", "dead", "leases", "looking", "queues", "routes", "sending", "streams"]
