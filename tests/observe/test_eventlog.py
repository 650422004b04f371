"""The event log: the contents of a line, the time when it is in the file, and failures that must not stop the queue."""

import json
import logging
import os
import subprocess
import threading
import time
import tracemalloc
from pathlib import Path
from typing import get_args

import pytest

from sqew.errors import BadValue, NotFound, StoreClosed, StoreDamaged, StoreUnusable
from sqew.model import Fact, FactKind
from sqew.observe import eventlog, logfile
from sqew.observe.eventlog import EventLog, LoggedEvent, read

T = 1_700_000_000_000_000


def sent(id, **fields):
    return Fact("sent", "orders", "normal", id, 0, **fields)


def ids(path):
    return [event.id for event in read(path)]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def files_of(path):
    return sorted(file.name for file in path.parent.iterdir() if not file.name.endswith(".lock"))


# What a line holds


def test_a_line_holds_when_what_where_which_and_how_often(path):
    with EventLog(path) as log:
        log.record([sent(7)], T)

    assert path.read_text() == (
        '{"t":1700000000000000,"event":"sent","queue":"orders","lane":"normal","id":7,"attempts":0}\n'
    )


def test_the_worker_is_named_where_one_is_known(path):
    with EventLog(path) as log:
        log.record([Fact("extended", "orders", "normal", 7, 1, "w1"), Fact("extended", "orders", "normal", 8, 1)], T)

    assert [line.get("worker") for line in lines(path)] == ["w1", None]
    assert "worker" not in lines(path)[1]


@pytest.mark.parametrize("kind", get_args(FactKind))
def test_the_age_is_there_where_it_means_something_even_when_it_is_0(path, kind):
    with EventLog(path) as log:
        log.record([Fact(kind, "orders", "normal", 7, 1, age_ms=0)], T)

    assert ("age_ms" in lines(path)[0]) == (kind in ("received", "acked"))


def test_a_reason_is_there_when_there_is_one(path):
    with EventLog(path) as log:
        log.record([Fact("dead", "orders", "normal", 7, 5, reason="boom"), Fact("dead", "orders", "normal", 8, 5)], T)

    assert [line.get("reason") for line in lines(path)] == ["boom", None]


def test_any_text_is_one_line_and_comes_back_as_it_was(path):
    odd = 'a "quoted"\nline\r\x00\u2028 \\ Ünïcödé 🎉'
    with EventLog(path) as log:
        log.record([Fact("nacked", "q", odd, 7, 1, odd, reason=odd)], T)

    assert path.read_bytes().count(b"\n") == 1
    assert list(read(path)) == [LoggedEvent(T, "nacked", "q", odd, 7, 1, odd, None, odd)]


def test_text_that_utf_8_cannot_hold_is_spelled_out_and_its_neighbours_are_kept(path):
    with EventLog(path) as log:
        log.record([sent(1), Fact("nacked", "q", "normal", 2, 1, "w\udcff", reason="r\ud800"), sent(3)], T)

    assert ids(path) == [1, 2, 3]
    assert lines(path)[1]["worker"] == "w\\udcff"
    assert lines(path)[1]["reason"] == "r\\ud800"


# When it is in the file


def test_an_event_is_in_the_file_soon_without_anybody_flushing(path):
    with EventLog(path) as log:
        log.record([sent(1)], T)

        wait_until(lambda: path.stat().st_size > 0)

        assert ids(path) == [1]


def test_an_event_after_a_quiet_time_is_in_the_file_soon_too(path):
    with EventLog(path) as log:
        log.record([sent(1)], T)
        time.sleep(4 * eventlog.LINGER_SECONDS)  # the writer has gone to sleep
        log.record([sent(2)], T)

        wait_until(lambda: ids(path) == [1, 2])


def test_flush_puts_everything_recorded_before_it_into_the_file(path):
    with EventLog(path) as log:
        for id in range(5_000):
            log.record([sent(id)], T + id)
        log.flush()

        assert ids(path) == list(range(5_000))


def test_close_writes_the_rest_and_may_be_called_again(path):
    log = EventLog(path)
    log.record([sent(1)], T)

    log.close()
    log.close()

    assert ids(path) == [1]


def test_recording_on_a_closed_log_is_an_error_of_the_caller(path):
    log = EventLog(path)
    log.close()

    with pytest.raises(StoreClosed, match="was closed"):
        log.record([sent(1)], T)


def test_a_log_that_nothing_was_recorded_in_has_no_thread_and_no_lines(path):
    before = threading.active_count()
    with EventLog(path) as log:
        log.record([], T)

        assert threading.active_count() == before

    assert path.read_bytes() == b""


def test_an_idle_log_does_not_wake_up(path):
    with EventLog(path) as log:
        log.record([sent(1)], T)
        log.flush()
        thread = next(thread for thread in threading.enumerate() if thread.name == "sqew event log")
        status = Path(f"/proc/self/task/{thread.native_id}/status")
        if not status.exists():
            pytest.skip("needs /proc")

        def switches():
            return int(status.read_text().split("voluntary_ctxt_switches:")[1].split()[0])

        def stays_asleep():
            before = switches()
            time.sleep(0.5)
            return switches() == before

        # What it has just written may keep it awake for a moment, on a machine that gives it no time.
        wait_until(stays_asleep)


def test_events_of_many_threads_are_all_there_and_in_each_thread_s_order(path):
    with EventLog(path, max_bytes=100_000, keep=1000) as log:

        def work(worker):
            for id in range(2_000):
                log.record([Fact("sent", f"q{worker}", "normal", id, 0)], T)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for worker in range(4):
        assert [event.id for event in read(path) if event.queue == f"q{worker}"] == list(range(2_000))


def test_a_log_that_was_not_closed_is_written_when_the_interpreter_exits(path, python):
    child = python(
        """
        import sys
        from sqew.model import Fact
        from sqew.observe.eventlog import EventLog
        log = EventLog(sys.argv[1])
        for id in range(1000):
            log.record([Fact("sent", "orders", "normal", id, 0)], id)
        """,
        path,
    )

    assert child.communicate() == ("", "")
    assert ids(path) == list(range(1000))


def test_a_forked_child_goes_on_with_a_buffer_of_its_own(path, python):
    child = python(
        """
        import os, sys, warnings
        from sqew.model import Fact
        from sqew.observe.eventlog import EventLog
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of any fork beside threads
        log = EventLog(sys.argv[1])
        log.record([Fact("sent", "parent", "normal", 1, 0)], 1)
        if pid := os.fork():
            assert os.waitpid(pid, 0)[1] == 0
        else:
            log.record([Fact("sent", "child", "normal", 2, 0)], 2)
        log.close()
        """,
        path,
    )

    assert child.communicate() == ("", "")
    assert sorted(event.queue for event in read(path)) == ["child", "parent"]


def test_without_a_thread_to_be_had_the_caller_writes(path, monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with EventLog(path) as log:
        log.record([sent(1)], T)

        assert ids(path) == [1]


# Files


def test_a_full_file_is_numbered_and_the_oldest_beyond_keep_is_deleted(path):
    with EventLog(path, max_bytes=1_000, keep=2) as log:
        for id in range(100):
            log.record([sent(id)], T)
            log.flush()

    assert files_of(path) == ["events.jsonl", "events.jsonl.1", "events.jsonl.2"]
    assert all(file.stat().st_size <= 1_000 for file in path.parent.iterdir())
    assert ids(path) == list(range(ids(path)[0], 100))
    assert len(ids(path)) > 20


def test_files_are_no_larger_than_asked_when_many_lines_come_at_once(path):
    with EventLog(path, max_bytes=4_096, keep=1000) as log:
        log.record([sent(id) for id in range(1_000)], T)

    assert all(file.stat().st_size <= 4_096 for file in path.parent.iterdir())
    assert ids(path) == list(range(1_000))


def test_a_line_that_is_larger_than_a_file_has_a_file_of_its_own(path):
    with EventLog(path, max_bytes=200) as log:
        log.record([sent(1), sent(2, reason="x" * 500), sent(3)], T)

    assert files_of(path) == ["events.jsonl", "events.jsonl.1", "events.jsonl.2"]
    assert ids(path) == [1, 2, 3]


def test_keep_0_keeps_only_the_file_that_is_written(path):
    with EventLog(path, max_bytes=1_000, keep=0) as log:
        log.record([sent(id) for id in range(100)], T)

    assert files_of(path) == ["events.jsonl"]
    assert ids(path)[-1] == 99


def test_a_smaller_keep_deletes_the_files_that_are_too_many_at_the_next_rotation(path):
    with EventLog(path, max_bytes=200, keep=8) as log:
        log.record([sent(id) for id in range(40)], T)
    with EventLog(path, max_bytes=200, keep=2) as log:
        log.record([sent(id) for id in range(40, 44)], T)

    assert files_of(path) == ["events.jsonl", "events.jsonl.1", "events.jsonl.2"]


def test_a_rotation_that_was_cut_short_loses_and_disorders_nothing(path):
    with EventLog(path, max_bytes=200, keep=8) as log:
        log.record([sent(id) for id in range(8)], T)
    for number in (3, 2):  # as after a kill between two renames
        Path(f"{path}.{number}").rename(f"{path}.{number + 1}")

    before = ids(path)
    with EventLog(path, max_bytes=200, keep=8) as log:
        log.record([sent(id) for id in range(8, 16)], T)

    assert before == list(range(8))
    assert ids(path) == list(range(16))


def test_a_file_that_somebody_moved_away_is_begun_anew(path):
    with EventLog(path) as log:
        log.record([sent(1)], T)
        log.flush()
        path.rename(path.with_name("old"))
        log.record([sent(2)], T)
        log.flush()

        assert ids(path) == [2]


WRITER = """
import sys, time
from sqew.model import Fact
from sqew.observe.eventlog import EventLog
path, worker, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with EventLog(path, max_bytes=20_000, keep=10_000) as log:
    for id in range(count):
        log.record([Fact("received", "orders", "normal", id, 1, worker, 5)], time.time_ns() // 1000)
        if id % 40 == 0:
            log.flush()
"""


def test_processes_that_share_a_log_and_rotate_it_lose_and_tear_no_line(path, python):
    writers = [python(WRITER, path, worker, 8_000) for worker in ("a", "b", "c")]

    while_written = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            while_written = sum(1 for _ in read(path))

    assert [writer.communicate() for writer in writers] == [("", "")] * 3
    assert while_written > 0
    assert len(files_of(path)) > 50
    by_worker = {"a": [], "b": [], "c": []}
    for event in read(path):
        by_worker[event.worker].append(event.id)
    assert by_worker == {worker: list(range(8_000)) for worker in "abc"}


def test_a_reader_that_started_before_a_rotation_sees_each_event_once(path):
    with EventLog(path, max_bytes=1_000, keep=1000) as log:
        log.record([sent(id) for id in range(20)], T)
        log.flush()
        events = read(path)
        seen = [next(events).id for _ in range(15)]

        log.record([sent(id) for id in range(20, 200)], T)
        log.flush()

        assert seen + [event.id for event in events] == list(range(200))


def test_events_that_are_added_between_a_reader_s_last_look_and_a_rotation_are_read(path, monkeypatch):
    open_newer = eventlog._open_newer

    def late(log_path, current):
        if current is not None:
            monkeypatch.setattr(eventlog, "_open_newer", open_newer)
            log.record([sent(id) for id in range(5, 100)], T)
            log.flush()
        return open_newer(log_path, current)

    with EventLog(path, max_bytes=1_000, keep=1000) as log:
        log.record([sent(id) for id in range(5)], T)
        log.flush()
        monkeypatch.setattr(eventlog, "_open_newer", late)

        assert ids(path) == list(range(100))


# Crashes


def test_kill_9_leaves_whole_lines_without_a_gap(path, python):
    for round in range(5):
        rotated = len(files_of(path))
        child = python(WRITER, path, round, 10_000_000)
        wait_until(lambda more=rotated + 2: len(files_of(path)) > more)

        child.kill()
        child.wait()

        written = [event.id for event in read(path) if event.worker == str(round)]
        assert written == list(range(len(written)))
        assert len(written) > 100


WHOLE_BUT_FOR_ITS_NEWLINE = '{"t":1,"event":"sent","queue":"o","lane":"n","id":1,"attempts":0}'


@pytest.mark.parametrize("torn", ["{", '{"t":17000', WHOLE_BUT_FOR_ITS_NEWLINE])
def test_half_a_line_at_the_end_is_passed_over_and_cut_off_by_the_next_writer(path, torn):
    with EventLog(path) as log:
        log.record([sent(1)], T)
    with path.open("a") as file:
        file.write(torn)

    before = ids(path)
    with EventLog(path) as log:
        log.record([sent(2)], T)

    assert before == [1]
    assert ids(path) == [1, 2]


def test_half_a_line_that_fills_the_whole_file_is_cut_off(path):
    path.write_text('{"t":1,"event":"nacked","reason":"' + "x" * 200_000)

    with EventLog(path) as log:
        log.record([sent(2)], T)

    assert ids(path) == [2]


def test_a_reader_that_met_half_a_line_reads_it_whole_once_it_is(path):
    with EventLog(path) as log:
        log.record([sent(1)], T)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    events = read(path)

    first = next(events)
    with EventLog(path, max_bytes=len(whole) * 2) as log:
        log.record([sent(2), sent(3)], T)

    assert [first.id, *(event.id for event in events)] == [1, 2, 3]


# What can't be written


def test_a_full_disk_costs_lines_that_are_counted_and_reported_once_and_the_log_goes_on(path, python):
    # A limit on the size of files fails a write as a full disk does: a part of it is taken, and then an error.
    child = python(
        """
        import logging, resource, sys
        from sqew.model import Fact
        from sqew.observe.eventlog import EventLog
        logging.basicConfig(format="%(message)s", stream=sys.stdout)
        def record(start):
            log.record([Fact("sent", "orders", "normal", id, 0) for id in range(start, start + 100)], 1)
            log.flush()
        with EventLog(sys.argv[1]) as log:
            record(0)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
            for start in (100, 200, 300):
                record(start)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            record(400)
            print("lost", log.lost)
        """,
        path,
    )

    output, errors = child.communicate()

    assert errors == ""
    assert output.splitlines() == [
        f"The event log {path} can't be written, and events are lost until that is mended: [Errno 27] File too large",
        f"The event log {path} is written again; 300 events were lost so far.",
        "lost 300",
    ]
    assert ids(path) == [*range(100), *range(400, 500)]


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_really_full_tears_no_line_and_is_used_again_when_there_is_room(small_disk, caplog):
    path = small_disk / "events.jsonl"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 40_960)
    with EventLog(path) as log:
        for id in range(0, 1_000, 10):
            log.record([sent(id + n) for n in range(10)], T)
            log.flush()
        lost = log.lost
        ballast.unlink()
        log.record([sent(1_000)], T)

    assert 0 < lost < 1_000
    assert len(caplog.records) == 2
    assert "No space left on device" in caplog.messages[0]
    assert ids(path) == [*range(1_000 - lost), 1_000]


def test_a_folder_that_vanishes_does_not_stop_the_queue(tmp_path, caplog):
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "events.jsonl"
    with EventLog(path) as log:
        for file in (path, Path(f"{path}.lock")):
            file.unlink()
        folder.rmdir()
        for id in range(3):
            log.record([sent(id)], T)
            log.flush()
        folder.mkdir()
        log.record([sent(3)], T)

    assert log.lost == 3
    assert ids(path) == [3]
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.WARNING]


def test_a_stalled_disk_makes_record_wait_instead_of_filling_the_memory(path, monkeypatch):
    monkeypatch.setattr(eventlog, "BATCH_BYTES", 10_000)
    monkeypatch.setattr(eventlog, "MOST_PENDING_BYTES", 100_000)  # some 1,100 lines
    go_on = threading.Event()
    write_all = logfile._write_all
    monkeypatch.setattr(logfile, "_write_all", lambda *write: (go_on.wait(10), write_all(*write)))
    recorded = []

    def record():
        for id in range(5_000):
            log.record([sent(id)], T)
            recorded.append(id)

    with EventLog(path) as log:
        recorder = threading.Thread(target=record)
        recorder.start()
        wait_until(lambda: len(recorded) >= 1_000)
        time.sleep(0.3)
        while_stalled = len(recorded)
        go_on.set()
        recorder.join(10)

    assert while_stalled < 1_300
    assert ids(path) == list(range(5_000))


def test_a_million_facts_take_a_bounded_part_of_the_memory(path):
    tracemalloc.start()
    try:
        with EventLog(path, max_bytes=1 << 40) as log:
            for id in range(0, 1_000_000, 100):
                log.record([sent(id + n) for n in range(100)], T)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 128 * 1024 * 1024
    assert sum(1 for _ in read(path)) == 1_000_000


def test_transactions_that_changed_nothing_take_no_memory(path):
    with EventLog(path) as log:
        tracemalloc.start()
        try:
            for _ in range(10_000):
                log.record([], T)
            grown = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert grown < 10_000


# What is refused at the start


def test_a_folder_that_does_not_exist_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(StoreUnusable, match="Name a file in a folder that exists"):
        EventLog(tmp_path / "nowhere" / "events.jsonl")


def test_a_folder_that_is_read_only_is_refused_with_what_to_do(tmp_path, python):
    tmp_path.chmod(0o500)
    child = python(
        """
        import os, sys
        from sqew.errors import StoreUnusable
        from sqew.observe.eventlog import EventLog
        if os.geteuid() == 0:
            os.setuid(65_534)  # root may write anywhere
        try:
            EventLog(sys.argv[1])
        except StoreUnusable as error:
            print(error)
        """,
        tmp_path / "events.jsonl",
    )

    output, errors = child.communicate()

    assert errors == ""
    assert "Permission denied. Name a file in a folder that exists and that you may write to" in output


def test_a_folder_or_a_device_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(StoreUnusable, match="not a regular file"):
        EventLog(tmp_path)

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreUnusable, match="not a regular file"):
        EventLog(tmp_path / "pipe")


def test_a_file_of_another_kind_is_refused_and_left_as_it_is(tmp_path):
    other = tmp_path / "queue.db"
    other.write_bytes(b"SQLite format 3\0 without a newline")

    with pytest.raises(StoreUnusable, match="something else than an event log"):
        EventLog(other)

    assert other.read_bytes() == b"SQLite format 3\0 without a newline"


@pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"keep": -1}])
def test_limits_that_make_no_sense_are_refused(path, limits):
    with pytest.raises(BadValue):
        EventLog(path, **limits)


# Reading


def test_reading_a_log_that_is_not_there_says_so_at_once(tmp_path):
    with pytest.raises(NotFound, match="There is no event log at"):
        read(tmp_path / "events.jsonl")
    with pytest.raises(NotFound, match="There is no event log at"):
        read(tmp_path / "nowhere" / "events.jsonl")


@pytest.mark.parametrize("bad", [b"not json", b'{"t":1}', b'{"t":1,"event":"\xff"}', b""])
def test_a_line_that_is_no_event_is_told_with_its_file_and_number(path, bad):
    with EventLog(path) as log:
        log.record([sent(1)], T)
    good = path.read_bytes()
    Path(f"{path}.1").write_bytes(good + bad + b"\n" + good)
    events = read(path)

    assert next(events).id == 1
    with pytest.raises(StoreDamaged, match=r"events\.jsonl\.1, line 2 is not an event"):
        next(events)


def test_a_copy_of_a_log_without_its_lock_can_be_read(path):
    with EventLog(path, max_bytes=200) as log:
        log.record([sent(id) for id in range(6)], T)
    Path(f"{path}.lock").unlink()

    assert ids(path) == list(range(6))


def test_fields_that_a_later_version_adds_are_passed_over(path):
    path.write_text('{"t":1,"event":"sent","queue":"q","lane":"n","id":1,"attempts":0,"new":[1]}\n')

    assert list(read(path)) == [LoggedEvent(1, "sent", "q", "n", 1, 0)]
