"""Plans: made from the seed alone, and for a second life only of what the first has not tried."""

import gzip
import json
import time
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from plainbench.record.events import Event, Recorder, read_chunks
from plainbench.workload import NUMBERS_APART
from plainbench.workload.plan import plan
from sqew.errors import BadValue

LANES = [{"name": "orders", "lanes": [{"name": "high", "weight": 3}, {"name": "low", "weight": 1}]}]


@pytest.fixture
def planned(context):
    """Return a function that plans one workload for the topic orders, whole."""

    def make(count=None, topics=LANES, seed=1, **workload):
        made = context(seed=seed, topics=topics, workload=[{"topic": topics[0]["name"], **workload}])
        return list(islice(plan(made, 0), count))

    return make


def log(path, *events):
    recorder = Recorder(path)
    recorder.record_all(events)
    recorder.close()


def numbers(planned):
    return [one.item.number for one in planned]


def dues(planned):
    return np.array([one.due_us for one in planned]) / 1e6


def test_the_same_seed_plans_the_same(planned):
    workload = {
        "arrivals": {"type": "poisson", "rate": 10}, "messages": 2000, "priorities": {0: 1, 5: 1},
        "size": {"min": 10, "max": 500, "shape": "log"}, "keys": {"skew": 1.2},
    }  # fmt: skip

    assert planned(**workload) == planned(**workload)


def test_another_seed_plans_otherwise(planned):
    one, other = (planned(seed=seed, arrivals={"type": "poisson", "rate": 10}, messages=10) for seed in (1, 2))

    assert [p.due_us for p in one] != [p.due_us for p in other]


def test_a_beginning_of_a_plan_does_not_depend_on_how_long_it_is(planned):
    assert planned(messages=700) == planned(messages=3000)[:700]


def test_what_is_drawn_for_one_thing_does_not_depend_on_another(planned):
    plain = planned(messages=500, keys={"count": 10})
    sized = planned(messages=500, keys={"count": 10}, size={"min": 50, "max": 90}, priorities={1: 1, 2: 1})

    assert [json.loads(p.item.body)["key"] for p in plain] == [json.loads(p.item.body)["key"] for p in sized]
    assert [p.item.lane for p in plain] == [p.item.lane for p in sized]


def test_messages_are_counted_from_one_and_by_workload(context):
    made = context(workload=[{"topic": "orders", "messages": 3}, {"topic": "orders", "messages": 2}])

    assert numbers(plan(made, 0)) == [1, 2, 3]
    assert numbers(plan(made, 1)) == [NUMBERS_APART + 1, NUMBERS_APART + 2]


def test_constant_arrivals_are_evenly_apart(planned):
    found = dues(planned(arrivals={"type": "constant", "rate": 8}, messages=1500))

    assert found == pytest.approx(np.arange(1500) / 8)


def test_poisson_arrivals_come_at_their_rate_and_at_odds(planned):
    found = np.diff(dues(planned(arrivals={"type": "poisson", "rate": 50}, messages=20_000)))

    assert found.mean() == pytest.approx(1 / 50, rel=0.05)
    assert found.std() == pytest.approx(1 / 50, rel=0.05)
    assert found.min() >= 0


def test_bursts_come_together_and_others_between_them(planned):
    found = dues(planned(arrivals={"type": "bursts", "size": 3, "every_s": 2, "rate": 1}, messages=12))

    assert found.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 3, 4, 4, 4]


def test_bursts_may_have_nothing_between_them(planned):
    found = dues(planned(arrivals={"type": "bursts", "size": 2, "every_s": 1.5}, messages=6))

    assert found.tolist() == [0, 0, 1.5, 1.5, 3, 3]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (100, 10), (50, 50)])
def test_a_ramp_goes_from_one_rate_to_the_other_and_stays(planned, start, end):
    arrivals = {"type": "ramp", "start_rate": start, "end_rate": end, "over_s": 10}

    found = dues(planned(arrivals=arrivals, for_s=20))

    assert np.count_nonzero(found < 10) == pytest.approx((start + end) / 2 * 10, abs=2)
    assert np.count_nonzero(found < 5) == pytest.approx((start + (start + end) / 2) / 2 * 5, abs=2)
    assert np.count_nonzero(found >= 10) == pytest.approx(end * 10, abs=2)
    assert (np.diff(found) >= 0).all()


def test_recorded_arrivals_are_those_of_the_file_from_the_first_on(planned, tmp_path):
    (tmp_path / "times.txt").write_text("1700000002.5\n\n1700000000\n1700000001\n")

    found = dues(planned(arrivals={"type": "recorded", "file": "times.txt", "speed": 2}))

    assert found.tolist() == [0, 0.5, 1.25]


def test_recorded_arrivals_may_be_those_of_a_run(planned, tmp_path):
    run = tmp_path / "before"
    run.mkdir()
    log(
        run / "generator-0-0.events.jsonl",
        Event(10, "sent", "orders", n=1, due=5_000_000),
        Event(11, "sent", "orders", n=2, to=3, due=6_000_000),
        Event(12, "dropped", "orders", n=4, due=5_500_000),
        Event(13, "sent", "other", n=5, due=1),
    )

    found = dues(planned(arrivals={"type": "recorded", "file": "before"}))

    assert found.tolist() == [5, 5.5, 6, 6]


@pytest.mark.parametrize(
    ("text", "said"), [("1\nsoon\n", "line 2: 'soon' is no time"), ("nan", "line 1"), ("", "no arrivals")]
)
def test_a_file_of_arrivals_with_something_else_in_it_is_refused(planned, tmp_path, text, said):
    (tmp_path / "times.txt").write_text(text)

    with pytest.raises(BadValue, match=said):
        planned(arrivals={"type": "recorded", "file": "times.txt"})


def test_a_run_without_arrivals_for_the_topic_is_refused(planned, tmp_path):
    (tmp_path / "before").mkdir()
    log(tmp_path / "before" / "run.events.jsonl", Event(1, "sent", "bulk", n=1, due=1))

    with pytest.raises(BadValue, match="It has some for: bulk"):
        planned(arrivals={"type": "recorded", "file": "before"})


@pytest.mark.parametrize("arrivals", [{"type": "at_once"}, {"type": "closed", "clients": 3}])
def test_who_sends_when_there_is_time_has_no_due_times(planned, arrivals):
    assert {one.due_us for one in planned(arrivals=arrivals, messages=5)} == {None}


def test_a_workload_ends_when_its_time_is_over(planned):
    assert len(planned(arrivals={"type": "constant", "rate": 10}, for_s=2)) == 20


def test_a_closed_loop_ends_when_its_time_is_over(planned):
    assert planned(arrivals={"type": "closed"}, for_s=0) == []


def test_without_shares_lanes_get_messages_by_their_weights(planned):
    found = Counter(one.item.lane for one in planned(messages=10_000))

    assert found["high"] == pytest.approx(7500, rel=0.05)
    assert found["low"] == pytest.approx(2500, rel=0.1)


def test_shares_decide_on_lanes_and_priorities(planned):
    found = planned(messages=10_000, lanes={"high": 1, "low": 9}, priorities={-1: 0, 7: 1, 9: 3})

    assert Counter(one.item.lane for one in found)["low"] == pytest.approx(9000, rel=0.05)
    assert Counter(one.item.priority for one in found)[9] == pytest.approx(7500, rel=0.05)
    assert {one.item.priority for one in found} == {7, 9}


def test_a_topic_without_lanes_gets_messages_without(planned):
    assert {one.item.lane for one in planned(messages=5, topics=[{"name": "orders"}])} == {None}


def test_bodies_are_json_of_the_very_size(planned):
    for size in (1, 2, 3, 20, 30, 100, 70_000):
        for one in planned(messages=3, size={"min": size, "max": size}):
            assert len(one.item.body) == size
            json.loads(one.item.body)


def test_sizes_are_within_their_bounds(planned):
    found = [len(one.item.body) for one in planned(messages=3000, size={"min": 100, "max": 110})]

    assert set(found) == set(range(100, 111))


def test_with_the_shape_log_half_of_the_sizes_are_below_the_geometric_mean(planned):
    found = [len(one.item.body) for one in planned(messages=5000, size={"min": 100, "max": 10_000, "shape": "log"})]

    assert np.median(found) == pytest.approx(1000, rel=0.1)
    assert min(found) >= 100
    assert max(found) <= 10_000


def test_keys_are_all_alike_without_skew(planned):
    found = Counter(json.loads(one.item.body)["key"] for one in planned(messages=10_000, keys={"count": 4}))

    assert set(found) == {1, 2, 3, 4}
    assert min(found.values()) > 2300


def test_with_skew_one_the_first_key_comes_twice_as_often_as_the_second(planned):
    keys = {"count": 100, "skew": 1.0}

    found = Counter(json.loads(one.item.body)["key"] for one in planned(messages=20_000, keys=keys))

    assert found[1] / found[2] == pytest.approx(2, rel=0.1)
    assert found[1] / found[10] == pytest.approx(10, rel=0.2)


def test_in_a_fifo_topic_the_key_is_the_group(planned):
    topics = [{"name": "orders.fifo", "fifo": True}]

    for one in planned(messages=50, topics=topics, keys={"count": 5}):
        assert one.item.group == str(json.loads(one.item.body)["key"])


def test_a_field_of_the_input_may_be_the_group(planned, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"customer": 7}\n{"customer": "x"}\n{"other": 1}\n[]\n')
    topics = [{"name": "orders.fifo", "fifo": True}]

    found = planned(topics=topics, input="in.jsonl", keys={"field": "customer"})

    assert [one.item.group for one in found] == ["7", "x", "none", "none"]


def test_input_is_sent_in_the_order_of_its_files(planned, tmp_path):
    (tmp_path / "b.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b"3\n4\n"))

    found = planned(input=["b.jsonl", "a.csv", "*.gz"])

    assert [one.item.body for one in found] == [b'{"a": 1}', b'{"id":"1","name":"x"}', b"3", b"4"]


def test_input_starts_over_when_more_messages_are_asked_for(planned, tmp_path):
    (tmp_path / "in.jsonl").write_text("1\n2\nbroken\n3\n")

    found = planned(input="in.jsonl", messages=7)

    assert [one.item.body for one in found] == [b"1", b"2", b"3", b"1", b"2", b"3", b"1"]


def test_input_without_a_single_message_is_refused_before_the_run(planned, tmp_path):
    (tmp_path / "in.jsonl").write_text("broken\n")

    with pytest.raises(BadValue, match="There is no message in"):
        planned(input="in.jsonl", messages=7)


def test_lines_that_are_no_messages_are_set_aside_and_counted_on_the_log(context, tmp_path):
    (tmp_path / "in.jsonl").write_text("1\n{broken\n2\n")
    made = context(workload=[{"topic": "orders", "input": "in.jsonl"}])

    found = list(plan(made, 0))
    made.recorder.flush()

    assert [one.item.body for one in found] == [b"1", b"2"]
    [reject] = map(json.loads, (made.run / "rejects" / "workload-0.jsonl").read_text().splitlines())
    assert (reject["file"], reject["line"], reject["raw"]) == (str(tmp_path / "in.jsonl"), 2, "{broken")
    events = [e for path in made.run.glob("*.jsonl") for chunk in read_chunks(path) for e in chunk]
    assert events[-1].figures["rejected"] == 1


def test_a_second_life_plans_what_the_first_has_not_tried(context):
    made = context(workload=[{"topic": "orders", "messages": 100, "size": {"min": 50, "max": 90}}])
    whole = list(plan(made, 0))
    log(
        made.run / "generator-0-0.events.jsonl",
        Event(1, "sending", "orders", n=1, to=40),
        Event(2, "sent", "orders", n=1, to=40),
        Event(3, "sending", "orders", n=41, to=60),
    )

    assert list(plan(made, 0)) == whole[60:]


def test_what_another_sender_had_not_come_to_is_planned_again(context):
    made = context(workload=[{"topic": "orders", "messages": 10}])
    log(
        made.run / "generator-0-0.events.jsonl",
        Event(1, "sending", "orders", n=1),
        Event(2, "sending", "orders", n=4),
        Event(3, "dropped", "orders", n=2),
    )
    log(made.run / "generator-0-1.events.jsonl", Event(4, "sending", "orders", n=3))
    log(made.run / "generator-1-0.events.jsonl", Event(5, "sending", "orders", n=7))

    assert numbers(plan(made, 0)) == [5, 6, 7, 8, 9, 10]


def test_half_a_line_of_a_killed_generator_is_passed_over(context):
    made = context(workload=[{"topic": "orders", "messages": 3}])
    (made.run / "generator-0-0.events.jsonl").write_bytes(b'{"at":1,"event":"sending","n":1}\n{"at":2,"eve')

    assert numbers(plan(made, 0)) == [2, 3]


def test_numbers_begin_above_those_that_an_earlier_run_left_in_the_queue(context):
    made = context(workload=[{"topic": "orders", "messages": 2}, {"topic": "orders", "messages": 1}])
    log(
        made.run / "lab.events.jsonl",
        Event(0, "found", "orders", n=-5),
        Event(0, "found", "orders", n=17),
        Event(0, "found", "orders", n=NUMBERS_APART + 3),
        Event(0, "run", what="began"),
    )

    assert numbers(plan(made, 0)) == [18, 19]
    assert numbers(plan(made, 1)) == [NUMBERS_APART + 4]


def test_many_messages_are_planned_in_no_time(context):
    workload = {
        "topic": "orders", "arrivals": {"type": "poisson", "rate": 1e4}, "messages": 100_000,
        "size": {"min": 50, "max": 500, "shape": "log"}, "keys": {"skew": 1.0},
    }  # fmt: skip
    made = context(topics=LANES, workload=[workload])
    began = time.process_time()

    assert sum(1 for _ in plan(made, 0)) == 100_000

    assert time.process_time() - began < 3  # it takes a tenth of that
