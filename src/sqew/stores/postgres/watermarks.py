"""Where the next message of a queue is to be looked for.

A claim moves a message away from the head of its queue and leaves a dead entry in the index. Usually these are gone
with the next look; but while anybody in the database holds an old snapshot (a report, a backup, a transaction that was
forgotten) they stay, and every claim walks over all of them: 0.6 ms becomes 5 ms after 60,000 messages. So a server
remembers how far it has come. What stands before that (a message that came back, or was committed late) is looked for
every second, and whenever there is not enough behind.
"""

from __future__ import annotations

_START = (-1, 0)
_LOOK_AGAIN_MS = 1_000
_SLACK_MS = 250
"""A message that became due so short a time ago may be committed later than one that became due after it."""
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
            return _START
        reached, looked_at = known
        if not 0 <= now - looked_at < _LOOK_AGAIN_MS:
            return _START
        return min(reached, (now - _SLACK_MS, 0))

    def reach(self, queue: str, bucket: Bucket, looked_from: Position, reached: Position, now: int) -> None:
        """Messages up to a position were claimed."""
        if len(self._marks) > _MOST:
            self._marks.clear()
        marks = self._marks.setdefault(queue, {})
        known = marks.get(bucket)
        if known is None or looked_from == _START:
            marks[bucket] = reached, now
        else:
            marks[bucket] = max(known[0], reached), known[1]

    def forget(self, queue: str) -> None:
        """Something came back into a queue, perhaps to where it stood."""
        self._marks.pop(queue, None)
