"""Servers that speak SQS, side by side, and queues on them, made and filled over the wire that all of them have."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import http_peers, serving
from bench.bodies import Bodies
from bench.http_throughput import SYNCHRONOUS
from bench.loads import SIZE, sqs_headers
from bench.serving import HOST, NotServed, Served
from bench.workspace import say

AT_A_TIME = 10
FILLING = 8
"""Connections that fill a queue."""
LONGEST_VISIBILITY = {"VisibilityTimeout": "43200"}


class Contender(Struct, frozen=True):
    name: str
    keeps: str
    """The way in which messages outlive the server."""
    served: Served

    @property
    def title(self) -> str:
        version = http_peers.versions().get(self.name, "")
        return f"{self.name} {version}".strip() + f" ({self.keeps})"


def started(stack: ExitStack, folder: Path) -> tuple[list[Contender], dict[str, str]]:
    """Start all contenders, Sqew's first; return the reasons for those that are missing as well."""
    folder.mkdir(parents=True, exist_ok=True)
    contenders, missing = [], {}
    for durability, synchronous in SYNCHRONOUS.items():
        served = stack.enter_context(serving.sqew(folder, durability))
        contenders.append(Contender(f"sqew, {durability}", f"synchronous={synchronous}", served))
    for name in http_peers.PEERS:
        try:
            served = stack.enter_context(http_peers.start(name, folder))
        except NotServed as error:
            say(str(error))
            missing[name] = str(error)
        else:
            contenders.append(Contender(name, "none: in memory", served))
    return contenders, missing


def make_queue(served: Served, name: str, *, fifo: bool = False) -> str:
    """Make a queue in which no message comes back while the benchmark runs; return its URL."""
    attributes = {**LONGEST_VISIBILITY, **({"FifoQueue": "true"} if fifo else {})}
    body = msgspec.json.encode({"QueueName": f"{name}.fifo" if fifo else name, "Attributes": attributes})
    status, answer = served.call("POST", "/", body, sqs_headers("CreateQueue"))
    if status != 200:
        sys.exit(f"bench: {served.name} can't make a queue ({status}): {answer[:200].decode(errors='replace')}")
    url: str = msgspec.json.decode(answer)["QueueUrl"]
    return url


def fill(contender: Contender, url: str, count: int, seed: int, within_s: float, groups: int = 0) -> int:
    """Send that many messages in batches, or as many as the server takes in that time; return how many it took.

    ``groups`` is the number of groups of a FIFO queue that the messages go to in turn.
    """
    bodies = [msgspec.json.encode(body).decode() for body in Bodies(seed, SIZE).take(100)]
    firsts, deadline = iter(range(0, count, AT_A_TIME)), time.monotonic() + within_s

    def work(_: int) -> int:
        sent = 0
        with closing(http.client.HTTPConnection(HOST, contender.served.port, timeout=120)) as connection:
            while time.monotonic() < deadline and (first := next(firsts, None)) is not None:
                numbers = range(first, first + AT_A_TIME)
                entries = [_entry(number, bodies[number % len(bodies)], groups) for number in numbers]
                _send(contender, connection, url, entries)
                sent += AT_A_TIME
        return sent

    with ThreadPoolExecutor(FILLING) as pool:
        took = sum(pool.map(work, range(FILLING)))
    if took < count:
        say(f"{contender.name} took {took:,} of {count:,} messages within {within_s:g} s")
    return took


def _send(
    contender: Contender, connection: http.client.HTTPConnection, url: str, entries: list[dict[str, str]]
) -> None:
    body = msgspec.json.encode({"QueueUrl": url, "Entries": entries})
    connection.request("POST", "/", body, sqs_headers("SendMessageBatch"))
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200 or b'"Failed":[{' in text:
        sys.exit(f"bench: {contender.name} refuses a batch ({answer.status}): {text[:300].decode()}")


def _entry(number: int, body: str, groups: int) -> dict[str, str]:
    entry = {"Id": str(number % AT_A_TIME), "MessageBody": body}
    if groups:
        entry |= {"MessageGroupId": f"group-{number % groups}", "MessageDeduplicationId": str(number)}
    return entry


def header(contenders: Sequence[Contender]) -> list[str]:
    return [contender.title for contender in contenders]
