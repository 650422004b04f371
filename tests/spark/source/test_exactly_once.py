"""Rows that a task uploads and the driver promotes: each once, though answers get lost."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from sqew.errors import PartIncomplete
from sqew.spark.source import exactly_once
from sqew.spark.source.exactly_once import StagedRows
from sqew.spark.source.options import Target
from sqew.spark.source.requests import MOST_ROWS
from tests.spark.source.sources import cutting, depth, values
from tests.support.serving import Serving


def _rows(count: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"body": [str(number) for number in range(count)]})]


def test_what_is_handed_in_is_there_when_it_is_promoted(server: Serving, new_queue: Callable[..., str]) -> None:
    target = Target(new_queue(server), (server.url,))

    handed_in = exactly_once.stage(target, "job", 0, _rows(3), "json")
    before = depth(server, target.queue)
    exactly_once.promote(target, 0, [handed_in, None])

    assert (handed_in.count, before) == (3, 0)
    assert sorted(values(server, target.queue)) == [0, 1, 2]


def test_a_request_whose_answer_was_lost_is_taken_once(server: Serving, new_queue: Callable[..., str]) -> None:
    queue = new_queue(server)

    with cutting(server, after_bytes=0, connections=3) as url:
        handed_in = exactly_once.stage(Target(queue, (url,)), "job", 0, _rows(2 * MOST_ROWS), "json")
    with cutting(server, after_bytes=0, connections=2) as url:
        exactly_once.promote(Target(queue, (url,)), 0, [handed_in])

    assert handed_in.count == depth(server, queue) == 2 * MOST_ROWS


def test_of_two_attempts_of_a_task_one_is_promoted(server: Serving, new_queue: Callable[..., str]) -> None:
    target = Target(new_queue(server), (server.url,))
    exactly_once.stage(target, "job", 0, _rows(5), "json")

    second = exactly_once.stage(target, "job", 0, _rows(3), "json")
    exactly_once.promote(target, 0, [second])

    assert depth(server, target.queue) == 3


def test_who_comes_after_the_promotion_hands_nothing_in(server: Serving, new_queue: Callable[..., str]) -> None:
    target = Target(new_queue(server), (server.url,))
    exactly_once.promote(target, 0, [exactly_once.stage(target, "job", 0, _rows(3), "json")])

    late = exactly_once.stage(target, "job", 0, _rows(3), "json")
    exactly_once.promote(target, 0, [late])

    assert late.count == 0
    assert depth(server, target.queue) == 3


def test_a_part_that_is_not_whole_is_not_promoted(server: Serving, new_queue: Callable[..., str]) -> None:
    target = Target(new_queue(server), (server.url,))
    handed_in = exactly_once.stage(target, "job", 0, _rows(3), "json")

    with pytest.raises(PartIncomplete):
        exactly_once.promote(target, 0, [StagedRows(handed_in.writer, handed_in.part, 4)])

    assert depth(server, target.queue) == 0


def test_an_abort_drops_what_waits_and_keeps_what_is_promoted(server: Serving, new_queue: Callable[..., str]) -> None:
    target = Target(new_queue(server), (server.url,))
    exactly_once.promote(target, 0, [exactly_once.stage(target, "job", 0, _rows(3), "json")])
    exactly_once.stage(target, "job", 1, _rows(2), "json")

    exactly_once.abort(target, 0, ["job"])
    exactly_once.abort(target, 1, ["job"])

    (writer,) = server.call("GET", f"/v1/queues/{target.queue}/writers").json
    assert (writer["epoch"], writer["staged"]) == (0, [])
    assert depth(server, target.queue) == 3
