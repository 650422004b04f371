"""Cron expressions: five fields, or six with the seconds first, or a word such as ``@daily``.

>>> read_cron("0 09 * * mon-fri").text
'0 9 * * 1-5'
"""

from __future__ import annotations

import re

from msgspec import Struct

from sqew.errors import BadExpression, nearest
from sqew.schedules.cron_fields import Field, FieldName, FieldReader, number

WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_YEAR = re.compile(r"(?:19|20)[0-9]{2}(?:[-,/][0-9]+)*")
_NAMES: tuple[FieldName, ...] = ("second", "minute", "hour", "day of the month", "month", "day of the week")


class Cron(Struct, frozen=True):
    """A cron expression as it is understood."""

    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        """The canonical form: numbers only, single-spaced, and without seconds if these are 0."""
        fields = (self.second, self.minute, self.hour, self.day, self.month, self.weekday)
        return " ".join(field.text for field in (fields if self.second.single != 0 else fields[1:]))

    @property
    def repeats(self) -> bool:
        """True if it follows elapsed time: it has a star or a step, which give an interval rather than a time."""
        return self.second.repeats or self.minute.repeats or self.hour.repeats

    @property
    def any_day(self) -> bool:
        """True if it takes every day of its months."""
        return self.day.everything and self.weekday.everything

    @property
    def both_days(self) -> bool:
        """True if a day must match both day fields; otherwise either is enough (as in Vixie's cron)."""
        return self.day.starred or self.weekday.starred


def read_cron(text: str) -> Cron:
    """Parse a cron expression; raise `BadExpression`. It may be one that never fires."""
    if text.lstrip().startswith("@"):
        text = _spelled_out(text)
    parts = [(found[0], found.start() + 1) for found in re.finditer(r"\S+", text)]
    if len(parts) >= 5 and _YEAR.fullmatch(parts[-1][0]):
        raise _has_year(parts)
    if len(parts) not in (5, 6):
        raise BadExpression(_wrong_count([part for part, _ in parts]))
    names = _NAMES[6 - len(parts) :]
    fields = [
        FieldReader(name, ordinal, position).read(part)
        for ordinal, (name, (part, position)) in enumerate(zip(names, parts, strict=True), 1)
    ]
    return Cron(*fields) if len(fields) == 6 else Cron(number("second", 0), *fields)


def _spelled_out(text: str) -> str:
    word = text.strip().casefold()
    if word in WORDS:
        return WORDS[word]
    position = text.index("@") + 1
    if word.startswith("@every"):
        said = text.strip()[len("@every") :].strip() or "5 minutes"
        raise BadExpression(f"'@every' is not a cron expression: use `every` with '{said}' instead.", position)
    raise BadExpression(
        f"'{text.strip()}' at position {position} is not known{nearest(word, WORDS)}. "
        f"The words are: {', '.join(WORDS)}.",
        position,
    )


def _wrong_count(parts: list[str]) -> str:
    hint = _meant([*parts, "*", "*", "*", "*", "*"][:5] if len(parts) < 5 else parts[:-1])
    fields = f"{len(parts)} field{'' if len(parts) == 1 else 's'}"
    if len(parts) == 7:
        fields += " (years are not known)"
    return (
        f"A cron expression has 5 fields (minute, hour, day of the month, month, day of the week), "
        f"or 6 with the second first; this one has {fields}.{hint if 2 <= len(parts) <= 7 else ''}"
    )


def _has_year(parts: list[tuple[str, int]]) -> BadExpression:
    year, position = parts[-1]
    others = [part for part, _ in parts[:-1]]
    return BadExpression(
        f"Field {len(parts)} at position {position}: '{year}' is a year, and years are not known here. "
        f"Leave it out, or use `fire_at` for one date.{_meant(others if len(others) >= 5 else [*others, '*'])}",
        position,
    )


def _meant(parts: list[str]) -> str:
    meant = " ".join("*" if part == "?" else part for part in parts)
    return f" Did you mean '{meant}'?" if _is_cron(meant) else ""


def _is_cron(text: str) -> bool:
    try:
        read_cron(text)
    except BadExpression:
        return False
    return True
