"""Watermarks: the positions from which to look for the next message of a queue.

A claim moves a message away from the head of its queue and leaves a dead entry in the index. Usually these are gone
with the next look; but while anything in the database holds an old snapshot (a report, a backup, a transaction that
was forgotten) they stay, and every claim walks over all of them: 0.6 ms becomes 5 ms after 60,000 messages. So a
server remembers how far it has come. What stands before that (a message that came back, or was committed late) is
looked for every second.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqew.stores.sql.ready_rows import START

_LOOK_AGAIN_MS = 1_000
_SLACK_MS = 100
"""Milliseconds that a search starts before now at least: a message that became due within them may be committed later
than one that became due after it. Entries that died in this time are walked over: with 250 a claim right after a rush
took up to 3.6 times as long, with 100 up to 2.2."""
_LATE_MS = _SLACK_MS // 2
"""Milliseconds from which on a commit is late: others may have looked past it before it could be seen."""
_MOST = 10_000

Bucket = tuple[int, int]
"""A lane and a priority."""
Position = tuple[int, int]
"""due_at and id of a message."""


class Watermarks:
    """The positions that a server has reached in every (lane, priority) of its queues."""

    def __init__(self) -> None:
        # By queue and bucket: the last position, and when all was last looked at.
        self._marks: dict[str, dict[Bucket, tuple[Position, int]]] = {}

    def position(self, queue: str, bucket: Bucket, now: int) -> Position:
        """Return the position after which to look for the next message."""
        known = self._marks.get(queue, {}).get(bucket)
        if known is None:
            return START
        reached, looked_at = known
        if not 0 <= now - looked_at < _LOOK_AGAIN_MS:
            return START
        return min(reached, (now - _SLACK_MS, 0))

    def reach(self, queue: str, bucket: Bucket, looked_from: Position, reached: Position, now: int) -> None:
        """Record that nothing is left to claim from ``looked_from`` to ``reached``."""
        if len(self._marks) > _MOST:
            self._marks.clear()
        marks = self._marks.setdefault(queue, {})
        known = marks.get(bucket)
        if looked_from == START:
            marks[bucket] = reached, now
        elif known is not None:
            marks[bucket] = max(known[0], reached), known[1]

    def next_look_at(self, queue: str, bucket: Bucket) -> int:
        """Return when all of a bucket is to be looked at again."""
        _, looked_at = self._marks.get(queue, {}).get(bucket, (START, 0))
        return looked_at + _LOOK_AGAIN_MS

    def sent(self, queues: Iterable[str], took_ms: int) -> None:
        """Forget the queues if their messages were committed late. Other servers find late ones within a second."""
        if took_ms >= _LATE_MS:
            for queue in queues:
                self.forget(queue)

    def forget(self, queue: str) -> None:
        """Forget the positions in a queue: a message came back, perhaps to where it stood, or was not claimed."""
        self._marks.pop(queue, None)
