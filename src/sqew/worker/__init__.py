"""Workers: a handler in a loop.

In threads for `sqew.Queue` and `sqew.Client`, in tasks for `sqew.AsyncClient`.
"""

from sqew.worker.threads import Worker
from sqew.worker.verdicts import Ack, Dead, Retry

__all__ = ["Ack", "Dead", "Retry", "Worker"]
