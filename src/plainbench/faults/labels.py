"""Names of faults, for people to read."""

from __future__ import annotations

_NAMES = {
    "before_commit": "crash before commit",
    "after_commit": "crash after commit",
    "before_reply": "crash before reply",
    "disk_full": "disk full",
    "clock_jump": "clock jump",
}
_NOWHERE = frozenset({"", "disk", "clock"})
CRASHES = frozenset({"before_commit", "after_commit", "before_reply"})


def fault_name(what: str, where: str) -> str:
    """Return the name of a fault, with the call in which it happened.

    >>> fault_name("after_commit", "ack"), fault_name("disk_full", "disk")
    ('crash after commit in ack', 'disk full')
    """
    name = _NAMES.get(what, what)
    return name if where in _NOWHERE else f"{name} in {where}"
