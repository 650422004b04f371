"""Fields of a cron expression: their terms, and the sentences for those that can't be."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from sqew.errors import BadExpression
from sqew.spelling import closest

FieldName = Literal["second", "minute", "hour", "day of the month", "month", "day of the week"]

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class FieldRange(Struct, frozen=True):
    """The numbers and names that a field may hold."""

    name: FieldName
    lowest: int
    highest: int
    """The highest number that may be written."""
    whole: int
    """The last number of ``*``: 6 for days of the week, as 7 is another word for 0."""
    words: tuple[str, ...] = ()
    """The names of the numbers, from the lowest on."""
    allowed: str = ""


BOUNDS: dict[FieldName, FieldRange] = {
    bounds.name: bounds
    for bounds in (
        FieldRange("second", 0, 59, 59, allowed="Seconds are 0 to 59, as in 0, 0,30 or */10"),
        FieldRange("minute", 0, 59, 59, allowed="Minutes are 0 to 59, as in 0, 0,30 or */15"),
        FieldRange("hour", 0, 23, 23, allowed="Hours are 0 to 23, as in 9, 9-17, 8,12,18 or */2"),
        FieldRange("day of the month", 1, 31, 31, allowed="Days are 1 to 31, as in 1, 1,15, L (the last) or LW"),
        FieldRange("month", 1, 12, 12, MONTHS, "Months are 1 to 12 or JAN to DEC, as in 1, JAN,JUL or */3"),
        FieldRange(
            "day of the week", 0, 7, 6, WEEKDAYS,
            "Days of the week are 0 to 7 (0 and 7: Sunday) or SUN to SAT, as in 1-5, MON,THU, MON#1 (the first) or 5L",
        ),
    )
}  # fmt: skip


class Term(Struct, frozen=True):
    """A part of a field: a number, or a range with a step, or a day that depends on the month.

    ``mark`` is ``L`` (the last day of the month, or the last such weekday), ``LW`` (its last Monday to Friday) or
    ``#2`` (its second such weekday).
    """

    low: int
    high: int
    step: int = 1
    star: bool = False
    mark: str = ""

    @property
    def text(self) -> str:
        if self.mark:
            return f"{self.low}{self.mark}" if self.low >= 0 else self.mark
        if self.star:
            return "*" if self.step == 1 else f"*/{self.step}"
        if self.low == self.high:
            return str(self.low)
        return f"{self.low}-{self.high}" + (f"/{self.step}" if self.step > 1 else "")

    @property
    def values(self) -> range:
        """The numbers it stands for, without those that depend on the month."""
        return range(0) if self.mark else range(self.low, self.high + 1, self.step)


class Field(Struct, frozen=True):
    """A field as it is understood."""

    name: FieldName
    terms: tuple[Term, ...]

    @property
    def text(self) -> str:
        return ",".join(term.text for term in self.terms)

    @property
    def values(self) -> frozenset[int]:
        return frozenset(value for term in self.terms for value in term.values)

    @property
    def starred(self) -> bool:
        """True if it begins with a star: then the other of the two day fields must match too."""
        return self.terms[0].star

    @property
    def repeats(self) -> bool:
        """True if it has a star or a step, and so gives an interval rather than a time."""
        return any(term.star or term.step > 1 for term in self.terms)

    @property
    def everything(self) -> bool:
        """True if everything matches."""
        return any(term.star and term.step == 1 for term in self.terms)

    @property
    def single(self) -> int | None:
        """The field's number if it has nothing else, or None."""
        only = self.terms[0]
        return only.low if len(self.terms) == 1 and only.low == only.high and not only.mark else None


def number(name: FieldName, value: int) -> Field:
    """Return a field of one number."""
    return Field(name, (Term(value, value),))


class FieldReader:
    """Parser of a field. ``ordinal`` and ``position`` (from 1) locate the field in error sentences."""

    def __init__(self, name: FieldName, ordinal: int, position: int) -> None:
        self.bounds = BOUNDS[name]
        self.ordinal = ordinal
        self.position = position

    def read(self, text: str) -> Field:
        """Parse a field; raise `BadExpression`."""
        terms = []
        at = self.position
        for part in text.split(","):
            terms.append(self._term(part, at))
            at += len(part) + 1
        return Field(self.bounds.name, tuple(terms))

    def _term(self, text: str, at: int) -> Term:
        if not text:
            raise self._wrong("a value is missing next to a comma", at)
        marked = self._marked(text.upper(), at)
        if marked:
            return marked
        span, slash, step_text = text.partition("/")
        step = self._step(step_text, at + len(span) + 1) if slash else 1
        if span == "*":
            return Term(self.bounds.lowest, self.bounds.whole, step, star=True)
        low_text, dash, high_text = span.partition("-")
        low = self._number(low_text, at)
        high = low
        if dash:
            high = self._number(high_text, at + len(low_text) + 1)
            if high < low:
                raise self._backwards(span, low, high, at)
        elif slash:
            high = self.bounds.highest
        if low == high:
            return Term(self._one_sunday(low), self._one_sunday(low))
        return Term(low, high, step)

    def _marked(self, text: str, at: int) -> Term | None:
        if self.bounds.name == "day of the month":
            if text.startswith("L-"):
                raise self._wrong(f"'{text}' (days before the last) is not known here, only L (the last) and LW", at)
            return Term(-1, -1, mark=text) if text in ("L", "LW") else None
        if self.bounds.name != "day of the week":
            return None
        if "#" in text:
            day, _, nth = text.partition("#")
            if nth not in ("1", "2", "3", "4", "5"):
                raise self._wrong(f"'{nth}' after # can't be: it counts them in the month, 1 to 5", at + len(day) + 1)
            weekday = self._one_sunday(self._number(day, at))
            return Term(weekday, weekday, mark=f"#{nth}")
        if text.endswith("L") and text != "L":
            weekday = self._one_sunday(self._number(text[:-1], at))
            return Term(weekday, weekday, mark="L")
        return None

    def _one_sunday(self, value: int) -> int:
        return 0 if self.bounds.name == "day of the week" and value == 7 else value

    def _step(self, text: str, at: int) -> int:
        if not _is_number(text):
            raise self._wrong(f"'{text}' is not a step: write a whole number after the slash", at)
        step = int(text)
        most = self.bounds.whole - self.bounds.lowest
        if step == 0:
            raise self._wrong("a step of 0 goes nowhere", at)
        if step > most:
            raise self._wrong(
                f"a step of {step} is longer than the field, whose longest is {most} "
                f"(for every {step} {self.bounds.name}s use `every` instead)",
                at,
            )
        return step

    def _number(self, text: str, at: int) -> int:
        if not _is_number(text):
            return self._named(text, at)
        value = int(text)
        if value < self.bounds.lowest:
            raise self._wrong(f"'{text}' is below {self.bounds.lowest}", at)
        if value > self.bounds.highest:
            raise self._wrong(f"'{text[:60]}' is above {self.bounds.highest}", at)
        return value

    def _named(self, text: str, at: int) -> int:
        word = text.casefold()
        for value, name in enumerate(self.bounds.words, self.bounds.lowest):
            if word in (name[:3].casefold(), name.casefold()):
                return value
        if not text:
            raise self._wrong("a number is missing", at)
        if text == "?":
            raise self._wrong("'?' is not known here: write * for any", at)
        if text.upper().endswith("W") and self.bounds.name == "day of the month":
            raise self._wrong(f"'{text}' (the nearest weekday) is not known here, only LW (the last weekday)", at)
        close = closest(word, [name[:3].casefold() for name in self.bounds.words])
        hint = f" (did you mean '{close[0].upper()}'?)" if close else ""
        what = "neither a number nor a name" if self.bounds.words else "not a number"
        raise self._wrong(f"'{text}' is {what}{hint}", at)

    def _backwards(self, span: str, low: int, high: int, at: int) -> BadExpression:
        start, end = self.bounds.lowest, self.bounds.whole
        around = ",".join(Term(*ends).text for ends in ((low, end), (start, high)))
        return self._wrong(f"'{span}' runs backwards: to go past the end, write {around}", at)

    def _wrong(self, what: str, at: int) -> BadExpression:
        where = f"Field {self.ordinal} ({self.bounds.name}) at position {at}"
        return BadExpression(f"{where}: {what}. {self.bounds.allowed}.", at)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
