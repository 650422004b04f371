"""Where the next page of a list begins, in a token that means nothing to others."""

from __future__ import annotations

import base64
import binascii
import contextlib

_AFTER = "after "
"""What a token begins with: so that few other texts can be one."""


def token_of(last: str) -> str:
    """The token of the page that begins after an entry."""
    return base64.b64encode(f"{_AFTER}{last}".encode()).decode()


def last_of(token: str | None) -> str | None:
    """The entry that a token of ours holds; nothing for the first page, None where it is not ours.

    >>> last_of(token_of("orders")), last_of(None), last_of("AAAA")
    ('orders', '', None)
    """
    if not token:
        return ""
    with contextlib.suppress(binascii.Error, ValueError):
        text = base64.b64decode(token.encode(), validate=True).decode()
        if text.startswith(_AFTER):
            return text.removeprefix(_AFTER)
    return None
