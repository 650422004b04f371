"""Workers: a handler in a loop.

In threads for `sqew.Queue` and `sqew.Client`, in tasks for `sqew.AsyncClient`.
"""

from sqew.worker.threads import Ack, Dead, Retry, Worker

__all__ = ["Ack", "Dead", "Retry", "Worker"]
