"""Counters of a server and of its queues, and how they are kept between scrapes."""

import asyncio

import pytest

from sqew import operations as ops
from sqew.core.broker import Broker
from sqew.errors import QueueNotFound
from sqew.http.telemetry import metrics
from sqew.http.telemetry.counters import RequestCounters
from sqew.http.telemetry.metrics import Scraper
from sqew.model import NewMessage, Policy, Sent
from sqew.observe.labels import QueueLabels
from sqew.settings import Settings


def figures_and_labels(most=1_000):
    labels = QueueLabels(most)
    return RequestCounters(Settings(), labels), labels


async def scraped(broker, scraper):
    text = (await scraper.render([])).decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_the_counters_of_unnamed_queues_do_not_fall_when_one_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "REFRESH_S", 0)
    monkeypatch.setattr(metrics, "_SHARE", 0)
    sent = 'queue_messages_sent_total{queue="(other)"}'

    async def story():
        counters, labels = figures_and_labels(most=0)
        async with Broker.open(tmp_path / "queue.db", durability="fast") as broker:
            scraper = Scraper(broker, counters, labels)
            for name, count in (("a", 5), ("b", 7)):
                await broker.run(ops.CreateQueue(name, Policy()))
                await broker.send(name, [NewMessage(b"1")] * count)
            before = await scraped(broker, scraper)
            await broker.delete("b")
            gone = await scraped(broker, scraper)
            await broker.send("a", [NewMessage(b"1")])
            after = await scraped(broker, scraper)
            return [found[sent] for found in (before, gone, after)], after['queue_depth{queue="(other)"}']

    assert asyncio.run(story()) == ([12, 12, 13], 6)


def test_a_store_that_cannot_be_counted_leaves_the_server_s_own_figures(tmp_path):
    async def story():
        counters, labels = figures_and_labels()
        broker = Broker.open(tmp_path / "queue.db", durability="fast")
        scraper = Scraper(broker, counters, labels)
        await broker.close()
        return await scraped(broker, scraper)

    found = asyncio.run(story())

    assert found["http_connections_open"] == 0
    assert not any(name.startswith("queue_depth") for name in found)


def test_figures_of_a_queue_that_is_gone_are_forgotten():
    counters, _ = figures_and_labels()
    for queue in ("a", "b"):
        counters.observe_batch([ops.Send(queue, (NewMessage(b"1"),))], [[Sent(1)]], 0.001)

    counters.keep({"b"})

    counts = [line for line in counters.duration_lines() if "send_duration_seconds_count" in line]
    assert counts == ['queue_message_send_duration_seconds_count{queue="b"} 1']


@pytest.mark.parametrize("kind", [ops.Send, ops.Receive, ops.Ack])
def test_the_name_of_a_queue_that_does_not_exist_is_not_remembered(kind):
    counters, labels = figures_and_labels(most=1)
    operation = kind("made-up") if kind is ops.Receive else kind("made-up", ())

    counters.observe_batch([operation], [QueueNotFound("made-up")], 0.001)

    assert labels.of("real") == "real"
    assert not any("made-up" in line for line in counters.duration_lines())
