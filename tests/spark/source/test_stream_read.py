"""The streaming source as Spark calls it: claims, their acks, and the owner of a consumer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from sqew.client import Client
from sqew.errors import ConsumerInUse, Fenced, QueueNotFound
from sqew.spark.source import calls
from sqew.spark.source.options import options_of
from sqew.spark.source.schema import schema_of
from sqew.spark.source.stream_read import QueueStreamReader
from sqew.spark.source.wire import Wire
from tests.spark.source.sources import depth
from tests.support.serving import Serving

Offset = dict[str, Any]


@contextlib.contextmanager
def _reading(server: Serving, queue: str, **options: str) -> Iterator[QueueStreamReader]:
    given = {"url": server.url, "queue": queue, "consumer": "sums", "holdseconds": "2", **options}
    reader = QueueStreamReader(options_of(given), schema_of(archive=False))
    try:
        yield reader
    finally:
        reader.stop()


def _send(server: Serving, queue: str, *numbers: int) -> None:
    with Client(server.url) as client:
        client.enqueue_many(queue, list(numbers))


def _numbers(reader: QueueStreamReader, start: Offset, end: Offset) -> list[int]:
    parts = reader.partitions(start, end)
    return [int(body) for part in parts for batch in reader.read(part) for body in batch.column("body").to_pylist()]


def _ready(server: Serving, queue: str) -> int:
    found: int = server.call("GET", f"/v1/queues/{queue}").json["queue_visible_length"]
    return found


def _open_claims(server: Serving, queue: str) -> dict[int, int]:
    """Return the number of messages in each open claim of the only consumer."""
    [found] = server.call("GET", f"/v1/queues/{queue}/consumers").json
    return {claim["number"]: claim["count"] for claim in found["claims"]}


def _wait_until(happens: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_each_batch_is_a_claim_and_is_acked_when_the_next_is_asked_for(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, *range(7))

    with _reading(server, queue) as reader:
        start = reader.initialOffset()
        first = reader.latestOffset(start, ReadMaxRows(5))
        seen, left_before = _numbers(reader, start, first), depth(server, queue)
        second = reader.latestOffset(first, ReadAllAvailable())
        _wait_until(lambda: depth(server, queue) == 2)
        seen += _numbers(reader, first, second)
        last = reader.latestOffset(second, ReadMaxRows(5))

    assert seen == list(range(7))
    assert (left_before, depth(server, queue)) == (7, 0)
    assert last == second
    assert reader.partitions(second, last) == []


def test_while_a_full_batch_is_worked_on_the_next_is_claimed_and_the_one_before_acked(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, *range(8))

    with _reading(server, queue) as reader:
        start, seen = reader.initialOffset(), []
        for opened in ({1: 3, 2: 3}, {2: 3, 3: 2}, {3: 2}):
            end = reader.latestOffset(start, ReadMaxRows(3))
            _wait_until(lambda opened=opened: _open_claims(server, queue) == opened)  # type: ignore[misc]
            seen.append(_numbers(reader, start, end))
            start = end
        last = reader.latestOffset(start, ReadMaxRows(3))

    assert seen == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert (last, depth(server, queue)) == (start, 0)


def test_what_comes_while_a_batch_that_was_not_full_is_worked_on_is_in_the_next(
    sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(sqlite_server)
    _send(sqlite_server, queue, 0, 1)

    with _reading(sqlite_server, queue) as reader:
        start = reader.initialOffset()
        first = reader.latestOffset(start, ReadMaxRows(3))
        seen = [_numbers(reader, start, first)]
        _send(sqlite_server, queue, 2)
        open_meanwhile = _open_claims(sqlite_server, queue)
        second = reader.latestOffset(first, ReadMaxRows(3))
        seen.append(_numbers(reader, first, second))

    assert (open_meanwhile, seen) == ({1: 2}, [[0, 1], [2]])


def test_a_driver_that_comes_back_is_given_the_same_claim_at_once(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, 1, 2, 3)

    with _reading(server, queue) as gone:
        start = gone.initialOffset()
        end = gone.latestOffset(start, ReadMaxRows(2))
        with _reading(server, queue) as back:
            again = _numbers(back, back.initialOffset(), end)
            following = back.latestOffset(end, ReadMaxRows(2))
            rest = _numbers(back, end, following)

    assert (again, rest) == ([1, 2], [3])
    assert depth(server, queue) == 1


def test_a_driver_that_comes_back_is_given_the_claim_that_was_made_ahead_too(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, *range(5))

    with _reading(server, queue) as gone:
        start = gone.initialOffset()
        end = gone.latestOffset(start, ReadMaxRows(2))
        _wait_until(lambda: _open_claims(server, queue) == {1: 2, 2: 2})
        with _reading(server, queue) as back:
            seen = [_numbers(back, back.initialOffset(), end)]
            _send(server, queue, 5)
            for _ in range(2):
                following = back.latestOffset(end, ReadMaxRows(2))
                seen.append(_numbers(back, end, following))
                end = following

    assert seen == [[0, 1], [2, 3], [4, 5]]
    assert depth(server, queue) == 2


def test_after_a_claim_made_ahead_that_was_given_back_meanwhile_comes_the_next_number(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, *range(4))

    target = options_of({"url": server.url, "queue": queue}).target
    with _reading(server, queue, holdseconds="60") as reader, Wire(target) as wire:
        start = reader.initialOffset()
        first = reader.latestOffset(start, ReadMaxRows(2))
        _wait_until(lambda: _open_claims(server, queue) == {1: 2, 2: 2})
        epoch = server.call("GET", f"/v1/queues/{queue}/consumers").json[0]["epoch"]
        wire.ask(calls.renew(queue, "sums", epoch, 60_000, 0))
        _wait_until(lambda: _ready(server, queue) == 4)
        second = reader.latestOffset(first, ReadAllAvailable())
        given = _numbers(reader, first, second)

    assert (second["claim"], sorted(given)) == (3, [0, 1, 2, 3])


def test_a_new_query_is_given_what_an_old_one_has_left_open(server: Serving, new_queue: Callable[..., str]) -> None:
    queue = new_queue(server)
    _send(server, queue, 1, 2, 3)
    with _reading(server, queue) as old:
        old.latestOffset(old.initialOffset(), ReadMaxRows(2))

    with _reading(server, queue) as new:
        start = new.initialOffset()
        end = new.latestOffset(start, ReadMaxRows(100))
        given = _numbers(new, start, end)

    assert given == [1, 2]


def test_a_consumer_in_use_is_refused(sqlite_server: Serving, new_queue: Callable[..., str]) -> None:
    queue = new_queue(sqlite_server)

    with _reading(sqlite_server, queue) as first, _reading(sqlite_server, queue) as second:
        first.latestOffset(first.initialOffset(), ReadMaxRows(1))

        with pytest.raises(ConsumerInUse, match=f"Consumer 'sums' of queue '{queue}' is in the hands of") as refused:
            second.latestOffset(second.initialOffset(), ReadMaxRows(1))

    assert str(refused.value).count("\n") == 0


def test_who_has_lost_a_consumer_is_told(server: Serving, new_queue: Callable[..., str]) -> None:
    queue = new_queue(server)

    with _reading(server, queue) as first, _reading(server, queue) as second:
        start = first.initialOffset()
        first.latestOffset(start, ReadMaxRows(1))
        second.latestOffset(start, ReadMaxRows(1))

        with pytest.raises(Fenced, match="was opened or released by somebody else"):
            first.latestOffset(start, ReadMaxRows(1))


def test_who_has_lost_a_consumer_is_not_given_the_claim_that_it_has_made_ahead(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, 1, 2)

    with _reading(server, queue, holdseconds="60") as first, _reading(server, queue) as second:
        start = first.initialOffset()
        end = first.latestOffset(start, ReadMaxRows(1))
        _wait_until(lambda: _open_claims(server, queue) == {1: 1, 2: 1})
        second.latestOffset(start, ReadMaxRows(1))

        with pytest.raises(Fenced, match="was opened or released by somebody else"):
            first.latestOffset(end, ReadMaxRows(1))

    assert depth(server, queue) == 2


@pytest.mark.parametrize("times", [{"holdseconds": "2"}, {"holdseconds": "600", "leaseseconds": "9"}])
def test_a_hold_and_all_leases_are_renewed_while_the_query_works(
    sqlite_server: Serving, new_queue: Callable[..., str], times: dict[str, str]
) -> None:
    queue = new_queue(sqlite_server)
    _send(sqlite_server, queue, 1, 2)

    def leases() -> list[int]:
        [found] = sqlite_server.call("GET", f"/v1/queues/{queue}/consumers").json
        return [claim["lease_until"] for claim in found["claims"]]

    with _reading(sqlite_server, queue, **times) as reader:
        reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
        _wait_until(lambda: len(leases()) == 2)
        before = max(leases())
        _wait_until(lambda: min(leases()) > before)


def test_a_claim_whose_lease_has_ended_is_read_later_and_not_lost(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, 1, 2, 3)
    target = options_of({"url": server.url, "queue": queue}).target
    with Wire(target) as wire:
        opened = wire.ask(calls.open_consumer(queue, "sums", "gone", 1_000))
        gone = wire.ask(calls.claim(queue, "sums", opened.epoch, opened.last, 3, 1_000))
    _wait_until(lambda: _ready(server, queue) == 3)

    with _reading(server, queue) as back:
        start = back.initialOffset()
        end = {"owner": "gone", "claim": gone.number}
        given = _numbers(back, start, end)
        following = back.latestOffset(end, ReadMaxRows(5))
        later = _numbers(back, end, following)

    assert (gone.count, given, sorted(later)) == (3, [], [1, 2, 3])


def test_a_query_that_is_to_take_what_is_there_leaves_what_comes_later(
    server: Serving, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(server)
    _send(server, queue, *range(5))

    with _reading(server, queue) as reader:
        reader.prepareForTriggerAvailableNow()
        start, seen = reader.initialOffset(), []
        while (end := reader.latestOffset(start, ReadMaxRows(2))) != start:
            seen += _numbers(reader, start, end)
            _send(server, queue, 100, 101)
            start = end

    assert seen == list(range(5))
    assert (depth(server, queue), _ready(server, queue)) == (6, 6)


def test_an_unknown_queue_is_refused(sqlite_server: Serving) -> None:
    with _reading(sqlite_server, "no-such-queue") as reader, pytest.raises(QueueNotFound):
        reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
