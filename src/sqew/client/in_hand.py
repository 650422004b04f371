"""Messages that loops are processing, so that none stays leased when its loop is left."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from sqew.errors import MessageNotFound, SqewError, StaleLease
from sqew.model import Message

log = logging.getLogger("sqew.client")


class HeldMessages:
    """The messages that loops are processing. The caller that drops one settles it, and no other does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[tuple[str, int], Message] = {}

    def take(self, message: Message) -> None:
        with self._lock:
            self._messages[message.queue, message.id] = message

    def drop(self, message: Message) -> bool:
        """Drop a message; return True if it was still held."""
        with self._lock:
            return self._messages.pop((message.queue, message.id), None) is not None

    def let_go(self, message: object) -> None:
        """Drop a message that was settled elsewhere: the loop has nothing more to do with it."""
        if isinstance(message, Message):
            self.drop(message)

    def drop_all(self) -> list[Message]:
        with self._lock:
            messages = list(self._messages.values())
            self._messages.clear()
            return messages


@contextlib.contextmanager
def log_refused(message: Message) -> Iterator[None]:
    """Log why a message was not settled: the loop that has left it behind can't get the error."""
    try:
        yield
    except (StaleLease, MessageNotFound):
        log.warning("Message %d of '%s' was finished after its lease was lost", message.id, message.queue)
    except SqewError as error:
        log.error("Message %d of '%s' could not be settled: %s", message.id, message.queue, error)
