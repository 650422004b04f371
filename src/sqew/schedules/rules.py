"""Rules by which schedules fire, made from an expression as written or as stored.

A rule is stored in its canonical form, of which there are three: a cron string (``0 9 * * 1-5``), an interval that no
cron string can say (``@every 1h30m``, ``@every 2d at 09:00``), and an instant (``2026-11-16T17:00:00Z``).

    >>> rule = understand("when", "every weekday at 9am", "Europe/Berlin", now_ms=0)
    >>> rule.canonical, rule.sentence
    ('0 9 * * 1-5', 'At 09:00 on weekdays, Europe/Berlin time')
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import Protocol

from sqew.errors import BadExpression
from sqew.model import ExpressionKind
from sqew.schedules.cron import Cron, read_cron
from sqew.schedules.english.describe import cron_sentence, day_phrase, days_sentence, elapsed_sentence, instant_sentence
from sqew.schedules.english.parse import canonical_when
from sqew.schedules.firing import NEVER, next_fire
from sqew.schedules.instants import parse_instant, read_instant
from sqew.schedules.intervals import Interval, canonical_days, canonical_every, canonical_interval, stored_interval
from sqew.schedules.slots import CronSlots, EveryNthDay
from sqew.schedules.zones import DAY, END_OF_TIME, check_zone, utc_time

LONGEST_EXPRESSION = 300
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T")


class Rule(Protocol):
    """A rule by which a schedule fires."""

    @property
    def canonical(self) -> str:
        """The form in which it is stored."""
        ...

    @property
    def zone(self) -> str:
        """The IANA name of the time zone it is read in."""
        ...

    @property
    def sentence(self) -> str:
        """The rule in a sentence, for people."""
        ...

    def next_after(self, ms: int) -> int | None:
        """Return the first fire strictly after this epoch millisecond; None: never again."""
        ...


class CronRule:
    """A rule that fires when the local clock shows a time of a cron expression."""

    def __init__(self, cron: Cron, zone: str) -> None:
        self.canonical, self.zone = cron.text, zone
        self._cron = cron
        self._slots = CronSlots(cron)

    @cached_property
    def sentence(self) -> str:
        return cron_sentence(self._cron, self.zone)

    def check_fires(self, text: str) -> None:
        """Raise `BadExpression` if no such day exists, as for 30 February."""
        if self._slots.after(0) == NEVER:
            raise BadExpression(f"'{text}' never fires: no day is{day_phrase(self._cron)}. Choose another day.")

    def next_after(self, ms: int) -> int | None:
        return _as_ms(next_fire(self._slots, self.zone, max(ms // 1000, -1)))


class DaysRule:
    """A rule that fires at one local time of every n-th day."""

    def __init__(self, interval: Interval, zone: str) -> None:
        days, weekday, (hour, minute, second) = interval.seconds // DAY, interval.weekday, interval.time
        self.canonical, self.zone = canonical_days(days, interval.time, weekday), zone
        self.sentence = days_sentence(days, interval.time, weekday, zone)
        self._slots = EveryNthDay(days, weekday, hour * 3_600 + minute * 60 + second)

    def next_after(self, ms: int) -> int | None:
        return _as_ms(next_fire(self._slots, self.zone, max(ms // 1000, -1)))


class ElapsedRule:
    """A rule that fires whenever so much time has passed, counted from 1970 in UTC."""

    def __init__(self, seconds: int, zone: str) -> None:
        self.canonical, self.zone = canonical_interval(seconds), zone
        self.sentence = elapsed_sentence(seconds)
        self._seconds = seconds

    def next_after(self, ms: int) -> int | None:
        fire = (ms // 1000 // self._seconds + 1) * self._seconds
        return fire * 1000 if fire < END_OF_TIME else None


class OnceRule:
    """A rule that fires at one instant."""

    def __init__(self, ms: int, zone: str) -> None:
        self.canonical, self.zone = utc_time(ms), zone
        self.sentence = instant_sentence(ms, zone)
        self._ms = ms

    def next_after(self, ms: int) -> int | None:
        return self._ms if self._ms > ms else None


def understand(kind: ExpressionKind, text: str, zone: str, now_ms: int) -> Rule:
    """Make a rule of an expression as written. Raise `BadExpression` or `BadZone`, which say what is wrong and what to
    do."""
    check_zone(zone)
    if len(text) > LONGEST_EXPRESSION:
        raise BadExpression(f"The expression has {len(text)} characters; {LONGEST_EXPRESSION} are allowed. Shorten it.")
    if not text.strip():
        raise BadExpression(f"The expression is empty. {_EMPTY[kind]}", 1)
    rule = rule_from(_canonical(kind, text, zone, now_ms), zone)
    if isinstance(rule, CronRule):
        rule.check_fires(text.strip())
    return rule


def _canonical(kind: ExpressionKind, text: str, zone: str, now_ms: int) -> str:
    if kind == "cron":
        return read_cron(text).text
    if kind == "every":
        return canonical_every(text)
    if kind == "when":
        return canonical_when(text, zone, now_ms)
    return utc_time(read_instant(text, zone, now_ms))


@lru_cache(maxsize=16_384)
def rule_from(canonical: str, zone: str) -> Rule:
    """Return the rule of a canonical form. It is cached and shared: it never changes."""
    check_zone(zone)
    if canonical.startswith("@every "):
        interval = stored_interval(canonical)
        return DaysRule(interval, zone) if interval.seconds % DAY == 0 else ElapsedRule(interval.seconds, zone)
    if is_instant(canonical):
        return OnceRule(parse_instant(canonical, zone), zone)
    return CronRule(read_cron(canonical), zone)


def is_instant(canonical: str) -> bool:
    """Return True if the canonical form fires once."""
    return _INSTANT.match(canonical) is not None


def _as_ms(second: int | None) -> int | None:
    return None if second is None else second * 1000


_EMPTY: dict[ExpressionKind, str] = {
    "cron": "Write five fields, as in '0 9 * * 1-5' for 9:00 on Monday to Friday.",
    "every": "Write an interval, as in '5 minutes'.",
    "when": "Write when in plain English, as in 'every weekday at 9am'.",
    "fire_at": "Write a time, as in 2026-12-24T18:00:00Z.",
}
