"""An oracle for schedules, by brute force: every minute of three years, and the clock's time at each.

It shares nothing with the code under test but the time zone database. Times are minutes since 1970; local ones count
as if the clock had never been changed.
"""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) // 60
LAST = int(datetime(2029, 1, 1, tzinfo=UTC).timestamp()) // 60
_START, _END = FIRST - 3 * 1440, LAST + 3 * 1440


class Clock:
    """The clock of a zone through three years."""

    def __init__(self, zone):
        self._zone = ZoneInfo(zone)
        self._begin = self._show(_START)
        self._reached = []
        """Minutes at which the clock first showed each local minute or went past it."""
        self._shown = []
        """Local minutes that the clock shows at each minute."""
        self.changes = []
        """Changes of the clock: the minute, and the number of minutes that it was changed by."""
        for hour in range(_START, _END, 60):
            self._run(hour)

    def _show(self, minute):
        local = (EPOCH + timedelta(minutes=minute)).astimezone(self._zone).replace(tzinfo=UTC)
        return int((local - EPOCH).total_seconds()) // 60

    def _run(self, hour):
        now, unseen = self._show(hour), self._begin + len(self._reached)
        if self._show(hour + 60) == now + 60 and now == unseen and (not self._shown or self._shown[-1] == now - 1):
            self._shown.extend(range(now, now + 60))
            self._reached.extend(range(hour, hour + 60))
        else:
            for minute in range(hour, hour + 60):
                self._tick(minute, self._show(minute))

    def _tick(self, minute, local):
        if local != self._shown[-1] + 1:
            self.changes.append((minute, local - self._shown[-1] - 1))
        self._shown.append(local)
        for _ in range(self._begin + len(self._reached), local + 1):
            self._reached.append(minute)

    def shows(self, minute):
        return self._shown[minute - _START]

    def reaches(self, local):
        return self._reached[local - self._begin]

    def is_shown(self, local):
        return self.shows(self.reaches(local)) == local

    def fixed(self, locals_wanted):
        """Return the fires of fixed times: when the clock first reaches each local minute or leaves it behind."""
        return _within({self.reaches(local) for local in locals_wanted})

    def repeating(self, locals_wanted):
        """Return the fires of repeating rules: just after a change, the clock as it was before counts as well."""
        wanted = set(locals_wanted)
        fires = {self.reaches(local) for local in wanted if self.is_shown(local)}
        for change, by in self.changes:
            for minute in range(change, change + abs(by)):
                new, old = self.shows(minute) in wanted, self.shows(minute) - by in wanted
                fires.discard(minute)
                if (new or old) if by > 0 else (new and old):
                    fires.add(minute)
        return _within(fires)


def _within(minutes):
    return sorted(minute for minute in minutes if FIRST <= minute < LAST)


def local_minutes(is_day, minutes_of_day):
    """Yield every local minute of the days that fit."""
    day = date(2025, 12, 31)
    while day <= date(2029, 1, 1):
        if is_day(day):
            midnight = (day - date(1970, 1, 1)).days * 1440
            yield from (midnight + minute for minute in minutes_of_day)
        day += timedelta(days=1)
