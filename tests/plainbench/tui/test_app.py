"""The screen of a run, headless: keys go in, and the text that a terminal would show is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from plainbench.config.model import Lane, Target, TopicConfig
from plainbench.record.events import SUFFIX, Event, Recorder
from plainbench.record.recorder import Recording
from plainbench.tui.app import PlainBench
from plainbench.tui.faults import FaultPanel
from plainbench.tui.history import LEFT, History
from plainbench.tui.jump import Jump
from plainbench.tui.lanes import Lanes
from plainbench.tui.peek import Peek
from plainbench.tui.scrubber import Scrubber
from sqew.errors import StoreDamaged
from tests.plainbench.made_up import SECOND, MadeUpRun, config_of, with_manifest
from tests.plainbench.runs import config

TOPICS = [TopicConfig("orders", lanes=[Lane("priority", 3), Lane("normal", 1)]), TopicConfig("mails")]
TERMINALS = [(80, 24), (140, 40)]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a run of nine seconds: ten messages a second for five, a crash in the second, and then nothing."""
    run = MadeUpRun(tmp_path / "run")
    for n in range(1, 51):
        lane = "priority" if n % 2 else "normal"
        at = n * SECOND // 10
        run.sent(at, n, lane=lane)
        run.received(at + 20_000, n, lane=lane)
        run.ended(at + 50_000, n, lane=lane)
    for second in range(10):
        waiting = 1234 if second == 4 else second
        run.add(second * SECOND, "depth", lane="normal", figures={"ready": waiting, "leased": 2})
        run.add(second * SECOND, "depth", figures={"dead": 0, "wal_bytes": 2_097_152})
    run.crashed(2 * SECOND, "w/1")
    run.add(2 * SECOND, "fault", topic="", what="latency", where="send", ms=12.5)
    return with_manifest(run.finish(), config_of(topics=TOPICS))


def on_screen(
    run: Path, scenario: Callable[[PlainBench, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> PlainBench:
    """Run a scenario once everything that is recorded has been read."""
    app = PlainBench(run)

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            while app._tail.read_bytes < app._tail.total_bytes:
                await pilot.pause(0.01)
            app.draw()
            await pilot.pause()
            await scenario(app, pilot)

    asyncio.run(play())
    return app


def cells(app: PlainBench, row: int = 0) -> list[str]:
    lanes = app.screen_stack[0].query_one(Lanes)
    return [cell.plain.strip() for cell in lanes.get_row_at(row)]


def text_of(app: PlainBench, widget: type[Any] | str) -> str:
    found = app.screen_stack[0].query_one(widget)
    return str(found.render())


@pytest.mark.parametrize("size", TERMINALS)
def test_a_recorded_run_is_shown_at_its_end(recorded: Path, size: tuple[int, int]) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        assert "ENDED: settled" in text_of(app, "#status")
        assert "WAL 2.0 MiB" in text_of(app, "#status")
        assert [cells(app, row)[0] for row in range(4)] == ["orders", "priority", "normal", "mails"]
        assert cells(app)[1:3] == ["9", "2"]

    on_screen(recorded, look, size)


@pytest.mark.parametrize("size", TERMINALS)
def test_everything_fits_on_the_screen(recorded: Path, size: tuple[int, int]) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        lanes = app.query_one(Lanes)
        assert sum(column.width for column in lanes.ordered_columns) <= size[0]
        assert not lanes.show_horizontal_scrollbar
        assert not lanes.show_vertical_scrollbar
        for widget in (History, Scrubber, FaultPanel):
            assert app.query_one(widget).region.bottom <= size[1]
            assert app.query_one(widget).size.height >= 1

    on_screen(recorded, look, size)


def test_latencies_and_rates_are_those_of_the_window(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("j", *"5.0", "enter")
        # From when it was due: ten microseconds before it was sent.
        assert cells(app)[5:8] == ["10", "10", "10"]
        assert cells(app)[10:] == ["50.2", "50.2", "50.2"]
        await pilot.press("m")
        assert cells(app)[10:] == ["20.1", "20.1", "20.1"]
        assert "enqueue → claim" in str(app.query_one(Lanes).border_title)
        await pilot.press("end", "w", "w")
        assert "All so far" in str(app.query_one(Lanes).border_title)
        assert cells(app)[10] == "20.1"

    on_screen(recorded, look)


def test_steps_go_back_and_on(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("home", "right", "right", "right", "left")
        assert app.at_us == 2 * app.timeline.snapshots.width_us
        assert "PAUSED" in text_of(app, "#status")
        await pilot.press("shift+right", "end")
        assert app.at_us == app.timeline.now_us

    on_screen(recorded, look)


def test_a_recorded_run_is_played_from_its_beginning_and_stops_at_its_end(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press(*["plus"] * 5)
        app.action_pause()
        assert "▶ ×100" in text_of(app, "#status")
        assert app.at_us == 0
        while app.plays:
            await pilot.pause(0.02)
        assert app.at_us == app.timeline.now_us

    on_screen(recorded, look)


def test_play_can_be_paused(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("minus", "minus")
        app.action_pause()
        app.action_pause()
        stopped = app.at_us
        app._beat()
        assert app.at_us == stopped
        assert stopped < app.timeline.now_us

    on_screen(recorded, look)


def test_a_click_on_the_line_goes_there(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        line = app.query_one(Scrubber)._line
        await pilot.click(Scrubber, offset=(LEFT + line // 2, 0))
        assert app.at_us == pytest.approx(app.timeline.now_us / 2, rel=0.05)

    on_screen(recorded, look)


def test_jump_goes_to_a_time(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("j", *"0:04.2", "enter")
        assert app.at_us == 4_200_000
        assert cells(app)[1] == "1234"

    on_screen(recorded, look)


def test_jump_goes_to_a_topic_or_lane(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("j", *"mails", "enter")
        assert app.query_one(Lanes).chosen == ("mails", "")
        await pilot.press("j", *"orders/normal", "enter")
        assert app.query_one(Lanes).chosen == ("orders", "normal")
        assert "orders/normal" in str(app.query_one(History).border_title)

    on_screen(recorded, look)


def test_jump_says_what_it_can_not_find_and_lets_one_try_again(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("j", *"ordrs", "enter")
        assert isinstance(app.screen, Jump)
        said = str(app.screen.query_one(Static).render())
        assert said == "'ordrs' is neither a topic of this run nor a time (did you mean 'orders'?)."
        app.screen.query_one(Input).value = "orders"
        await pilot.press("enter")
        assert app.query_one(Lanes).chosen == ("orders", "")

    on_screen(recorded, look)


def test_faults_are_listed_up_to_the_time_that_is_shown(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("w", "w")
        assert "crash after commit in ack  w/1" in text_of(app, FaultPanel)
        assert "send 0.1/s ≤ 12.5 ms" in text_of(app, FaultPanel)
        await pilot.press("home")
        assert "Nothing has gone wrong yet." in text_of(app, FaultPanel)
        await pilot.press("n")
        assert app.at_us == 2 * SECOND
        assert "crash after commit" in text_of(app, FaultPanel)

    on_screen(recorded, look)


def test_graphs_mark_crashes_and_the_time_that_is_shown(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("n", "home", "n")
        history = app.query_one(History)
        lines = text_of(app, History).splitlines()
        assert lines[0].startswith("waiting")
        assert lines[0].endswith("1234")
        marks = lines[-1][LEFT:]
        assert marks.count("×") >= 1
        assert marks[history._cursor or 0] == "×"
        await pilot.press("z")
        assert "last minute" in str(history.border_title)

    on_screen(recorded, look)


def test_keys_are_explained(recorded: Path) -> None:
    async def look(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        assert "look at its messages" in str(app.screen.query_one(Static).render())
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    on_screen(recorded, look)


# Runs that go on


def growing(run: Path) -> Recorder:
    recorder = Recorder(run / f"lab{SUFFIX}")
    recorder.record(Event(0, "run", what="began"))
    look(recorder, SECOND, 5)
    return recorder


def look(recorder: Recorder, at: int, ready: int) -> None:
    recorder.record(Event(at, "depth", "orders", "normal", figures={"ready": float(ready)}))
    recorder.flush()


@pytest.fixture
def going(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    return with_manifest(run, config_of())


def test_a_run_that_goes_on_is_followed(going: Path) -> None:
    recorder = growing(going)

    async def watch(app: PlainBench, pilot: Pilot[None]) -> None:
        assert "● LIVE" in text_of(app, "#status")
        assert cells(app)[1] == "5"
        look(recorder, 2 * SECOND, 77)
        app._beat()
        assert cells(app)[1] == "77"
        recorder.record(Event(3 * SECOND, "run", what="settled"))
        recorder.flush()
        app._beat()
        assert "ENDED: settled" in text_of(app, "#status")

    on_screen(going, watch)
    recorder.close()


def test_pause_freezes_the_view_while_the_run_goes_on(going: Path) -> None:
    recorder = growing(going)

    async def watch(app: PlainBench, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        look(recorder, 2 * SECOND, 77)
        app._beat()
        assert "PAUSED" in text_of(app, "#status")
        assert cells(app)[1] == "5"
        await pilot.press("space")
        app._beat()
        assert cells(app)[1] == "77"

    on_screen(going, watch)
    recorder.close()


def test_a_run_without_a_log_yet_is_waited_for(going: Path) -> None:
    async def watch(app: PlainBench, pilot: Pilot[None]) -> None:
        assert cells(app)[0] == "orders"
        growing(going).close()
        app._beat()
        assert cells(app)[1] == "5"

    on_screen(going, watch)


def test_a_damaged_log_ends_the_screen_with_what_is_wrong(going: Path) -> None:
    (going / f"lab{SUFFIX}").write_bytes(b"nonsense\n")
    app = PlainBench(going)

    async def play() -> None:
        async with app.run_test() as pilot:
            while app.failure is None:
                await pilot.pause(0.01)

    asyncio.run(play())

    assert isinstance(app.failure, StoreDamaged)


# Peek


def left_over(folder: Path) -> Path:
    """Record a run without workers."""
    settings = config(mode="virtual", workers=[], workload=[{"topic": "orders", "messages": 7}], until={"idle_s": 1})
    recording = Recording(settings, folder, folder / "plainbench.yaml")
    recording.go()
    return recording.run


async def peeked(app: PlainBench, pilot: Pilot[None]) -> tuple[list[list[str]], str]:
    await pilot.press("p")
    await app.workers.wait_for_complete()
    await pilot.pause()
    assert isinstance(app.screen, Peek)
    table = app.screen.query_one(DataTable)
    rows = [[cell.plain for cell in table.get_row_at(row)] for row in range(table.row_count)]
    return rows, str(app.screen.query_one("#body", Static).render())


def test_peek_shows_messages_without_taking_them(tmp_path: Path) -> None:
    run = left_over(tmp_path)

    async def look_twice(app: PlainBench, pilot: Pilot[None]) -> None:
        first, body = await peeked(app, pilot)
        await pilot.press("escape")
        again, _ = await peeked(app, pilot)
        assert [(row[0], row[2]) for row in first] == [(str(n), "ready") for n in range(1, 8)]
        assert '"n": 1' in body
        assert again == first
        await pilot.press("down")
        await pilot.pause()
        assert '"n": 2' in str(app.screen.query_one("#body", Static).render())

    on_screen(run, look_twice)


def test_peek_says_that_a_recorded_run_is_shown_as_its_queue_is_now(tmp_path: Path) -> None:
    run = left_over(tmp_path)

    async def look_once(app: PlainBench, pilot: Pilot[None]) -> None:
        await peeked(app, pilot)
        assert "as the queue is now" in app.screen._note  # type: ignore[attr-defined]

    on_screen(run, look_once)


def test_peek_says_when_the_queue_is_gone(recorded: Path) -> None:
    async def look_once(app: PlainBench, pilot: Pilot[None]) -> None:
        rows, said = await peeked(app, pilot)
        assert rows == []
        assert "queue.db, is not there" in said

    on_screen(recorded, look_once)


def test_peek_says_which_drivers_can_be_looked_into(tmp_path: Path) -> None:
    made_up = MadeUpRun(tmp_path / "run").finish()
    run = with_manifest(made_up, config_of(target=Target("redis")))

    async def look_once(app: PlainBench, pilot: Pilot[None]) -> None:
        _, said = await peeked(app, pilot)
        assert said == "The driver redis can't show messages without taking them: sqew and sqew-http can."

    on_screen(run, look_once)
