"""Where the next message of a queue is to be looked for.

A claim moves a message away from the head of its queue and leaves a dead entry in the index. Usually these are gone
with the next look; but while anybody in the database holds an old snapshot (a report, a backup, a transaction that was
forgotten) they stay, and every claim walks over all of them: 0.6 ms becomes 5 ms after 60,000 messages. So a server
remembers how far it has come. What stands before that (a message that came back, or was committed late) is looked for
every second.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqew.stores.sql.ready_rows import START

_LOOK_AGAIN_MS = 1_000
_SLACK_MS = 100
"""A message that became due so short a time ago may be committed later than one that became due after it. What died in
this time is walked over: with 250 a claim right after a rush took up to 3.6 times as long, with 100 up to 2.2."""
_LATE_MS = _SLACK_MS // 2
"""From when on a commit is late: others may have looked past it before it could be seen."""
_MOST = 10_000

Bucket = tuple[int, int]
"""A lane and a priority."""
Position = tuple[int, int]
"""due_at and id of a message."""


class Watermarks:
    """How far a server has come in every (lane, priority) of its queues."""

    def __init__(self) -> None:
        # By queue and bucket: the last position, and when all was last looked at.
        self._marks: dict[str, dict[Bucket, tuple[Position, int]]] = {}

    def position(self, queue: str, bucket: Bucket, now: int) -> Position:
        """After which message to look for the next."""
        known = self._marks.get(queue, {}).get(bucket)
        if known is None:
            return START
        reached, looked_at = known
        if not 0 <= now - looked_at < _LOOK_AGAIN_MS:
            return START
        return min(reached, (now - _SLACK_MS, 0))

    def reach(self, queue: str, bucket: Bucket, looked_from: Position, reached: Position, now: int) -> None:
        """Up to a position there is nothing left to claim, as far as it was looked at."""
        if len(self._marks) > _MOST:
            self._marks.clear()
        marks = self._marks.setdefault(queue, {})
        known = marks.get(bucket)
        if looked_from == START:
            marks[bucket] = reached, now
        elif known is not None:
            marks[bucket] = max(known[0], reached), known[1]

    def next_look_at(self, queue: str, bucket: Bucket) -> int:
        """When all of a bucket is to be looked at again."""
        _, looked_at = self._marks.get(queue, {}).get(bucket, (START, 0))
        return looked_at + _LOOK_AGAIN_MS

    def sent(self, queues: Iterable[str], took_ms: int) -> None:
        """Messages were committed so long after their date. Of late ones the other servers know within a second."""
        if took_ms >= _LATE_MS:
            for queue in queues:
                self.forget(queue)

    def forget(self, queue: str) -> None:
        """Something came back into a queue, perhaps to where it stood, or was not claimed after all."""
        self._marks.pop(queue, None)
