"""Refusals by queue, for metrics. Made-up names make no series: only queues that have counts do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from sqew.errors import QueueNotFound, SqewError
from sqew.observe.exposition import family, labelled
from sqew.observe.labels import BY_ID, OTHERS, QueueLabels
from sqew.operations import DeleteQueue, GetQueue, Operation, UpdateQueue


class QueueErrors:
    """Counts since the server's start."""

    def __init__(self, labels: QueueLabels) -> None:
        self._labels = labels
        self._counts: Counter[tuple[str, str]] = Counter()

    def answered(self, operation: Operation[object], error: SqewError) -> None:
        """Count an error with which the store answered an operation, or one of its messages."""
        error.is_counted = True
        self._count(_queue_of(operation), error)

    def refused(self, queue: str | None, error: SqewError) -> None:
        """Count a refusal, unless the store has raised it or its cause."""
        if not (error.is_counted or (isinstance(error.__cause__, SqewError) and error.__cause__.is_counted)):
            self._count(queue, error)

    def _count(self, queue: str | None, error: SqewError) -> None:
        # Who asks for a message by its id learns that it is not there, whether or not there is such a queue.
        label = None if queue is None else self._labels.known(queue)
        if label is not None and not isinstance(error, QueueNotFound):
            self._counts[label, error.code] += 1

    def keep(self, queues: Collection[str]) -> None:
        """Forget the counts of queues that are gone."""
        for queue, code in list(self._counts):
            if queue not in (BY_ID, OTHERS) and queue not in queues:
                del self._counts[queue, code]

    def lines(self) -> Iterator[str]:
        """Yield the counts as metrics."""
        yield from family(
            "queue_errors_total",
            "counter",
            "Refusals by queue and code, those of single messages in a batch included.",
            ((labelled(queue=queue, code=code), count) for (queue, code), count in sorted(self._counts.items())),
        )


def _queue_of(operation: Operation[object]) -> str | None:
    """Return the label or name of the queue that an operation is about; None: it is about none, or about several."""
    if isinstance(operation, GetQueue | UpdateQueue | DeleteQueue):
        return operation.name
    if not hasattr(operation, "queue"):
        return None
    queue: str | None = operation.queue
    return BY_ID if queue is None else queue
