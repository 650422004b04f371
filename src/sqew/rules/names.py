"""Rules for the names of queues, lanes and schedules."""

from __future__ import annotations

import re
import unicodedata

from sqew.errors import BadName
from sqew.rules.regions import REGION
from sqew.rules.values import LONGEST_NAME, shown

DEAD_LETTER_SUFFIX = "-dlq"
FIFO_SUFFIX = ".fifo"
QUEUE_SCHEME = "sqs://"
"""The prefix of a queue's name in place of an endpoint."""
RESERVED_NAMES = frozenset({"(by id)", "(other)"})
"""Names under which metrics show values of no single queue."""

_MARKS_KEYS = re.compile(r"[.*#]")
_QUEUE_NAME = re.compile(rf"(?:{REGION}:)?[A-Za-z0-9_-]{{1,80}}(?:\.fifo)?")
"""Names that every dialect can write. Before a colon: the region in which an SQS client made the queue, if it is not
the default one."""
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that no name may have: they break lines of logs and terminals, or can't be stored."""
_SCHEDULE_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,100}")


def check_new_queue_name(name: object) -> None:
    """Raise `BadName` unless a new queue may have the name: every dialect must be able to write it."""
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise BadName(
            f"{shown(name)} can't be a queue's name. Use 1 to 80 letters, digits, '-' or '_', "
            "and '.fifo' at the end for a FIFO queue."
        )


def is_keyed(topic: str) -> bool:
    """Return True if a topic's name is a routing key or pattern, which no topic of AWS can have as its name.

    beyond-queue's topics are such. They need not be created before a client subscribes or publishes to them.

    >>> [is_keyed(name) for name in ("orders", "orders.created", "orders.*", "eu-west-1:orders", "orders.fifo")]
    [False, True, True, False, False]
    """
    return _MARKS_KEYS.search(topic.removesuffix(FIFO_SUFFIX)) is not None


def names_meant(name: str) -> tuple[str, ...]:
    """Return the full names that a queue's name may stand for, in order of preference: ``.fifo`` may be left out."""
    return (name,) if name.endswith(FIFO_SUFFIX) else (name, name + FIFO_SUFFIX)


def check_queue_name(name: object) -> None:
    """Raise `BadName` unless an existing queue may have the name. One made by hq's clients may have almost any name."""
    if isinstance(name, str) and _QUEUE_NAME.fullmatch(name):
        return
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise BadName(
            f"{shown(name)} can't be a queue's name: it must be a string of {LONGEST_NAME} characters or less."
        )
    if name in RESERVED_NAMES or any(unicodedata.category(character) in _UNPRINTABLE for character in name):
        raise BadName(
            f"{shown(name)} can't be a queue's name: "
            f"{'metrics use it' if name in RESERVED_NAMES else 'it holds control characters'}. Choose another."
        )


def dead_letter_name(name: str) -> str:
    """Return a dead-letter queue's name: ``orders`` → ``orders-dlq``; ``orders.fifo`` → ``orders-dlq.fifo``."""
    stem = name.removesuffix(FIFO_SUFFIX)
    made = stem + DEAD_LETTER_SUFFIX + name[len(stem) :]
    if _QUEUE_NAME.fullmatch(name) and not _QUEUE_NAME.fullmatch(made):
        raise BadName(f"'{name}' is too long to add '{DEAD_LETTER_SUFFIX}' to. Name its dead-letter queue, or none.")
    return made


def check_schedule_name(name: object) -> None:
    """Raise `BadName` unless a schedule may have the name."""
    if not isinstance(name, str) or not _SCHEDULE_NAME.fullmatch(name):
        raise BadName(
            f"{shown(name)} can't be a schedule's name. Use 1 to 100 letters, digits, '-', '_', '.' or ':', "
            "and not just dots."
        )


def check_lane(lane: object) -> None:
    """Raise unless the lane can be looked up among a queue's lanes."""
    if not isinstance(lane, str):
        raise BadName(f"{shown(lane)} can't be a lane's name: it must be a text.")
