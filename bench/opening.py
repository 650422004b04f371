"""Time to open a large file, and its cost in memory, each measured in a process of its own.

Run as a program it is that process: ``python -m bench.opening FILE CYCLES`` prints its results as JSON.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.backlogs import READY, build
from bench.report import Figure, Section, Table
from bench.workspace import evict, remove, say
from sqew import NewMessage, Queue

MOST_MS = 100
TITLE = "Opening and memory"
CACHE_MIB = 16
"""The default of cache_kib: the most of the file that SQLite keeps in memory."""


class Scale(Struct, frozen=True):
    sizes: tuple[int, ...]
    repeats: int
    cycles: int


class Seen(Struct, frozen=True):
    """The results of one process."""

    open_ms: float
    first_claim_ms: float
    rss_mib_open: float
    rss_mib_end: float
    peak_mib: float


class Outcome(Struct, frozen=True):
    size: int
    file_mib: float
    cold: list[Seen]
    warm: list[Seen]


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    paths = {size: folder / f"open-{size}.db" for size in scale.sizes}
    for size, path in paths.items():
        say(f"opening: building {size:,} messages")
        build(path, READY, size, seed)
    seen: dict[tuple[int, bool], list[Seen]] = {(size, cold): [] for size in paths for cold in (True, False)}
    for number in range(scale.repeats):
        say(f"opening: round {number + 1} of {scale.repeats}")
        for size, path in paths.items():
            for cold in (True, False):
                if cold:
                    evict(path)
                seen[size, cold].append(_in_a_process(path, scale.cycles))
    outcomes = [
        Outcome(size, path.stat().st_size / (1 << 20), seen[size, True], seen[size, False])
        for size, path in paths.items()
    ]
    for path in paths.values():
        remove(path)
    return Section("opening", TITLE, [_table(outcomes, scale)], _figures(outcomes, scale), {"outcomes": outcomes})


def _in_a_process(path: Path, cycles: int) -> Seen:
    command = [sys.executable, "-m", "bench.opening", str(path), str(cycles)]
    root = Path(__file__).parent.parent
    return msgspec.json.decode(subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True).stdout, type=Seen)


def _look(path: str, cycles: int) -> Seen:
    start = time.perf_counter()
    queue = Queue.open(path, durability="fast", create=False)
    opened = time.perf_counter()
    message = queue.claim(READY.queue)
    claimed = time.perf_counter()
    assert message is not None
    queue.nack(message, delay_seconds=0)
    rss_open = _rss_mib()
    for _ in range(cycles):
        message = queue.claim(READY.queue)
        assert message is not None
        queue.ack(message)
        queue.enqueue_many(READY.queue, [NewMessage(message.body)])
    rss_end = _rss_mib()
    queue.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)
    return Seen((opened - start) * 1000, (claimed - opened) * 1000, rss_open, rss_end, peak)


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def _both_ms(seen: Sequence[Seen]) -> float:
    return statistics.median(one.open_ms + one.first_claim_ms for one in seen)


def _rss(seen: Sequence[Seen]) -> float:
    return statistics.median(one.rss_mib_end for one in seen)


def _table(outcomes: Sequence[Outcome], scale: Scale) -> Table:
    return Table(
        f"Queue.open to the first claim, and the memory of the process (256-byte messages, {scale.repeats} times each)",
        ["backlog", "file", "open + claim, cold", "warm", "RSS when open", f"RSS after {scale.cycles:,} cycles"],
        [
            [
                f"{outcome.size:,}",
                f"{outcome.file_mib:.0f} MiB",
                f"{_both_ms(outcome.cold):.1f} ms",
                f"{_both_ms(outcome.warm):.1f} ms",
                f"{statistics.median(one.rss_mib_open for one in outcome.warm):.1f} MiB",
                f"{_rss([*outcome.cold, *outcome.warm]):.1f} MiB",
            ]
            for outcome in outcomes
        ],
        f"A cycle claims, acks and enqueues one. SQLite keeps up to {CACHE_MIB} MiB of a file in memory (cache_kib), "
        "and a small file whole.",
    )


def _figures(outcomes: Sequence[Outcome], scale: Scale) -> list[Figure]:
    smallest, largest = outcomes[0], outcomes[-1]
    cold = _both_ms(largest.cold)
    growth = _rss([*largest.cold, *largest.warm]) - _rss([*smallest.cold, *smallest.warm])
    return [
        Figure(
            f"open {largest.size:,} messages to the first claim, cold", f"< {MOST_MS} ms", f"{cold:.1f} ms", cold < 100
        ),
        Figure(
            f"memory at {largest.size:,} beyond that at {smallest.size:,}",
            f"≤ {CACHE_MIB} MiB (SQLite's cache)",
            f"{growth:+.1f} MiB",
            growth <= CACHE_MIB,
        ),
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_look(sys.argv[1], int(sys.argv[2]))))
