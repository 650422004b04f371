"""Messages staged until their writer's epoch is promoted: in the queue exactly once, or not at all."""

import pytest

from sqew.errors import BodyTooLarge, PartIncomplete, UnknownLane, WriterNotFound
from sqew.model import NewMessage, Promotion, Staged, Staging, WriterInfo
from sqew.operations import ListWriters, StepPromotion
from sqew.stores.sql.staging import REMEMBERED_MS
from tests.conformance.writing import WRITER, bodies, decide, numbered, promote, stage, step, writer


def test_what_is_staged_is_not_in_the_queue(store):
    store.create()

    assert stage(store, numbered(3)) == Staged(3)
    assert store.total() == 0
    assert writer(store) == WriterInfo(WRITER, None, 0, 0, [Staging(0, 1, 3, promoting=False)])


def test_what_is_promoted_is_in_the_queue_in_the_order_of_the_parts_that_were_listed(store):
    store.create()
    stage(store, numbered(2), "first")
    stage(store, numbered(2, 10), "second")
    stage(store, numbered(2, 2), "first")

    promotion = promote(store, {"second": 2, "first": 4})

    assert promotion == Promotion(6)
    assert bodies(store) == [10, 11, 0, 1, 2, 3]
    assert [message.body for message in store.receive(6)] == [b"10", b"11", b"0", b"1", b"2", b"3"]
    assert writer(store) == WriterInfo(WRITER, 0, 6, 0, [])


def test_parts_that_are_not_listed_are_dropped(store):
    store.create()
    stage(store, numbered(2), "finished")
    stage(store, numbered(2, 10), "of an attempt that failed")

    promote(store, {"finished": 2})
    store.sweep_all()

    assert bodies(store) == [0, 1]
    assert store.sweep().next_at == store.now + REMEMBERED_MS


def test_an_epoch_that_is_promoted_again_adds_nothing(store):
    store.create()
    stage(store, numbered(3))
    promote(store, {"0-a": 3})

    again = promote(store, {"0-a": 3})

    assert again == Promotion(3, repeated=True)
    assert bodies(store) == [0, 1, 2]


def test_nothing_is_stored_for_an_epoch_that_is_promoted(store):
    store.create()
    stage(store, numbered(3), epoch=4)
    promote(store, {"0-a": 3}, epoch=4)

    assert stage(store, numbered(3), "0-b", epoch=4) == Staged(3, promoted=True)
    assert stage(store, numbered(3), "0-b", epoch=3) == Staged(3, promoted=True)
    assert writer(store).staged == []


def test_nothing_is_added_to_an_epoch_that_was_decided_on_and_is_not_in_the_queue_yet(store):
    store.create()
    stage(store, numbered(3))
    decide(store, {"0-a": 3})

    assert stage(store, numbered(1, 10)) == Staged(1, promoted=True)
    assert step(store) == Promotion(3)
    assert bodies(store) == [0, 1, 2]


def test_how_many_an_older_epoch_had_is_forgotten(store):
    store.create()
    for epoch in range(2):
        stage(store, numbered(1, epoch), epoch=epoch)
        promote(store, {"0-a": 1}, epoch=epoch)

    assert promote(store, {"0-a": 1}, epoch=0) == Promotion(None, None, repeated=True)
    assert bodies(store) == [0, 1]


def test_an_epoch_may_be_empty(store):
    store.create()

    assert promote(store, {}, epoch=7) == Promotion(0)
    assert promote(store, {"0-a": 0}, epoch=8) == Promotion(0)
    assert promote(store, {}, epoch=7) == Promotion(None, None, repeated=True)
    assert writer(store).epoch == 8


@pytest.mark.parametrize("listed", [{"0-a": 4}, {"0-a": 2}, {"0-a": 3, "0-b": 1}])
def test_a_part_that_is_not_as_it_was_listed_is_refused_and_nothing_is_changed(store, listed):
    store.create()
    stage(store, numbered(3))

    with pytest.raises(PartIncomplete, match="Abort the epoch, and stage it again"):
        decide(store, listed)

    assert store.total() == 0
    assert promote(store, {"0-a": 3}) == Promotion(3)


def test_what_was_staged_once_is_not_staged_again_by_who_got_no_answer(store):
    store.create()
    for offset in (0, 0, 2, 2, 0):
        assert stage(store, numbered(2, offset), offset=offset) == Staged(2)

    assert promote(store, {"0-a": 4}) == Promotion(4)
    assert bodies(store) == [0, 1, 2, 3]


def test_nothing_is_kept_of_who_stages_nothing(store):
    store.create()

    assert stage(store, []) == Staged(0)
    with pytest.raises(PartIncomplete):
        stage(store, numbered(1), offset=3)

    assert store.run(ListWriters("jobs")) == []
    assert store.sweep().next_at is None


def test_a_part_with_a_gap_is_refused(store):
    store.create()
    stage(store, numbered(2), offset=0)

    with pytest.raises(PartIncomplete, match="Part '0-a' has 2 messages staged, and not 3"):
        stage(store, numbered(2, 3), offset=3)

    assert promote(store, {"0-a": 2}) == Promotion(2)


def test_keys_count_as_in_any_other_send(store):
    store.create()
    store.send(b"99", key="k1")
    stage(store, [NewMessage(b"%d" % n, key=f"k{n}") for n in (0, 1, 2, 2)])

    promotion = promote(store, {"0-a": 4})

    assert promotion == Promotion(4, duplicates=2)
    assert sorted(bodies(store)) == [0, 2, 99]


def test_a_message_is_what_it_was_staged_as(store):
    store.create(lanes={"fast": 3, "normal": 1})
    sent = [
        NewMessage(b'{"a": 1}', "json", {"trace": "x"}, 5, "fast", None, "k", 1_000, 9_000),
        NewMessage("später".encode(), "text", ttl_ms=2_000),
        NewMessage(b'"%s"' % (b"x" * 5_000)),
    ]
    stage(store, sent)
    promote(store, {"0-a": 3})

    found = {message.body: message for message in store.peek(10)}

    first, second, third = (found[message.body] for message in sent)
    assert (first.headers, first.priority, first.lane, first.key) == ({"trace": "x"}, 5, "fast", "k")
    assert (first.available_at, first.expires_at) == (store.now + 1_000, store.now + 9_000)
    assert (second.format, second.lane, second.expires_at) == ("text", "normal", store.now + 2_000)
    assert (third.format, third.damaged) == ("json", False)


def test_messages_that_are_alike_are_what_they_were_staged_as(store):
    store.create(lanes={"fast": 3, "normal": 1})
    stage(store, numbered(2, lane="fast", priority=7, delay_ms=50, ttl_ms=500))
    store.advance(10_000)
    promote(store, {"0-a": 2})

    first = store.peek(10)[0]

    assert (first.lane, first.priority, first.state, first.damaged) == ("fast", 7, "delayed", False)
    assert (first.created_at, first.available_at) == (store.now, store.now + 50)
    assert first.expires_at == store.now + 500


def test_bodies_of_every_kind_arrive_as_they_are(store):
    store.create()
    texts = ["", "0", "\0", "it's", "später", "\n", "x" * 2048]
    stage(store, [NewMessage(text.encode(), "text") for text in texts])

    promote(store, {"0-a": len(texts)})

    assert [message.body.decode() for message in store.receive(len(texts))] == texts


def test_a_fifo_queue_keeps_the_order_of_each_group(store):
    store.create("jobs.fifo", fifo=True)
    stage(store, [NewMessage(b"%d" % n, group="ab"[n % 2]) for n in range(6)], queue="jobs.fifo")
    promote(store, {"0-a": 6}, queue="jobs.fifo")

    taken = store.receive(10, "jobs.fifo")

    assert [message.body for message in taken if message.group == "a"] == [b"0", b"2", b"4"]


def test_a_fifo_queue_keeps_the_order_of_messages_without_a_group_whatever_their_lanes(store):
    store.create("jobs.fifo", fifo=True, lanes={"a": 1, "b": 1})
    stage(store, [NewMessage(b"%d" % n, lane="ab"[n % 2]) for n in range(600)], queue="jobs.fifo")
    promote(store, {"0-a": 600}, queue="jobs.fifo")

    in_turn = sorted(store.peek(600, "jobs.fifo"), key=lambda message: message.id)

    assert [int(message.body) for message in in_turn] == list(range(600))


def test_messages_of_many_lanes_and_priorities_are_promoted_together(store):
    store.create(lanes={"a": 1, "b": 1})
    stage(store, [NewMessage(b"%d" % n, lane="ab"[n % 2], priority=n % 2) for n in range(600)])

    assert promote(store, {"0-a": 600}) == Promotion(600)
    assert [int(message.body) for message in store.receive(300, lane="a")] == list(range(0, 600, 2))


def test_messages_that_the_queue_does_not_take_are_refused_by_their_number(store):
    store.create(max_body_bytes=5)

    with pytest.raises(UnknownLane, match=r"^Message 2: Queue 'jobs' has no lane 'fats'"):
        stage(store, [*numbered(1), *numbered(1, lane="fats")])
    with pytest.raises(BodyTooLarge, match=r"^Message 3: The message has 6 bytes"):
        stage(store, [*numbered(2), NewMessage(b"123456")])

    assert store.run(ListWriters("jobs")) == []


def test_writers_of_one_name_are_apart_in_each_queue(store):
    store.create()
    store.create("other")
    stage(store, numbered(1))
    stage(store, numbered(2), queue="other")

    promote(store, {"0-a": 2}, queue="other")

    assert store.total() == 0
    assert bodies(store, "other") == [0, 1]


def test_writers_are_listed_by_name(store):
    store.create()
    for name in ("b", "c", "a"):
        stage(store, numbered(1), writer=name)

    assert [one.name for one in store.run(ListWriters("jobs", limit=2))] == ["a", "b"]
    assert [one.name for one in store.run(ListWriters("jobs", after="b"))] == ["c"]


def test_a_writer_that_does_not_exist_is_refused_with_the_nearest_one(store):
    store.create()
    stage(store, numbered(1), writer="nightly-load")

    with pytest.raises(WriterNotFound, match="did you mean 'nightly-load'"):
        writer(store, "nightly-laod")


def test_a_promotion_tells_of_every_message(store):
    store.create()
    stage(store, numbered(3))
    decide(store, {"0-a": 3})

    commit = store.commit(StepPromotion("jobs", WRITER, 0))

    assert [fact.kind for fact in commit.facts] == ["sent"] * 3
    assert commit.woken == {"jobs"}
