"""A run in progress: reading its logs as they grow, and its state at any time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from plainbench.config.model import Config, Lane, TopicConfig
from plainbench.record.events import SUFFIX, Event, Recorder, read
from plainbench.record.snapshots import Snapshots, quantile, quantiles, rounded
from plainbench.record.timeline import Row, Tail, Timeline
from plainbench.run.real_time import RealRun
from plainbench.verdict.summary import summarize
from sqew.errors import StoreDamaged
from tests.plainbench.made_up import SECOND, MadeUpRun, config_of, with_manifest
from tests.plainbench.runs import config, run_virtual

LANES = [TopicConfig("orders", lanes=[Lane("priority", 3), Lane("normal", 1)])]


def told(run: Path, config: Config | None = None) -> Timeline:
    timeline, tail = Timeline(config or config_of()), Tail(run)
    while events := tail.read():
        timeline.take(events)
    return timeline


def row(timeline: Timeline, at_us: int, lane: str = "", window_us: int | None = None) -> Row:
    return next(one for one in timeline.view(at_us, window_us, "to_ack").rows if one.lane == lane)


# Reading


def test_a_log_is_read_on_from_where_it_was_left(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / f"lab{SUFFIX}")
    tail = Tail(tmp_path)
    recorder.record(Event(1, "run", what="began"))
    recorder.flush()
    first = tail.read()
    recorder.record(Event(2, "run", what="settled"))
    recorder.close()

    then = tail.read()

    assert ([event.at for event in first], [event.at for event in then], tail.read()) == ([1], [2], [])


def test_half_a_line_is_left_until_the_rest_is_there(tmp_path: Path) -> None:
    path = tmp_path / f"lab{SUFFIX}"
    path.write_bytes(b'{"at":1,"event":"run"}\n{"at":2,"ev')
    tail = Tail(tmp_path)
    first = tail.read()
    with path.open("ab") as file:
        file.write(b'ent":"run"}\n')

    then = tail.read()

    assert ([event.at for event in first], [event.at for event in then]) == ([1], [2])


def test_the_log_of_a_worker_that_started_later_is_read_too(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    before = tail.read()
    (tmp_path / f"worker-0-1{SUFFIX}").write_bytes(b'{"at":7,"event":"run"}\n')

    after = tail.read()

    assert (before, [event.at for event in after]) == ([], [7])


def test_a_line_that_is_longer_than_a_read_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / f"lab{SUFFIX}").write_bytes(b'{"at":1,"event":"worker","reason":"%s"}\n' % (b"x" * 500))

    events = Tail(tmp_path).read(most=100)

    assert [len(event.reason) for event in events] == [500]


def test_a_line_that_is_no_event_is_said(tmp_path: Path) -> None:
    (tmp_path / f"lab{SUFFIX}").write_bytes(b'{"at":1,"event":"run"}\n{"at":"soon"}\n')

    with pytest.raises(StoreDamaged, match=r"lab\.events\.jsonl holds a line after byte 0 that is not an event"):
        Tail(tmp_path).read()


# What is known


def test_depths_are_those_of_the_last_look_before_the_time_that_is_shown(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    for second, ready in ((1, 5), (2, 9)):
        run.add(second * SECOND, "depth", lane="normal", figures={"ready": ready, "leased": 1})
        run.add(second * SECOND, "depth", figures={"dead": second, "wal_bytes": 4096 * second})
    timeline = told(run.finish())

    earlier, later = timeline.view(int(1.9 * SECOND), None, "to_ack"), timeline.view(2 * SECOND, None, "to_ack")

    assert (earlier.rows[0].depths, earlier.wal_bytes) == ({"ready": 5, "leased": 1, "dead": 1}, 4096)
    assert (later.rows[0].depths["ready"], later.wal_bytes) == (9, 8192)


def test_rates_are_those_of_the_window(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    for n in range(1, 101):
        run.done(n, at=n * SECOND // 20)
    timeline = told(run.finish())

    busy, idle = row(timeline, 4 * SECOND, window_us=2 * SECOND), row(timeline, 8 * SECOND, window_us=2 * SECOND)

    assert busy.rates["sent"] == pytest.approx(20, rel=0.1)
    assert busy.rates["acked"] == pytest.approx(20, rel=0.1)
    assert idle.rates["acked"] == 0


def test_quantiles_are_those_of_the_summary_within_a_hundredth(tmp_path: Path) -> None:
    latency = {"type": "p95_spike", "base_ms": 5, "p95_ms": 40, "spike_prob": 0.05}
    changes = {"faults": {"queue": {"latency": latency, "error_rate": 0.02}}}
    ran = run_virtual(tmp_path, **changes)
    timeline = told(ran.folder, config(**changes))
    (exact,) = summarize(with_manifest(ran.folder, config(**changes))).topics

    shown = {
        measure: timeline.view(timeline.now_us, None, measure).rows[0].latency for measure in ("to_claim", "to_ack")
    }

    for measure, found in shown.items():
        assert found is not None
        wanted = getattr(exact, measure)
        assert found.count == wanted.count - wanted.missing
        assert found.p50 / 1000 == pytest.approx(wanted.p50, rel=0.01)
        assert found.p99 / 1000 == pytest.approx(wanted.p99, rel=0.01)


def test_it_does_not_matter_in_which_order_the_logs_are_read(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    for n in range(1, 51):
        run.done(n, at=n * 10_000)
    events = list(read(run.finish()))
    sends = [event for event in events if event.event in ("sending", "sent")]
    others = [event for event in events if event.event not in ("sending", "sent")]
    in_order, sends_last = Timeline(config_of()), Timeline(config_of())

    in_order.take(events)
    sends_last.take([*others, *sends])

    for measure in ("to_claim", "held", "to_ack"):
        assert sends_last.view(SECOND, None, measure) == in_order.view(SECOND, None, measure)


def test_a_message_that_is_acked_twice_counts_once(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.done(1)
    run.received(5 * SECOND, 1, "w/1", attempt=2)
    run.ended(6 * SECOND, 1, "w/1")
    timeline = told(run.finish())

    latency = row(timeline, 9 * SECOND).latency

    assert latency is not None
    assert (latency.count, latency.p99 < 1000) == (1, True)


def test_messages_that_were_there_before_have_no_latency(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.add(0, "found", 3, what="ready")
    run.received(SECOND, 3)
    run.ended(2 * SECOND, 3)
    timeline = told(run.finish())

    shown = row(timeline, 2 * SECOND)

    assert shown.latency is None
    assert shown.rates["acked"] == pytest.approx(0.5, rel=0.1)


def test_a_lane_is_told_apart_from_its_topic(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    for n in range(1, 5):
        lane = "priority" if n == 1 else "normal"
        run.sent(100, n, lane=lane)
        run.received(200, n, lane=lane)
        run.ended(n * 1000, n, lane=lane)
    timeline = told(run.finish(at=SECOND), config_of(topics=LANES))

    shown = {lane: row(timeline, SECOND, lane).latency for lane in ("", "priority", "normal")}

    assert {lane: found.count for lane, found in shown.items() if found} == {"": 4, "priority": 1, "normal": 3}


def test_nobody_knows_how_many_were_sent_to_a_lane_in_a_call_for_several(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.sent(SECOND, 1, to=100)
    timeline = told(run.finish(at=SECOND), config_of(topics=LANES))

    shown = {lane: row(timeline, SECOND, lane).rates["sent"] for lane in ("", "normal")}

    assert shown[""] == pytest.approx(100, rel=0.1)
    assert shown["normal"] is None


def test_faults_and_workers_are_listed_the_last_first_and_delays_apart(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.crashed(SECOND)
    run.add(2 * SECOND, "worker", topic="", worker="w", what="died", reason="exit code -9")
    for number in range(10):
        run.add(3 * SECOND + number, "fault", topic="", what="latency", where="send", ms=number)
    timeline = told(run.finish())

    faults, delays = timeline.faults(5 * SECOND, 10), timeline.delays(5 * SECOND, None)

    assert [(one.what, one.at) for one in faults] == [("died", 2 * SECOND), ("after_commit", SECOND)]
    assert [(one.where, one.count, one.ms) for one in delays] == [("send", 10, 9)]
    assert timeline.faults(SECOND // 2, 10) == []


def test_the_next_fault_and_the_one_before_are_found(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.crashed(SECOND)
    run.crashed(3 * SECOND)
    timeline = told(run.finish())

    found = [timeline.fault_next_to(2 * SECOND, direction) for direction in (1, -1)]

    assert found == [3 * SECOND, SECOND]
    assert timeline.fault_next_to(3 * SECOND, 1) is None


def test_what_a_generator_dropped_is_added_up(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    for second, dropped in ((1, 2), (2, 5)):
        for sender in ("generator-0/0", "generator-0/1"):
            run.add(second * SECOND, "generator", worker=sender, figures={"lag_us": 7000, "dropped": dropped})
    timeline = told(run.finish())

    assert timeline.view(SECOND, None, "to_ack").dropped == 4
    assert timeline.view(3 * SECOND, None, "to_ack").dropped == 10


def test_a_run_that_goes_on_is_followed_to_its_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    settings = config()
    timeline, tail = Timeline(settings), Tail(run)
    going = threading.Thread(target=RealRun(settings, tmp_path, run, None, lambda _: None).go)
    seen_live = False

    going.start()
    while going.is_alive() or timeline.ended is None:
        timeline.take(tail.read())
        seen_live = seen_live or (timeline.ended is None and timeline.events > 0)
    going.join()
    timeline.take(tail.read())

    assert seen_live
    assert timeline.ended == "settled"
    found = timeline.view(timeline.now_us, None, "to_ack").rows[0]
    assert found.latency is not None
    assert found.latency.count == 200
    assert found.depths["ready"] == 0


# Moments


def test_a_longer_run_has_longer_moments_and_not_more() -> None:
    snapshots = Snapshots()
    for second in range(10_000):
        snapshots.at(second * SECOND).served("orders", "").counts["acked"] += 1

    total = sum(moment.lanes["orders", ""].counts["acked"] for moment in snapshots if moment.lanes)

    assert len(snapshots) <= 2_000
    assert total == 10_000
    assert len(snapshots) * snapshots.width_us >= 9_999 * SECOND


def test_what_happened_in_moments_that_become_one_is_put_together(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.crashed(100_000, "w/0")
    run.crashed(200_001, "w/1")
    run.add(3_600 * SECOND, "depth", figures={"ready": 1})
    timeline = told(run.finish(at=3_600 * SECOND))

    (one,) = timeline.faults(SECOND, 5)

    assert (one.count, one.who, one.at) == (2, "", 200_001)


def test_quantiles_of_the_histogram_are_those_of_the_samples() -> None:
    samples = {rounded(us): 1 for us in range(1_000, 101_000, 1_000)}

    found = quantiles(samples)

    assert found is not None
    assert [found.p50, found.p95, found.p99] == pytest.approx([50_000, 95_000, 99_000], rel=0.01)
    assert quantile(samples, 0.99) == pytest.approx(99_000, rel=0.01)
    assert quantiles({}) is None
