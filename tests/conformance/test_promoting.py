"""Epochs promoted in steps, by any number of promoters, and the fate of those left unpromoted."""

import pytest

from sqew.errors import (
    AlreadyPromoted,
    PartIncomplete,
    QueueNotFound,
    QuotaExceeded,
    RateLimited,
    TooMuchStaged,
    WriterNotFound,
)
from sqew.formats.columns import CHUNK
from sqew.model import NewMessage, Promotion, Staged
from sqew.operations import AbortStaging, DeleteQueue, FinishPromotion, ListWriters, NextPromotion
from sqew.stores.sql.staging import FORGOTTEN_MS, LEFT_UNDONE_MS, REMEMBERED_MS
from tests.conformance.writing import WRITER, bodies, decide, numbered, promote, stage, step, writer


def test_a_promotion_goes_on_from_where_it_was_stopped(store):
    store.create()
    count = 2 * CHUNK + 1
    stage(store, numbered(count))
    decide(store, {"0-a": count})
    assert step(store) == Promotion(CHUNK, done=False)
    store.reopen()

    resumed = decide(store, {"0-a": count})

    assert resumed == Promotion(CHUNK, done=False)
    assert step(store) == Promotion(2 * CHUNK, done=False)
    assert step(store) == Promotion(count)
    assert bodies(store) == list(range(count))


def test_two_who_promote_the_same_epoch_add_it_once(store, neighbour):
    store.create()
    count = 3 * CHUNK
    stage(store, numbered(count))
    decide(store, {"0-a": count})

    assert decide(neighbour, {"0-a": count}).done is False
    assert step(neighbour).done is False
    assert step(store).done is False
    assert step(neighbour) == Promotion(count)
    assert step(store) == Promotion(count)
    assert bodies(store) == list(range(count))


def test_a_server_finishes_what_its_client_left_undone(store):
    store.create()
    count = CHUNK + 1
    stage(store, numbered(count))
    decide(store, {"0-a": count})
    assert store.run(NextPromotion()) == store.now + LEFT_UNDONE_MS
    store.run(FinishPromotion())
    assert store.total() == 0

    store.advance(LEFT_UNDONE_MS)
    store.run(FinishPromotion())
    assert store.run(NextPromotion()) == store.now
    store.run(FinishPromotion())

    assert store.run(NextPromotion()) is None
    assert bodies(store) == list(range(count))
    assert decide(store, {"0-a": count}) == Promotion(count, repeated=True)


def test_a_server_leaves_alone_what_its_client_is_at(store):
    store.create()
    stage(store, numbered(2 * CHUNK))
    decide(store, {"0-a": 2 * CHUNK})
    store.advance(LEFT_UNDONE_MS - 1)
    step(store)

    store.advance(1)
    store.run(FinishPromotion())

    assert store.total() == CHUNK


def test_an_earlier_epoch_that_was_left_undone_comes_first(store):
    store.create()
    for epoch in range(2):
        stage(store, numbered(1, epoch), epoch=epoch)
        decide(store, {"0-a": 1}, epoch=epoch)

    assert step(store, epoch=1).done is False
    assert step(store, epoch=1) == Promotion(1)
    assert bodies(store) == [0, 1]


def test_an_epoch_that_was_left_undone_outlives_a_later_one_without_messages(store):
    store.create()
    stage(store, numbered(2 * CHUNK))
    decide(store, {"0-a": 2 * CHUNK})
    step(store)

    assert decide(store, {}, epoch=1) == Promotion(0)

    assert step(store) == Promotion(None, None)
    assert bodies(store) == list(range(2 * CHUNK))


def test_epochs_that_were_left_undone_are_finished_one_after_the_other(store):
    store.create()
    for epoch, count in enumerate((3 * CHUNK, 1)):
        stage(store, numbered(count, 10_000 * epoch), epoch=epoch)
        decide(store, {"0-a": count}, epoch=epoch)
        store.advance(1)

    store.advance(LEFT_UNDONE_MS)
    for _ in range(4):
        assert store.run(FinishPromotion())

    assert not store.run(FinishPromotion())
    assert bodies(store) == [*range(3 * CHUNK), 10_000]


def test_what_is_staged_of_an_epoch_that_was_passed_over_is_dropped(store):
    store.create()
    stage(store, numbered(1), epoch=3)
    stage(store, numbered(2), epoch=5)
    decide(store, {"0-a": 2}, epoch=5)

    assert promote(store, {"0-a": 1}, epoch=3) == Promotion(None, None, repeated=True)

    assert promote(store, {"0-a": 2}, epoch=5) == Promotion(2)
    assert writer(store).staged == []


def test_what_is_aborted_can_be_staged_anew(store):
    store.create()
    stage(store, numbered(3))

    store.run(AbortStaging("jobs", WRITER, 0))
    store.run(AbortStaging("jobs", WRITER, 0))
    stage(store, numbered(2, 10))

    assert promote(store, {"0-a": 2}) == Promotion(2)
    assert bodies(store) == [10, 11]


def test_what_is_promoted_can_not_be_aborted(store):
    store.create()
    stage(store, numbered(3))
    decide(store, {"0-a": 3})

    with pytest.raises(AlreadyPromoted, match="can't be aborted"):
        store.run(AbortStaging("jobs", WRITER, 0))

    assert step(store) == Promotion(3)


def test_nothing_is_left_of_a_writer_that_aborted_all(store):
    store.create()
    stage(store, numbered(50 * CHUNK // 10))
    store.run(AbortStaging("jobs", WRITER, 0))

    store.sweep_all()

    assert store.run(ListWriters("jobs")) == []
    assert store.sweep().next_at is None


def test_what_nobody_goes_on_with_is_swept_away_after_a_day(store):
    store.create()
    stage(store, numbered(3))
    assert store.sweep().next_at == store.now + FORGOTTEN_MS

    store.advance(FORGOTTEN_MS - 1)
    assert store.sweep_all() == 0
    store.advance(1)
    assert store.sweep_all() > 0

    with pytest.raises(PartIncomplete):
        decide(store, {"0-a": 3})
    assert store.run(ListWriters("jobs")) == []


def test_what_somebody_adds_to_is_kept_for_another_day(store):
    store.create()
    stage(store, numbered(3))
    store.advance(FORGOTTEN_MS - 1)
    stage(store, numbered(3, 3))
    store.advance(FORGOTTEN_MS - 1)

    store.sweep_all()

    assert promote(store, {"0-a": 6}) == Promotion(6)


def test_a_promotion_that_was_decided_is_never_swept_away(store):
    store.create()
    stage(store, numbered(3))
    decide(store, {"0-a": 3})

    store.advance(10 * FORGOTTEN_MS)
    store.sweep_all()

    assert step(store) == Promotion(3)


def test_a_quota_refuses_a_promotion_as_a_whole(store):
    store.create(quota=4)
    store.send()
    stage(store, numbered(4))

    with pytest.raises(QuotaExceeded):
        decide(store, {"0-a": 4})
    assert store.total() == 1
    store.ack(store.take())

    assert promote(store, {"0-a": 4}) == Promotion(4)
    with pytest.raises(QuotaExceeded):
        store.send()


def test_a_quota_counts_what_is_to_be_in_the_queue_and_is_not_yet(store):
    store.create(quota=4)
    for name in ("one", "other"):
        stage(store, numbered(3), writer=name)
    decide(store, {"0-a": 3}, writer="one")

    with pytest.raises(QuotaExceeded):
        decide(store, {"0-a": 3}, writer="other")

    assert step(store, writer="one") == Promotion(3)
    assert store.total() == 3


def test_no_more_is_staged_for_a_queue_with_a_quota_than_failed_tasks_need(store):
    store.create(quota=5)
    for part in "abc":
        stage(store, numbered(5), part)
    stage(store, numbered(5), writer="other", offset=0)

    with pytest.raises(TooMuchStaged, match="20 messages are staged for queue 'jobs', whose quota is 5"):
        stage(store, numbered(1), "d")
    with pytest.raises(TooMuchStaged):
        stage(store, numbered(1), writer="third")

    assert stage(store, numbered(5), writer="other", offset=0) == Staged(5)
    assert [one.name for one in store.run(ListWriters("jobs"))] == [WRITER, "other"]
    assert promote(store, {"b": 5}) == Promotion(5)
    assert stage(store, numbered(1), epoch=1) == Staged(1)


def test_a_rate_limit_holds_up_a_promotion_as_a_whole(store):
    store.create(rate_limit=10)
    stage(store, numbered(20))
    assert promote(store, {"0-a": 20}) == Promotion(20)
    stage(store, numbered(1), epoch=1)

    with pytest.raises(RateLimited):
        decide(store, {"0-a": 1}, epoch=1)


def test_a_lane_that_is_gone_by_then_stops_no_promotion(store):
    store.create(lanes={"fast": 3, "normal": 1})
    stage(store, numbered(2, lane="fast"))
    stage(store, [NewMessage(b"2", lane="fast", key="k")])
    decide(store, {"0-a": 3})
    store.update(lanes={"normal": 1})

    assert promote(store, {"0-a": 3}) == Promotion(3)
    assert {message.lane for message in store.peek(10)} == {"normal"}


def test_a_queue_that_is_deleted_takes_its_writers_along(store):
    store.create()
    stage(store, numbered(3 * CHUNK))
    stage(store, numbered(3), writer="another", epoch=1)
    decide(store, {"0-a": 3 * CHUNK})
    step(store)

    store.run(DeleteQueue("jobs"))
    store.sweep_all()

    with pytest.raises(QueueNotFound):
        step(store)
    store.create()
    assert store.run(ListWriters("jobs")) == []
    assert store.run(NextPromotion()) is None
    with pytest.raises(WriterNotFound):
        step(store)
    assert store.sweep().next_at is None


def test_a_writer_that_has_long_been_done_is_forgotten(store):
    store.create()
    for name in ("done", "at it"):
        stage(store, numbered(2), writer=name)
        decide(store, {"0-a": 2}, writer=name)
    step(store, writer="done")
    store.advance(REMEMBERED_MS - 1)
    store.sweep_all()
    assert decide(store, {"0-a": 2}, writer="done").repeated

    store.advance(1)
    store.sweep_all()

    assert [one.name for one in store.run(ListWriters("jobs"))] == ["at it"]
    assert step(store, writer="at it") == Promotion(2)
    store.sweep_all()
    assert store.sweep().next_at == store.now + REMEMBERED_MS
