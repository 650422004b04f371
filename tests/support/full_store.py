"""A file that has some of everything in it, and all that can be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqew import NewMessage, Queue
from sqew import operations as ops
from sqew.model import SubscriptionDetails

OPTIONS: dict[str, Any] = {
    "durability": "fast",
    "delivery_allow": "127.0.0.1",
    "base_url": "https://queue.example.com",
}
LARGE = "0123456789" * 5_000
HOUR = 3_600


def fill(path: Path) -> None:
    """Make the file."""
    with Queue.open(path, **OPTIONS) as q:
        _fill_queues(q)
        _fill_fifo(q)
        _fill_events(q)
        # At the end: the next transaction but one has gone through them.
        q.update("orders", archive_retention_ms=HOUR * 1000, key_retention_ms=HOUR * 999)


def _fill_queues(q: Queue) -> None:
    q.create("orders", lanes={"fast": 3, "slow": 1}, max_attempts=2, keep="archive", key_retention_ms=HOUR * 1000)
    q.run(ops.UpdateQueue("orders", {}, {"tags": {"team": "shop"}}))
    q.create("gone")
    q.enqueue("gone", "swept away with its queue")
    q.delete("gone")
    for number in range(40):
        q.enqueue("orders", {"sku": number}, lane=("fast", "slow")[number % 2], priority=number % 3)
    q.enqueue("orders", LARGE, lane="slow", headers={"size": "large"}, key="large one")
    q.enqueue("orders", "später", lane="fast", delay_seconds=HOUR, ttl_seconds=2 * HOUR)
    for message in q.claim_many("orders", 9, lease_seconds=HOUR, consumer="w1")[:6]:
        q.ack(message)
    for reason in ("too heavy", "too late"):
        q.dead_letter(q.claim("orders", lease_seconds=HOUR, consumer="w2"), reason=reason)
    q.nack(q.claim("orders", lease_seconds=HOUR), delay_seconds=HOUR, reason="not now")
    q.create_key("orders", ["send", "receive"], "of the shop", signing=True)
    q.run(ops.StartMove("1c9e6f0a-move", "orders-dlq", None, 1, 2))
    _fill_writers(q)
    _fill_consumers(q)


def _fill_consumers(q: Queue) -> None:
    """Make one open claim, and a consumer of another queue that nobody holds."""
    q.create("claimed")
    q.enqueue_many("claimed", list(range(30)))
    epoch = q.consumers.open("claimed", "query", owner="driver", hold_ms=HOUR * 1000).epoch
    q.consumers.claim("claimed", "query", epoch, after=0, limit=20, lease_ms=HOUR * 1000)
    q.consumers.open("claimed", "später", owner="driver", hold_ms=0)


def _fill_writers(q: Queue) -> None:
    """Make three epochs: one promoted, one left undone, and one that waits to be promoted."""
    q.create("staged")
    q.writers.stage("staged", "load", 0, "p", [1, 2, 3])
    q.writers.promote("staged", "load", 0, {"p": 3})
    q.writers.stage("staged", "load", 1, "p", list(range(1_500)))
    q.run(ops.Promote("staged", "load", 1, {"p": 1_500}))
    q.run(ops.StepPromotion("staged", "load", 1))
    q.writers.stage("staged", "stream", 7, "p", ["später", NewMessage(b"1", key="k")])


def _fill_fifo(q: Queue) -> None:
    q.create("steps.fifo", fifo=True)
    q.enqueue_many("steps.fifo", [NewMessage(b"1", group=group) for group in "abcabc"])
    q.run(ops.Receive("steps.fifo", 2, lease_ms=HOUR * 1000, attempt_id="the-first"))


def _fill_events(q: Queue) -> None:
    q.events.subscribe("shop.#", queue="steps.fifo")
    q.events.subscribe("shop.*", endpoint="http://127.0.0.1:9/hook", envelope=True)
    q.events.unsubscribe(q.events.subscribe("nothing", queue="orders").id)
    q.run(ops.CreateTopic("shop", {"DisplayName": "Shop"}, {"team": "sales"}))
    details = SubscriptionDetails(filter_policy='{"kind": ["book"]}')
    q.run(ops.Subscribe("shop", "queue", "orders", uuid="0b7d2a1e-sub", details=details))
    for number in range(5):
        q.events.publish("shop.opened", {"day": number}, group="g")
    q.certificates.rotate()
    q.schedules.create("nightly", when="every day at 3am", queue="orders", lane="slow", message={"clean": True})
    q.schedules.create("hourly", every="1 hour", topic="shop.hour", message="tick")
    q.schedules.pause("hourly")


def _of_each(q: Queue, view: Callable[[str], Any]) -> dict[str, Any]:
    return {info.name: view(info.name) for info in q.queues()}


VIEWS: dict[str, Callable[[Queue], Any]] = {
    "queues": lambda q: q.queues(),
    "messages": lambda q: _of_each(q, lambda name: q.run(ops.Scan(name, 0, 10_000, 10_000)).messages),
    "depths": lambda q: _of_each(q, lambda name: q.stats(name).depths),
    "totals": lambda q: _of_each(q, lambda name: q.stats(name).totals),
    "archive": lambda q: q.archive("orders", 1_000),
    "dead letters": lambda q: q.dead_letters("orders"),
    "keys": lambda q: q.keys("orders"),
    "subscriptions": lambda q: q.events.subscriptions(),
    "topics": lambda q: q.run(ops.ListTopics()),
    "deliveries": lambda q: [q.deliveries.get(delivery.id) for delivery in q.deliveries.list()],
    "schedules": lambda q: q.schedules.list(),
    "signing keys": lambda q: q.run(ops.ReadSigningKeys()),
    "moves": lambda q: q.run(ops.ListMoves("orders-dlq")),
    "writers": lambda q: q.writers.list("staged"),
    "consumers": lambda q: q.consumers.list("claimed"),
    "claimed": lambda q: q.consumers.read("claimed", "query", 1, 0),
    "salt": lambda q: q.run(ops.ReadSalt()),
    "export": lambda q: _of_each(q, lambda name: sorted(q.export(name))),
    "exported archive": lambda q: sorted(q.export("orders", archive=True)),
}


def seen(q: Queue) -> dict[str, Any]:
    """Return all views of a queue's contents."""
    return {what: view(q) for what, view in VIEWS.items()}
