"""Where the next page of a list begins, in a token that means nothing to others."""

from __future__ import annotations

import base64
import binascii

from sqew.http.dialects.aws.sns.refusals import invalid

PAGE = 100
"""How many topics or subscriptions SNS shows at once."""


def token_of(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode()


def after(token: str | None) -> str:
    """The last entry of the page before; nothing where this is the first."""
    if not token:
        return ""
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise invalid("NextToken") from error


def after_number(token: str | None) -> int:
    """The same where entries are numbered."""
    text = after(token)
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise invalid("NextToken")
    return int(text or 0)
