"""Does all of the example: starts a server, sends orders, streams them into revenue, kills the stream, checks the sums.

python examples/streaming-revenue/run.py --orders 20000
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow.dataset
from orders import expected, make

from sqew import Client
from sqew.errors import ServerError

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
BATCHES = 8
START_WITHIN_S = 30


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the example of a café whose revenue is wanted every ten minutes.")
    parser.add_argument("--orders", type=int, default=20_000, help="how many (20,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the orders (1)")
    parser.add_argument("--unharmed", action="store_true", help="don't kill the stream in the middle")
    given = parser.parse_args()
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir()
    with serving(DATA) as url:
        orders = list(make(given.orders, given.seed))
        say(f"sending {len(orders):,} orders to {url}")
        send(url, orders)
        per_batch = max(1, len(orders) // BATCHES)
        if not given.unharmed:
            say("streaming, until the stream is killed after its second batch")
            kill_after_a_batch(url, per_batch)
        say("streaming to the end" if given.unharmed else "starting it again")
        with stream(url, per_batch) as running:
            if running.wait():
                say(f"the stream failed; {DATA / 'stream.log'} says why")
                return 1
        return 0 if agrees(expected(orders), results_in_queue(url), results_in_lake()) else 1


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A server of the example's own: its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sqew", "serve", "--db", str(folder / "queue.db"), "--port", str(port)]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url)
        yield url
    finally:
        server.terminate()
        server.wait()


def wait_for(url: str) -> None:
    until = time.monotonic() + START_WITHIN_S
    with Client(url, retries=0) as client:
        while True:
            try:
                client.queues()
                return
            except ServerError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)


def send(url: str, orders: list[dict[str, Any]]) -> None:
    with Client(url) as client:
        client.create("orders")
        client.create("revenue")
        for _sent in client.import_lines("orders", (json.dumps({"body": order}).encode() for order in orders)):
            pass


@contextlib.contextmanager
def stream(url: str, per_batch: int) -> Iterator[subprocess.Popen[bytes]]:
    """The stream in a process of its own. What is still there of it at the end is killed, Java and all."""
    words = ["--url", url, "--folder", str(DATA), "--per-batch", str(per_batch), "--ends"]
    with (DATA / "stream.log").open("a") as log:
        running = subprocess.Popen(
            [sys.executable, str(HERE / "stream.py"), *words], stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield running
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def kill_after_a_batch(url: str, per_batch: int) -> None:
    """Start the stream, and when its second batch has begun, kill it and its Java."""
    with stream(url, per_batch) as running:
        while running.poll() is None and not (DATA / "checkpoint" / "offsets" / "1").exists():
            time.sleep(0.01)


def results_in_queue(url: str) -> list[tuple[str, str, int]]:
    with Client(url) as client:
        found = [json.loads(line)["body"] for line in client.export("revenue")]
    return [(each["begins"].replace("Z", "+00:00"), each["category"], each["cents"]) for each in found]


def results_in_lake() -> list[tuple[str, str, int]]:
    rows = pyarrow.dataset.dataset(DATA / "lake", format="parquet").to_table().to_pylist()
    return [(row["begins"].replace(tzinfo=UTC).isoformat(), row["category"], row["cents"]) for row in rows]


def agrees(
    wanted: Counter[tuple[str, str]], in_queue: Iterable[tuple[str, str, int]], in_lake: Iterable[tuple[str, str, int]]
) -> bool:
    """Whether every window is in both places, once and with the right sum."""
    right = sorted((*which, cents) for which, cents in wanted.items())
    same = {"queue": sorted(in_queue) == right, "lake": sorted(in_lake) == right}
    total = sum(wanted.values()) / 100
    say(f"{len(right):,} windows and categories, {total:,.2f} in all, reckoned without Spark")
    for place, is_right in same.items():
        say(f"the {place} has each of them once" if is_right else f"the {place} does NOT agree")
    return all(same.values())


def say(sentence: str) -> None:
    print(f"example: {sentence}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
