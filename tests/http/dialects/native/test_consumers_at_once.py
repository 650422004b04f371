"""Readers that compete for one consumer, crash, come late and are thrown out: nothing unread is acked."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support.postgres import new_database
from tests.support.serving import STORES, Answer, Serving, serving

MESSAGES = 4_000
WITHIN_S = 90
CONSUMER = "/v1/queues/q/consumers/c"
REFUSALS = {404, 409}
"""Statuses for a reader that others have overtaken."""


class Fight:
    """The messages that readers have seen, and the answers that were wrong."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.wrong: list[Answer] = []
        self.over = threading.Event()

    def answered(self, answer: Answer) -> bool:
        """Return True if the request succeeded. A refusal that a reader need not expect is kept as wrong."""
        if answer.status not in {200, 204} | REFUSALS:
            self.wrong.append(answer)
        return answer.status in (200, 204)

    def read_in_claims(self, server: Serving, owner: str, random: Random) -> None:
        while not self.over.is_set():
            opened = server.call("POST", f"{CONSUMER}/open", {"owner": owner, "hold_ms": 50})
            if self.answered(opened):
                before = min(opened.json["claims"], default=opened.json["last"] + 1) - 1
                self._read(server, opened.json["epoch"], before, random)
            if random.random() < 0.1:
                self.answered(server.call("DELETE", f"{CONSUMER}?force=true"))

    def _read(self, server: Serving, epoch: int, number: int, random: Random) -> None:
        for _ in range(6):
            limit, lease_ms = random.choice([10, 700, 1_500]), random.choice([0, 1, 50, 60_000])
            body = {"epoch": epoch, "after": number, "limit": limit, "lease_ms": lease_ms}
            claim = server.call("POST", f"{CONSUMER}/claims", body)
            if random.random() < 0.5:
                # The next one while this one is worked on.
                self.answered(server.call("POST", f"{CONSUMER}/claims", {**body, "after": number + 1, "done": number}))
            # Now and then a reader dies between reading and acking.
            if not self.answered(claim) or not self._read_parts(server, claim) or random.random() < 0.3:
                return
            number += 1 if claim.json["count"] else 0

    def _read_parts(self, server: Serving, claim: Answer) -> bool:
        found: set[int] = set()
        for part in claim.json["parts"]:
            path = f"{CONSUMER}/claims/{claim.json['number']}/parts/{part['part']}?columns=id"
            try:
                answer = server.call("GET", path)
            except http.client.IncompleteRead:
                # The claim was given back while it was read.
                return False
            if not self.answered(answer):
                return False
            found |= {json.loads(line)["id"] for line in answer.body.splitlines()}
        self.seen |= found
        return True

    def receive(self, server: Serving) -> None:
        while not self.over.is_set():
            found = server.call("GET", "/v1/queues/q/messages?max=50&vt=30&wait=0.1").json
            self.seen |= {message["id"] for message in found}
            if found:
                server.call("DELETE", "/v1/queues/q/messages", {"ids": [message["id"] for message in found]})


def drained(server: Serving) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if not server.call("GET", "/v1/queues/q").json["queue_length"]:
            return True
    return False


@pytest.mark.parametrize("store", STORES)
def test_nothing_is_acked_that_nobody_has_read(store: str, tmp_path: Path) -> None:
    database = new_database() if store == "postgres" else None
    with (
        serving(tmp_path, "--durability", "fast", database=database) as one,
        serving(tmp_path, "--durability", "fast", database=database) as two,
    ):
        one.call("POST", "/v1/queues", {"name": "q"})
        sent: set[int] = set()
        for _ in range(MESSAGES // 1_000):
            sent |= set(one.call("POST", "/v1/queues/q/messages", [{"message": 1}] * 1_000).json["ids"])
        fight = Fight()
        work: list[Callable[[], None]] = [lambda: fight.receive(two)]
        for number, (server, owner) in enumerate([(one, "a"), (two, "a"), (one, "b"), (two, "c")]):
            work.append(lambda s=server, o=owner, n=number: fight.read_in_claims(s, o, Random(n)))  # type: ignore[misc]
        threads = [threading.Thread(target=one_of_them) for one_of_them in work]

        for thread in threads:
            thread.start()
        is_drained = drained(one)
        fight.over.set()
        for thread in threads:
            thread.join()

        assert is_drained
        assert fight.wrong == []
        assert fight.seen == sent
