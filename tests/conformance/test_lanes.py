"""Lanes: named, or picked by smooth weighted round-robin."""

import pytest

from sqew.errors import Conflict, UnknownLane
from sqew.model import LaneDepth, NewMessage, Ref
from sqew.operations import Ack, Send
from tests.conformance.driver import ids


def three_to_one(store, count=100, **policy):
    store.create(lanes={"high": 3, "low": 1}, **policy)
    store.send_many(count, lane="low")
    store.send_many(count, lane="high")


def lanes_of(messages):
    return "".join(message.lane[0] for message in messages)


def test_a_lane_of_weight_three_gets_three_of_four_turns(store):
    three_to_one(store)

    served = lanes_of(store.take() for _ in range(80))

    assert served == "hhlh" * 20


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 40])
def test_batches_of_any_size_are_served_in_the_same_sequence(store, limit):
    three_to_one(store)

    served = ""
    while len(served) < 40:
        served += lanes_of(store.receive(limit))

    assert served[:40] == "hhlh" * 10


def test_three_lanes_are_served_smoothly(store):
    store.create(lanes={"a": 5, "b": 1, "c": 1})
    for lane in "abc":
        store.send_many(30, lane=lane)

    assert lanes_of(store.take() for _ in range(14)) == "aabacaa" * 2


def test_of_lanes_that_stand_equal_the_heavier_is_served_and_else_the_one_named_first(store):
    store.create(lanes={"a": 1, "b": 2, "c": 1})
    for lane in "abc":
        store.send_many(10, lane=lane)

    assert lanes_of(store.receive(8)) == "bacb" * 2


def test_no_lane_starves(store):
    store.create(lanes={"heavy": 1000, "light": 1})
    store.send_many(1100, lane="heavy")
    store.send(lane="light")

    assert "l" in lanes_of(store.receive(1001))


def test_a_lane_without_work_leaves_its_turns_to_the_others(store):
    store.create(lanes={"high": 3, "low": 1})
    sent = store.send_many(4, lane="low")

    assert store.receive_ids(4) == sent


def test_a_lane_does_not_save_up_turns_while_it_has_no_work(store):
    store.create(lanes={"high": 1, "low": 1})
    store.send_many(50, lane="low")
    store.receive(20)
    store.send_many(50, lane="high")

    served = lanes_of(store.take() for _ in range(10))

    assert served.count("h") == 5


def test_a_lane_whose_messages_are_all_leased_has_no_work(store):
    store.create(lanes={"high": 3, "low": 1})
    store.send_many(2, lane="high")
    store.send_many(4, lane="low")
    store.receive(2, lane="high")

    assert lanes_of(store.receive(4)) == "llll"


def test_a_receive_may_name_its_lane(store):
    three_to_one(store)

    assert lanes_of(store.receive(5, lane="low")) == "lllll"


def test_naming_a_lane_does_not_disturb_the_turns_of_the_others(store):
    three_to_one(store)
    served = []
    for _ in range(8):
        served.append(store.take())
        store.receive(2, lane="low")

    assert lanes_of(served) == "hhlhhhlh"


def test_a_named_lane_without_work_gives_nothing_though_others_have_work(store):
    store.create(lanes={"high": 3, "low": 1})
    store.send(lane="high")

    assert store.receive(lane="low") == []


def test_the_turns_go_on_after_reopening(store):
    three_to_one(store)

    served = ""
    for _ in range(12):
        served += lanes_of(store.receive())
        store.reopen()

    assert served == "hhlh" * 3


def test_priority_decides_within_a_lane_and_not_between_lanes(store):
    store.create(lanes={"a": 1, "b": 1})
    plain = store.send(lane="a")
    urgent_but_later = store.send(lane="b", priority=9)
    plain_b = store.send(lane="b")

    assert store.receive_ids(3) == [plain, urgent_but_later, plain_b]


def test_exhausted_and_expired_messages_take_no_turn(store):
    store.create(lanes={"high": 3, "low": 1}, max_attempts=1, visibility_ms=10)
    store.send_many(5, lane="high")
    store.receive(5, lane="high")
    store.send_many(5, lane="low", ttl_ms=5)
    store.advance(10)
    store.send_many(20, lane="high")
    store.send_many(20, lane="low")

    assert lanes_of(store.take() for _ in range(8)) == "hhlhhhlh"


def test_an_unknown_lane_is_refused_by_send_and_receive_with_the_lanes_there_are(store):
    store.create(lanes={"high": 3, "low": 1})

    for refused in (lambda: store.send(lane="hihg"), lambda: store.receive(lane="hihg")):
        with pytest.raises(UnknownLane, match=r"did you mean 'high'.*high, low"):
            refused()


def test_one_unknown_lane_in_a_batch_stores_none_of_it(store):
    store.create(lanes={"high": 3, "low": 1})

    with pytest.raises(UnknownLane):
        store.run(Send("jobs", [NewMessage(b"1", lane="high"), NewMessage(b"2", lane="no", key="k")]))

    assert store.total() == 0
    assert store.run(Send("jobs", [NewMessage(b"3", lane="low", key="k")]))[0].duplicate is False


@pytest.mark.parametrize(("lanes", "default"), [({"a": 1, "normal": 1}, "normal"), ({"a": 1, "b": 1}, "a")])
def test_a_message_without_a_lane_goes_to_normal_or_else_to_the_first(store, lanes, default):
    store.create(lanes=lanes)
    store.send()

    assert store.take().lane == default


def test_depths_are_told_per_lane(store):
    store.create(lanes={"high": 3, "low": 1})
    store.send_many(3, lane="high")
    store.send(lane="low", delay_ms=100)
    store.receive(lane="high")

    assert store.measure().lanes == {"high": LaneDepth(ready=2, leased=1), "low": LaneDepth(delayed=1)}


def test_peek_may_name_a_lane(store):
    store.create(lanes={"high": 3, "low": 1})
    high, low = store.send(lane="high"), store.send(lane="low")

    assert ids(store.peek(lane="low")) == [low]
    assert sorted(ids(store.peek())) == [high, low]


def test_a_lane_may_be_added(store):
    store.create(lanes={"low": 1})
    store.send_many(8, lane="low")

    store.update(lanes={"low": 1, "high": 3})
    store.send_many(8, lane="high")

    assert sorted(lanes_of(store.take() for _ in range(8))) == list("hhhhhhll")


def test_a_changed_weight_counts_from_then_on(store):
    three_to_one(store)
    store.receive(4)

    store.update(lanes={"high": 1, "low": 1})

    assert sorted(lanes_of(store.take() for _ in range(8))) == list("hhhhllll")


def test_an_empty_lane_may_be_dropped(store):
    store.create(lanes={"high": 3, "low": 1})
    store.send(lane="low")

    store.update(lanes={"low": 1})

    with pytest.raises(UnknownLane):
        store.send(lane="high")
    assert store.take().lane == "low"


@pytest.mark.parametrize("fifo", [False, True])
def test_a_lane_that_still_holds_messages_is_not_dropped(store, fifo):
    store.create(lanes={"high": 3, "low": 1}, fifo=fifo)
    store.send(lane="high", group="g")
    message = store.take()

    with pytest.raises(Conflict, match="high"):
        store.update(lanes={"low": 1})

    store.ack(message)
    assert list(store.update(lanes={"low": 1}).policy.lanes) == ["low"]


def test_a_lane_dropped_and_made_again_starts_empty(store):
    store.create(lanes={"high": 3, "low": 1})
    store.update(lanes={"high": 3})
    store.update(lanes={"high": 3, "low": 1})

    assert store.measure().lanes == {"high": LaneDepth(), "low": LaneDepth()}
    assert store.send(lane="low") == store.take(lane="low").id


def test_groups_of_a_fifo_queue_take_turns_by_lane(store):
    store.create(lanes={"high": 3, "low": 1}, fifo=True)
    for n in range(20):
        store.send(lane="low", group=f"low{n}")
        store.send(lane="high", group=f"high{n}")

    assert lanes_of(store.take() for _ in range(8)) == "hhlhhhlh"


def test_expired_heads_of_a_fifo_queue_take_no_turn(store):
    store.create(lanes={"high": 3, "low": 1}, fifo=True)
    store.send(lane="high", group="old", ttl_ms=10)
    store.advance(10)
    store.send(lane="low", group="g")
    assert store.take().lane == "low"
    for n in range(20):
        store.send(lane="low", group=f"low{n}")
        store.send(lane="high", group=f"high{n}")

    assert lanes_of(store.take() for _ in range(8)) == "hhlhhhlh"


def test_turns_do_not_depend_on_what_becomes_of_the_messages(store):
    three_to_one(store, max_attempts=1)

    served = []
    for n in range(8):
        message = store.take()
        served.append(message)
        if n % 2:
            store.run(Ack("jobs", [Ref(message.id)]))
        else:
            store.nack(message, dead=True)

    assert lanes_of(served) == "hhlhhhlh"
