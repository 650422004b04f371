"""The screen of a run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Footer, Static

from plainbench.record.manifest import Manifest
from plainbench.record.manifest import read as read_manifest
from plainbench.record.snapshots import MEASURES, Measure
from plainbench.record.timeline import Tail, Timeline, View
from plainbench.tui.faults import FaultPanel
from plainbench.tui.help import Keys
from plainbench.tui.history import Column, History, columns_of
from plainbench.tui.jump import Jump, Target
from plainbench.tui.lanes import Lanes
from plainbench.tui.numbers import count, duration
from plainbench.tui.peek import Peek
from plainbench.tui.peek_source import peek
from plainbench.tui.scrubber import Scrubber
from plainbench.verdict import summary as summaries
from sqew.errors import SqewError
from sqew.terminal.output import byte_count

_DRAWN_EVERY_S = 0.25
_GRAPHS_EVERY_S = 1.0
_READ_FOR_S = 0.1
"""Seconds for which a log is read at a time; then the screen is drawn and keys are handled."""
_QUIET_AFTER_S = 5.0
_WINDOWS_US: tuple[int | None, ...] = (5_000_000, 30_000_000, None)
_SPANS_US: tuple[int | None, ...] = (None, 60_000_000)
_SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)
_MEASURES: dict[Measure, str] = {"to_ack": "end to end", "to_claim": "enqueue → claim", "held": "claim → ack"}
_PEEKED = 100


class PlainBench(App[None]):
    """A run, live or recorded. It shows the time under the cursor, which follows a run that goes on."""

    TITLE = "PlainBench"
    CSS_PATH = "screen.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (as textual declares it)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause"),
        Binding("p", "peek", "Peek"),
        Binding("j,slash", "jump", "Jump", key_display="j"),
        Binding("n", "fault(1)", "Fault"),
        Binding("b", "fault(-1)", "Fault before", show=False),
        Binding("w", "window", "Window"),
        Binding("m", "measure", "Latency"),
        Binding("z", "zoom", "Zoom in on the last minute, or out", show=False),
        Binding("plus,equals_sign", "speed(1)", "Play faster", key_display="+", show=False),
        Binding("minus", "speed(-1)", "Play slower", key_display="-", show=False),
        Binding("question_mark", "keys", "Keys"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
    ]

    def __init__(self, run: Path) -> None:
        super().__init__()
        self.run_folder = run
        self.recorded: Manifest = read_manifest(run)
        self.timeline = Timeline(self.recorded.config)
        self._tail = Tail(run)
        self.at_us = 0
        """The time that is shown."""
        self.follows = True
        """True if the end of the run is always shown."""
        self.plays = False
        self.speed = 1.0
        self._window = self._span = 0
        self.measure: Measure = "to_ack"
        self.failure: SqewError | None = None
        """The error that ended it, if it was not the user."""
        self._verdict = ""
        self._caught_up = False
        self._columns: list[Column] = []
        self._graphed: tuple[object, ...] = ()
        """The choices and the data that the columns were made of."""
        self._graph_again_at = 0.0
        self._heard_at = self._drawn_at = time.monotonic()

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Static(id="status", markup=False)
        yield Lanes()
        with Container(id="below"):
            with Container(id="left"):
                yield History()
                yield Scrubber()
            yield FaultPanel()
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Start to read and to draw."""
        self.query_one(FaultPanel).border_title = "Faults and workers"
        self.query_one(Lanes).focus()
        self.set_interval(_DRAWN_EVERY_S, self._beat)
        self.call_after_refresh(self._beat)

    # Reading

    def _beat(self) -> None:
        now = time.monotonic()
        passed, self._drawn_at = now - self._drawn_at, now
        try:
            self._read()
        except SqewError as error:
            self.failure = error
            self.exit()
            return
        if self.plays and self._caught_up:
            self.at_us = min(self.timeline.now_us, self.at_us + round(passed * self.speed * 1e6))
            if self.at_us == self.timeline.now_us:
                self.plays = False
        self.draw()

    def _read(self) -> None:
        until = time.monotonic() + _READ_FOR_S
        while events := self._tail.read():
            self.timeline.take(events)
            self._heard_at = time.monotonic()
            if self._heard_at > until:
                break
        else:
            self._caught_up = True
            self._read_verdict()
        if self.follows:
            self.at_us = self.timeline.now_us

    def _read_verdict(self) -> None:
        if not self._verdict and self.timeline.ended and (self.run_folder / summaries.SUMMARY).is_file():
            self._verdict = summaries.read(self.run_folder).verdict.outcome.upper()

    # Drawing

    @property
    def _window_us(self) -> int | None:
        return _WINDOWS_US[self._window]

    def draw(self) -> None:
        """Show the time under the cursor."""
        if not self.is_running:
            return
        timeline, at, main = self.timeline, self.at_us, self.screen_stack[0]
        view = timeline.view(at, self._window_us, self.measure)
        lanes = main.query_one(Lanes)
        lanes.show(view.rows)
        lanes.border_title = f"{self._window_worded} · latency {_MEASURES[self.measure]}"
        main.query_one("#title", Static).update(self._title())
        main.query_one("#status", Static).update(self._status(view))
        main.query_one(FaultPanel).show(timeline, at, self._window_us)
        main.query_one(Scrubber).show(at, timeline.now_us)
        self._draw_history(lanes.chosen)

    @property
    def _window_worded(self) -> str:
        return "All so far" if self._window_us is None else f"Last {self._window_us // 1_000_000} s"

    def _draw_history(self, chosen: tuple[str, str] | None) -> None:
        history = self.screen_stack[0].query_one(History)
        if chosen is None:
            return
        span_us = _SPANS_US[self._span]
        span = self.timeline.snapshots.span(self.timeline.now_us if span_us is None else self.at_us, span_us)
        wanted = (chosen, self.measure, self._span, history.columns_wide)
        if (*wanted, span, self.timeline.events) != self._graphed and (
            wanted != self._graphed[:4] or not self.follows or time.monotonic() >= self._graph_again_at
        ):
            # It takes longer than all the rest, so a run that goes on is drawn only so often.
            self._graph_again_at = time.monotonic() + _GRAPHS_EVERY_S
            self._graphed = (*wanted, span, self.timeline.events)
            self._columns = columns_of(self.timeline, span, history.columns_wide, chosen, self.measure)
        cursor = (self.timeline.snapshots.index(self.at_us) - span.start) * history.columns_wide // max(1, len(span))
        history.show(self._columns, None if self.follows else cursor)
        what = "whole run" if span_us is None else "last minute"
        history.border_title = f"{'/'.join(part for part in chosen if part)} · {what}"

    def _title(self) -> Text:
        recorded = self.recorded
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(" PlainBench ", style="bold reverse")
        text.append(f" {recorded.id}", style="bold")
        facts = [recorded.config.target.driver, recorded.durability]
        facts += ["virtual time"] if recorded.config.mode == "virtual" else []
        facts += [f"seed {recorded.seed}"]
        text.append("  " + " · ".join(fact for fact in facts if fact), style="dim")
        return text

    def _status(self, view: View) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        state, style = self._state()
        text.append(f" {state} ", style=style)
        if self._verdict:
            text.append(f" {self._verdict} ", style="bold green" if self._verdict == "PASSED" else "bold red")
        facts = [] if view.wal_bytes is None else [f"WAL {byte_count(view.wal_bytes)}"]
        facts.append(f"generators ≤ {duration(view.lag_us)}{'' if view.lag_us >= 1_000_000 else ' ms'} late")
        facts += [f"{count(view.dropped)} dropped"] if view.dropped else []
        facts.append(f"{count(self.timeline.events)} events")
        text.append("  " + " · ".join(facts), style="dim")
        return text

    def _state(self) -> tuple[str, str]:
        if not self._caught_up:
            part = self._tail.read_bytes / max(1, self._tail.total_bytes)
            return f"READING {part:.0%}", "bold yellow"
        if self.plays:
            return f"▶ ×{self.speed:g}", "bold green"
        if not self.follows:
            return "❚❚ PAUSED", "bold yellow"
        if self.timeline.ended is not None:
            return f"■ ENDED: {self.timeline.ended}", "bold"
        quiet = time.monotonic() - self._heard_at
        if quiet > _QUIET_AFTER_S:
            return f"● QUIET for {quiet:.0f} s", "bold yellow"
        return "● LIVE", "bold green"

    # Keys

    def action_pause(self) -> None:
        """Freeze the view, or go on: with a live run, or playing a recorded one."""
        is_over = self.timeline.ended is not None
        if self.plays or (self.follows and not is_over):
            self.plays = self.follows = False
        elif not is_over:
            self.follows = True
        else:
            if self.at_us >= self.timeline.now_us:
                self.at_us = 0
            self.follows, self.plays = False, True
        self.draw()

    def action_step(self, steps: int) -> None:
        """Move by moments."""
        self.seek(self.at_us + steps * self.timeline.snapshots.width_us)

    def action_seek(self, at_us: int) -> None:
        self.seek(at_us)

    def seek(self, at_us: int) -> None:
        """Show that time, and stay there."""
        self.follows = self.plays = False
        self.at_us = max(0, min(at_us, self.timeline.now_us))
        self.draw()

    def action_follow(self) -> None:
        """Show the end of the run, and follow it."""
        self.follows, self.plays = True, False
        self.at_us = self.timeline.now_us
        self.draw()

    def action_fault(self, direction: int) -> None:
        """Go to the next time at which something went wrong, or to the one before."""
        found = self.timeline.fault_next_to(self.at_us, direction)
        if found is None:
            self.notify("Nothing went wrong after that." if direction > 0 else "Nothing went wrong before that.")
        else:
            self.seek(found)

    def action_speed(self, direction: int) -> None:
        """Play faster or slower."""
        place = min(len(_SPEEDS) - 1, max(0, _SPEEDS.index(self.speed) + direction))
        self.speed = _SPEEDS[place]
        self.draw()

    def action_window(self) -> None:
        """Switch to the next window over which rates and latencies are counted."""
        self._window = (self._window + 1) % len(_WINDOWS_US)
        self.draw()

    def action_measure(self) -> None:
        """Show another latency."""
        self.measure = MEASURES[(MEASURES.index(self.measure) + 1) % len(MEASURES)]
        self.draw()

    def action_keys(self) -> None:
        """Show what the keys do."""
        self.push_screen(Keys())

    def action_zoom(self) -> None:
        """Draw all of the run, or a minute of it."""
        self._span = (self._span + 1) % len(_SPANS_US)
        self.draw()

    def action_peek(self) -> None:
        """Look at the messages of the topic or lane under the cursor."""
        chosen = self.query_one(Lanes).chosen
        if chosen is None:
            return
        topic, lane = chosen
        now_us = self.timeline.now_us
        is_now = self.follows and self.timeline.ended is None
        note = "" if is_now else "as the queue is now, not as it was at the time that is shown"
        self.push_screen(
            Peek(
                f"{topic}/{lane}" if lane else topic,
                note,
                lambda: peek(self.recorded, self.run_folder, topic, lane, _PEEKED, now_us),
            )
        )

    def action_jump(self) -> None:
        """Ask for a topic or a time, and go there."""
        places = [(topic, lane) for topic in self.timeline.topics for lane in ("", *self.timeline.lanes_of(topic))]
        self.push_screen(Jump(places, self.timeline.now_us), self._go_to)

    def _go_to(self, target: Target | None) -> None:
        if isinstance(target, int):
            self.seek(target)
        elif target is not None:
            self.query_one(Lanes).choose(*target)
            self.draw()

    def on_scrubber_sought(self, event: Scrubber.Sought) -> None:
        """Go where the line was clicked."""
        self.seek(round(event.part * self.timeline.now_us))

    def on_data_table_row_highlighted(self) -> None:
        """Draw the graphs of another topic or lane."""
        if self.screen is self.screen_stack[0]:
            self._draw_history(self.query_one(Lanes).chosen)
