"""Clients that share a store and a clock, some too slow for their leases: the case for tokens and leases."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

from sqew.clock import ManualClock
from sqew.model import NewMessage
from sqew.stores.sqlite import SQLiteStore
from tests.faults.client import FIFO, GROUPS, STANDARD, Client, Held, body, create_queues
from tests.faults.history import Event, Verdict, check
from tests.faults.lives import Wrap

LEASE_MS = 100


def contend(path: Path, seed: int, wrap: Wrap, steps: int = 400) -> Verdict:
    """Run a seeded interleaving of three clients, and judge it."""
    random, clock = Random(seed), ManualClock()
    events: list[Event] = []
    with closing(SQLiteStore(path, now=clock.now(), durability="fast", random=random)) as sqlite:
        store = wrap(sqlite)
        create_queues(store, clock.now())
        clients = [Client(store, events.append, name, clock.now) for name in ("one", "two", "three")]
        hands: dict[str, list[Held]] = {client.name: [] for client in clients}
        for step in range(steps):
            clock.advance(random.randint(0, 15))
            client = random.choice(clients)
            held = hands[client.name]
            match random.choice(("send", "receive", "settle")):
                case "send":
                    queue = random.choice((STANDARD, FIFO))
                    group = random.choice(GROUPS) if queue == FIFO else None
                    client.send(queue, [(f"{step}", NewMessage(body(f"{step}"), group=group))])
                case "receive":
                    held += client.receive(random.choice((STANDARD, FIFO)), random.randint(1, 3), LEASE_MS)
                case "settle" if held:
                    # Any of those in hand: an old one may be somebody else's by now.
                    one = held.pop(random.randrange(len(held)))
                    if random.random() < 0.9:
                        client.ack([one])
                    else:
                        client.nack([one], 0)
        Client(sqlite, events.append, "drain", clock.now).drain()
    return check(events)
