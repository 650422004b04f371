"""Parts shared by tests of expressions: the present, a place, and the form of a refusal."""

from datetime import UTC, datetime

import pytest

from sqew.errors import BadExpression
from sqew.schedules import understand

NOW = 1_794_848_400_000
"""Monday 16 November 2026, 17:00 UTC: 18:00 in Berlin."""
BERLIN = "Europe/Berlin"


def utc(text):
    """Return the millisecond of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def canonical(kind, text, zone=BERLIN, now=NOW):
    return understand(kind, text, zone, now).canonical


def refusal(kind, text, zone=BERLIN, now=NOW):
    """Return the sentence that refuses an expression, and the position that it points to."""
    with pytest.raises(BadExpression) as refused:
        understand(kind, text, zone, now)
    return str(refused.value), refused.value.position
