"""The beginning of the next page of topics or subscriptions."""

from __future__ import annotations

from sqew.http.dialects.aws.pages import last_of
from sqew.http.dialects.aws.sns.refusals import invalid

PAGE = 100
"""The number of topics or subscriptions that SNS shows at once."""


def after(token: str | None) -> str:
    """Return the last entry of the page before; empty for the first page."""
    last = last_of(token)
    if last is None:
        raise invalid("NextToken")
    return last


def after_number(token: str | None) -> int:
    """Return the number of the last entry of the page before; 0 for the first page."""
    text = after(token)
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise invalid("NextToken")
    return int(text or 0)
