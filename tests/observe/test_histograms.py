"""Histograms, ages and grouped queues in the metrics text."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sqew.model import Activity, Depths, Fact, LaneDepth, QueueTotals
from sqew.observe.exposition import age_lines, grouped, histograms, labelled, queue_lines
from sqew.observe.histogram import Histogram, merged
from sqew.observe.labels import OTHERS, QueueLabels
from sqew.observe.meter import Meter, summarize

NOW = 1_700_000_000_000


def text(lines):
    return "".join(line + "\n" for line in lines)


def values(lines):
    families = text_string_to_metric_families(text(lines))
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def totals(queue="orders", ready=0, oldest_ready_at=None, **counts):
    depths = Depths({"normal": LaneDepth(ready=ready)}, 1, 2, oldest_ready_at)
    return QueueTotals(queue, depths, {name.replace("_", ":"): count for name, count in counts.items()})


def test_a_histogram_is_written_with_rising_buckets_their_sum_and_their_count():
    histogram = Histogram((0.005, 1))
    for value in (0.001, 0.005, 0.25, 7):
        histogram.add(value)

    assert text(histograms("x_seconds", "What it is.", [(labelled(queue="a"), histogram)])) == (
        "# HELP x_seconds What it is.\n"
        "# TYPE x_seconds histogram\n"
        'x_seconds_bucket{queue="a",le="0.005"} 2\n'
        'x_seconds_bucket{queue="a",le="1"} 3\n'
        'x_seconds_bucket{queue="a",le="+Inf"} 4\n'
        'x_seconds_sum{queue="a"} 7.256\n'
        'x_seconds_count{queue="a"} 4\n'
    )


def test_a_histogram_without_labels_has_no_braces_but_those_of_its_buckets():
    assert text(histograms("x", "What it is.", [("", Histogram((1,)))])).splitlines()[2:] == [
        'x_bucket{le="1"} 0',
        'x_bucket{le="+Inf"} 0',
        "x_sum 0.0",
        "x_count 0",
    ]


def test_merged_histograms_hold_what_each_of_them_counted():
    one, other = Histogram((1, 2)), Histogram((1, 2))
    one.add(0.5)
    other.add(1.5, 2)

    whole = merged([one, other], (1, 2))

    assert (whole.counts, whole.sum) == ([1, 2, 0], 3.5)


def test_ages_are_made_of_the_stored_waits_without_those_of_later_deliveries():
    meter = Meter()
    first = [Fact("received", "orders", "normal", 1, 1, age_ms=age) for age in (3, 200, 200, 7_000)]
    again = [Fact("received", "orders", "normal", 1, 2, age_ms=age) for age in (3, 200)]
    meter.record([*first, *again], NOW)
    counts = {row.name: row.count for row in meter.drain(NOW)}

    found = values(age_lines([QueueTotals("orders", Depths({}, 0, 0, None), counts)]))

    metric = "queue_message_age_at_receive_seconds"
    assert found[f"{metric}_count", "orders"] == 4
    assert found[f"{metric}_bucket", "orders", "0.1"] == 1
    assert found[f"{metric}_bucket", "orders", "0.5"] == 3
    assert found[f"{metric}_bucket", "orders", "10"] == 4
    assert found[f"{metric}_sum", "orders"] == pytest.approx(7.403, rel=0.12)


def test_the_waits_of_later_deliveries_do_not_show_in_the_figures_of_stats():
    activity = [Activity("orders", "normal", NOW // 60_000, name, 1) for name in ("wait:3", "again:3")]

    stats = summarize("orders", Depths({}, 0, 0, None), activity, NOW)

    assert stats.wait["normal"].count == 1
    assert "again:3" not in stats.totals


def test_queues_beyond_those_that_are_named_are_one():
    queues = [totals(f"q{n}", ready=10**n, oldest_ready_at=NOW - n * 1000, sent=n) for n in range(4)]

    found = values(queue_lines(grouped(queues, QueueLabels(2)), NOW))

    assert found["queue_depth", "q1"] == 10
    assert found["queue_depth", OTHERS] == 1_100
    assert found["queue_messages_sent_total", OTHERS] == 5
    assert found["queue_messages", OTHERS, OTHERS, "ready"] == 1_100
    assert found["queue_dead_letters", OTHERS] == 2
    assert found["queue_oldest_ready_age_seconds", OTHERS] == 3
    assert ("queue_depth", "q2") not in found


def test_a_queue_that_has_been_named_stays_so_when_another_comes_before_it():
    labels = QueueLabels(1)
    grouped([totals("m")], labels)

    assert [queue.queue for queue in grouped([totals("a"), totals("m")], labels)] == ["m", OTHERS]


def test_no_queue_need_be_named():
    assert [queue.queue for queue in grouped([totals("a"), totals("b")], QueueLabels(0))] == [OTHERS]
