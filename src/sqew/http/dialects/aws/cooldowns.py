"""AWS's rules about 60 seconds after a delete or a purge, only for those who want to test against them."""

from __future__ import annotations

from sqew.http.dialects.aws.refusals import AwsError

WAIT_MS = 60_000
_MOST_REMEMBERED = 10_000


class Strictness:
    """A memory of recent deletes and purges, if the rules are to apply; a server that starts knows of none."""

    def __init__(self, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._deleted: dict[str, int] = {}
        self._purged: dict[str, int] = {}

    def deleted(self, queue: str, now: int) -> None:
        """Remember that a queue was deleted."""
        self._purged.pop(queue, None)
        self._note(self._deleted, queue, now)

    def check_creation(self, queue: str, now: int) -> None:
        """Raise if a queue of that name was deleted just now."""
        if now - self._deleted.get(queue, -WAIT_MS) < WAIT_MS:
            raise AwsError(
                "QueueDeletedRecently",
                "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
            )

    def check_purge(self, queue: str, name: str, now: int) -> None:
        """Raise if a queue was purged just now; otherwise remember that it is now."""
        if now - self._purged.get(queue, -WAIT_MS) < WAIT_MS:
            raise AwsError(
                "PurgeQueueInProgress",
                f"Only one PurgeQueue operation on {name} is allowed every 60 seconds.",
                403,
            )
        self._note(self._purged, queue, now)

    def _note(self, times: dict[str, int], queue: str, now: int) -> None:
        if not self._is_strict:
            return
        times.pop(queue, None)
        times[queue] = now
        # They are in the order of their times.
        for known, at in list(times.items()):
            if now - at < WAIT_MS and len(times) <= _MOST_REMEMBERED:
                break
            del times[known]
