"""The canary's verdicts on messages that come back, come late, or don't come back."""

import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from sqew import Queue
from sqew.cli.canary.probe import POLICY, QUEUE, Canary, CanaryCounters, Round, rounds


@pytest.fixture
def q():
    with Queue.open(":memory:") as q:
        yield q


def test_a_message_that_comes_back_is_fine_and_gone(q):
    round = Canary(q).sing()

    assert (round.number, round.result) == (1, "ok")
    assert round.latency_ms >= round.send_ms
    assert q.stats(QUEUE).depths.total() == 0


def test_a_message_that_takes_too_long_is_late(q):
    q.create(QUEUE, delay_ms=20, **POLICY)

    assert Canary(q, max_ms=1).sing().result == "late"


def test_a_message_that_does_not_come_back_is_lost(q):
    q.create(QUEUE, delay_ms=60_000, **POLICY)

    round = Canary(q, timeout_ms=20).sing()

    assert (round.result, round.latency_ms) == ("lost", None)
    assert round.send_ms > 0


def test_a_lost_message_that_turns_up_later_is_not_taken_for_another(q):
    q.create(QUEUE, delay_ms=50, **POLICY)
    canary = Canary(q, timeout_ms=1)
    lost = canary.sing()
    q.update(QUEUE, delay_ms=100)

    found = Canary(q, timeout_ms=10_000).sing()

    assert (lost.result, found.result) == ("lost", "ok")
    assert q.stats(QUEUE).depths.total() == 0


def test_an_error_is_a_round_that_failed(q):
    q.create(QUEUE, quota=0, **POLICY)

    round = Canary(q).sing()

    assert round.result == "failed"
    assert "quota" in round.error


def test_the_messages_of_a_queue_that_others_made_were_deleted(q):
    q.create("orders", max_attempts=1)
    id = q.enqueue("orders", {"order": 1})

    round = Canary(q, "orders").sing()

    assert round.result == "failed"
    assert "was not made for a canary" in round.error
    assert [(message.id, message.attempts) for message in q.peek("orders")] == [(id, 0)]


@pytest.mark.parametrize("body", [{"order": 1}, "text", {"run": "x", "number": 1, "order": 1}])
def test_what_others_sent_to_the_canary_was_deleted(q, body):
    canary = Canary(q)
    canary.sing()
    id = q.enqueue(QUEUE, body)

    round = canary.sing()

    assert round.result == "failed"
    assert "messages that are not a canary's" in round.error
    assert id in [message.id for message in q.peek(QUEUE)]


def test_a_canary_whose_queue_was_deleted_failed_for_ever(q):
    canary = Canary(q)
    canary.sing()
    q.delete(QUEUE)

    assert [canary.sing().result, canary.sing().result] == ["failed", "ok"]


def test_a_message_that_came_after_the_timeout_was_fine(q):
    class Slow:
        """A queue whose sends take longer than the canary waits."""

        create, claim, ack = q.create, q.claim, q.ack

        def enqueue(self, queue, body):
            began = time.perf_counter()
            q.enqueue(queue, body)
            while time.perf_counter() - began < 0.01:
                pass

    assert Canary(Slow(), timeout_ms=5).sing().result == "late"


def test_rounds_come_at_an_interval(q):
    waited = []

    results = [round.result for round in rounds(Canary(q), 60.0, 3, waited.append)]

    assert results == ["ok"] * 3
    assert len(waited) == 2
    assert 55 < waited[0] <= 60


def test_the_figures_are_counted():
    figures = CanaryCounters()

    figures.add(Round(1, "ok", send_ms=0.5, latency_ms=3.0, ack_ms=0.5))
    figures.add(Round(2, "late", send_ms=0.5, latency_ms=700.0, ack_ms=0.5))
    figures.add(Round(3, "lost", send_ms=0.5))

    lines = figures.prometheus().splitlines()
    assert 'sqew_canary_rounds_total{result="late"} 1' in lines
    assert 'sqew_canary_latency_seconds_bucket{le="0.002"} 0' in lines
    assert 'sqew_canary_latency_seconds_bucket{le="0.005"} 1' in lines
    assert 'sqew_canary_latency_seconds_bucket{le="+Inf"} 2' in lines
    assert "sqew_canary_latency_seconds_sum 0.703" in lines
    assert "sqew_canary_send_seconds_count 3" in lines
    assert not figures.is_good


def test_the_metrics_are_served_until_ctrl_c(tmp_path):
    command = [sys.executable, "-m", "sqew", "--db", "queue.db", "canary", "--interval", "10", "--metrics-port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as canary:
        where = canary.stderr.readline().split()[-1]
        first = canary.stdout.readline()
        with urllib.request.urlopen(where, timeout=20) as answer:
            metrics = answer.read().decode()
        canary.send_signal(signal.SIGINT)
        canary.communicate(timeout=20)

    assert first.startswith("1: ok: ")
    assert "# TYPE sqew_canary_latency_seconds histogram" in metrics
    assert canary.returncode == 0
