"""Schedules of a server: `Client.schedules`, and its twin for an event loop."""

from __future__ import annotations

from typing import Unpack

from sqew.client import schedule_calls as calls
from sqew.client.protocols import AsyncDo, Do
from sqew.model import Preview, ScheduleInfo, ScheduleRun, ScheduleStatus, TargetKind
from sqew.schedules.keywords import ScheduleFields, Timing

Found = list[ScheduleInfo]


class Schedules:
    """Schedules of messages and events. A server fires them."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def create(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Make a schedule: target, times and message. Raises `sqew.errors.ScheduleExists` if the name is taken."""
        return self._do(calls.create(name, fields))

    def put(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Make a schedule, or replace it by the fields given; those left out get their defaults.

        A paused one stays paused unless the fields say otherwise. Repeating the fields does not touch its next fire.
        """
        return self._do(calls.put(name, fields))

    def change(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Change some fields of a schedule."""
        return self._do(calls.change(name, fields))

    def pause(self, name: str) -> ScheduleInfo:
        """Pause a schedule: it does not fire until `resume`."""
        return self.change(name, status="paused")

    def resume(self, name: str) -> ScheduleInfo:
        """Resume a schedule. The fires that it missed are made up for if it catches up."""
        return self.change(name, status="active")

    def get(self, name: str) -> ScheduleInfo:
        """Return a schedule, and its next fires."""
        return self._do(calls.get(name))

    def list(
        self,
        *,
        status: ScheduleStatus | None = None,
        target_kind: TargetKind | None = None,
        prefix: str = "",
        limit: int | None = None,
        after: str = "",
    ) -> Found:
        """Return schedules by name, those after the given one. Without a ``limit``: all of them."""
        part = self._do(calls.schedules(status, target_kind, prefix, limit, after))
        found = list(part)
        # Where messages are large there are fewer at a time.
        while part.after is not None and (limit is None or len(found) < limit):
            most = None if limit is None else limit - len(found)
            part = self._do(calls.schedules(status, target_kind, prefix, most, part.after))
            found += part
        return found

    def delete(self, name: str) -> None:
        """Delete a schedule, if there is one of that name."""
        self._do(calls.delete(name))

    def run(self, name: str) -> ScheduleRun:
        """Fire a schedule now, out of turn. Its next fire by the clock stays as it is."""
        return self._do(calls.run(name))

    def preview(self, *, timezone: str = "UTC", count: int = 5, **timing: Unpack[Timing]) -> Preview:
        """Return the meaning of an expression, and its next fires."""
        return self._do(calls.preview(timezone, count, timing))


class AsyncSchedules:
    """The methods of `Schedules`, to be awaited."""

    def __init__(self, do: AsyncDo) -> None:
        self._do = do

    async def create(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Make a schedule: target, times and message. Raises `sqew.errors.ScheduleExists` if the name is taken."""
        return await self._do(calls.create(name, fields))

    async def put(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Make a schedule, or replace it by the fields given; those left out get their defaults.

        A paused one stays paused unless the fields say otherwise. Repeating the fields does not touch its next fire.
        """
        return await self._do(calls.put(name, fields))

    async def change(self, name: str, **fields: Unpack[ScheduleFields]) -> ScheduleInfo:
        """Change some fields of a schedule."""
        return await self._do(calls.change(name, fields))

    async def pause(self, name: str) -> ScheduleInfo:
        """Pause a schedule: it does not fire until `resume`."""
        return await self.change(name, status="paused")

    async def resume(self, name: str) -> ScheduleInfo:
        """Resume a schedule. The fires that it missed are made up for if it catches up."""
        return await self.change(name, status="active")

    async def get(self, name: str) -> ScheduleInfo:
        """Return a schedule, and its next fires."""
        return await self._do(calls.get(name))

    async def list(
        self,
        *,
        status: ScheduleStatus | None = None,
        target_kind: TargetKind | None = None,
        prefix: str = "",
        limit: int | None = None,
        after: str = "",
    ) -> Found:
        """Return schedules by name, those after the given one. Without a ``limit``: all of them."""
        part = await self._do(calls.schedules(status, target_kind, prefix, limit, after))
        found = list(part)
        # Where messages are large there are fewer at a time.
        while part.after is not None and (limit is None or len(found) < limit):
            most = None if limit is None else limit - len(found)
            part = await self._do(calls.schedules(status, target_kind, prefix, most, part.after))
            found += part
        return found

    async def delete(self, name: str) -> None:
        """Delete a schedule, if there is one of that name."""
        await self._do(calls.delete(name))

    async def run(self, name: str) -> ScheduleRun:
        """Fire a schedule now, out of turn. Its next fire by the clock stays as it is."""
        return await self._do(calls.run(name))

    async def preview(self, *, timezone: str = "UTC", count: int = 5, **timing: Unpack[Timing]) -> Preview:
        """Return the meaning of an expression, and its next fires."""
        return await self._do(calls.preview(timezone, count, timing))
