"""Where the next page of topics or subscriptions begins."""

from __future__ import annotations

from sqew.http.dialects.aws.pages import last_of
from sqew.http.dialects.aws.sns.refusals import invalid

PAGE = 100
"""How many topics or subscriptions SNS shows at once."""


def after(token: str | None) -> str:
    """The last entry of the page before; nothing where this is the first."""
    last = last_of(token)
    if last is None:
        raise invalid("NextToken")
    return last


def after_number(token: str | None) -> int:
    """The same where entries are numbered."""
    text = after(token)
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise invalid("NextToken")
    return int(text or 0)
