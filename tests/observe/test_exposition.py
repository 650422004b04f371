"""The metrics text: readable by the grammar of the format, and true."""

import re

from sqew.model import Depths, LaneDepth, QueueStats
from sqew.observe.exposition import prometheus

NOW = 1_700_000_000_000
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)\{{({LABEL}(?:,{LABEL})*)\}} (-?[0-9.]+(?:e[+-]?[0-9]+)?)")


def stats(queue="orders", lanes=None, *, dead=0, oldest_ready_at=None, **totals):
    depths = Depths(lanes or {"normal": LaneDepth()}, dead, 0, oldest_ready_at)
    return QueueStats(queue, depths, totals, {}, {}, {})


def parsed(text):
    """Check what the format asks for (a heading once and first, its samples right after), and return the samples."""
    assert text.endswith("\n")
    samples, helped, kinds = {}, [], {}
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            helped.append(line.split(" ", 3)[2])
        elif line.startswith("# TYPE "):
            _, _, metric, kind = line.split(" ")
            assert metric == helped[-1]
            assert metric not in kinds
            kinds[metric] = kind
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == helped[-1]
            assert (sample[1], sample[2]) not in samples
            samples[sample[1], sample[2]] = float(sample[3])
    return samples, kinds


def test_the_metrics_have_the_names_and_types_that_dashboards_know():
    _, kinds = parsed(prometheus([stats()], NOW))

    assert kinds == {
        "queue_messages_sent_total": "counter",
        "queue_messages_received_total": "counter",
        "queue_messages_deleted_total": "counter",
        "queue_messages_redelivered_total": "counter",
        "queue_messages_nacked_total": "counter",
        "queue_messages_expired_total": "counter",
        "queue_messages_dead_total": "counter",
        "queue_depth": "gauge",
        "queue_in_flight": "gauge",
        "queue_messages": "gauge",
        "queue_dead_letters": "gauge",
        "queue_oldest_ready_age_seconds": "gauge",
    }


def test_counters_are_the_totals_of_each_queue():
    samples, _ = parsed(prometheus([stats(sent=5, acked=3, redelivered=2), stats("mail", sent=10**12)], NOW))

    assert samples["queue_messages_sent_total", 'queue="orders"'] == 5
    assert samples["queue_messages_deleted_total", 'queue="orders"'] == 3
    assert samples["queue_messages_redelivered_total", 'queue="orders"'] == 2
    assert samples["queue_messages_sent_total", 'queue="mail"'] == 10**12
    assert samples["queue_messages_deleted_total", 'queue="mail"'] == 0


def test_depth_is_what_is_due_and_in_flight_what_is_not_over_all_lanes():
    lanes = {"normal": LaneDepth(1, 20, 300, 4000), "priority": LaneDepth(ready=5)}

    samples, _ = parsed(prometheus([stats(lanes=lanes, dead=7)], NOW))

    assert samples["queue_depth", 'queue="orders"'] == 4006
    assert samples["queue_in_flight", 'queue="orders"'] == 320
    assert samples["queue_dead_letters", 'queue="orders"'] == 7
    assert samples["queue_messages", 'queue="orders",lane="normal",state="leased"'] == 300
    assert samples["queue_messages", 'queue="orders",lane="priority",state="ready"'] == 5


def test_the_age_of_the_oldest_ready_message_is_in_seconds_and_0_without_one():
    waiting, empty = stats(oldest_ready_at=NOW - 1_500), stats("mail")

    samples, _ = parsed(prometheus([waiting, empty], NOW))

    assert samples["queue_oldest_ready_age_seconds", 'queue="orders"'] == 1.5
    assert samples["queue_oldest_ready_age_seconds", 'queue="mail"'] == 0


def test_names_are_escaped():
    samples, _ = parsed(prometheus([stats(lanes={'a"b\\c\nd': LaneDepth(ready=1)})], NOW))

    assert samples["queue_messages", r'queue="orders",lane="a\"b\\c\nd",state="ready"'] == 1


def test_without_queues_there_are_headings_only():
    samples, kinds = parsed(prometheus([], NOW))

    assert samples == {}
    assert len(kinds) == 12
