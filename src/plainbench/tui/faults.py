"""Faults as they fire, and events of workers."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from plainbench.faults.labels import CRASHES, fault_name
from plainbench.record.snapshots import Happening
from plainbench.record.timeline import Timeline
from plainbench.tui.numbers import clock, count, duration

_STYLES = {"died": "bold red", "started": "green", "disk_full": "red", **dict.fromkeys(CRASHES, "bold red")}


class FaultPanel(Widget):
    """The last faults and events of workers, the last first. Delays, which may be in every call, are counted."""

    DEFAULT_CSS = "FaultPanel { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="faults")
        self._text = Text()

    def show(self, timeline: Timeline, at_us: int, window_us: int | None) -> None:
        text = Text(no_wrap=True, overflow="ellipsis")
        delays = timeline.delays(at_us, window_us)
        if delays:
            seconds = timeline.seconds_in(at_us, window_us)
            text.append("delays  ", style="bold")
            text.append(
                ", ".join(f"{one.where} {count(one.count / seconds)}/s ≤ {_ms(one.ms)}" for one in delays) + "\n",
                style="dim",
            )
        faults = timeline.faults(at_us, max(1, self.size.height))
        for one in faults:
            _append(text, one)
        if not delays and not faults:
            text.append("Nothing has gone wrong yet.", style="dim")
        self._text = text
        self.refresh()

    def render(self) -> Text:
        return self._text


def _append(text: Text, one: Happening) -> None:
    text.append(f"{clock(one.at):>8}  ", style="dim")
    name = fault_name(one.what, one.where) if one.is_fault else f"{one.where} {one.what}"
    text.append(name, style=_STYLES.get(one.what, "yellow"))
    if one.ms:
        text.append(f" {_ms(one.ms)}")
    if one.count > 1:
        text.append(f" ×{one.count}")
    if one.is_fault and one.who:
        text.append(f"  {one.who}", style="dim")
    if one.reason:
        text.append(f"  {one.reason.splitlines()[-1]}", style="dim")
    text.append("\n")


def _ms(ms: float) -> str:
    sign, worded = "-" if ms < 0 else "", duration(abs(ms) * 1000)
    return f"{sign}{worded}" if worded.endswith("s") else f"{sign}{worded} ms"
