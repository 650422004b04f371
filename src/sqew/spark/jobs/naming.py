"""The names of queues in SQL."""

from __future__ import annotations

import re

_OTHER = re.compile(r"[^A-Za-z0-9_]")


def view_name(prefix: str, queue: str) -> str:
    """Return the name of a view of a queue: in SQL, names have letters, digits and ``_``.

    >>> view_name("queue", "mail-out.fifo")
    'queue_mail_out_fifo'
    """
    return f"{prefix}_{_OTHER.sub('_', queue)}"
