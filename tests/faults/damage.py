"""Files with flipped bits, and the outcome of opening them."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, field

from sqew.errors import SqewError
from sqew.model import ArchivePage, Message, NewMessage, Page, Policy, Ref, Release
from sqew.operations import (
    Ack,
    CreateQueue,
    Get,
    LastId,
    ListArchive,
    ListDead,
    ListQueues,
    Measure,
    Nack,
    Operation,
    Peek,
    Receive,
    RequeueDead,
    Send,
    Sweep,
)
from sqew.stores.sqlite import SQLiteStore

NOW = 1_700_000_000_000
QUEUES = {
    "plain": Policy(lanes={"normal": 1, "bulk": 3}),
    "ordered.fifo": Policy(fifo=True),
    "kept": Policy(keep="archive"),
    "letters": Policy(),
    "dying": Policy(dead_letter="letters"),
}
_MARK = b"\xf0\x9f\x90\x9f"
"""Bytes that begin every body, so that flips can be aimed at bodies."""


class Sample(Struct):
    """A closed store, the same store with all of it in the WAL, and what was sent to it."""

    folder: Path
    sent: set[tuple[bytes, str]]
    """Bodies with their headers, as they may be delivered."""

    def copy(self, to: Path, *, with_wal: bool) -> Path:
        shutil.copytree(self.folder / ("open" if with_wal else "closed"), to)
        return to / "queue.db"


class Outcome(Struct):
    """The outcome of opening and draining one damaged file."""

    delivered: int = 0
    altered: list[Message] = field(default_factory=list)
    """Messages delivered that are not what was sent."""
    withheld: int = 0
    """Messages known to be damaged, and reported so."""
    errors: Counter[str] = field(default_factory=Counter)
    """Sqew's own errors."""
    foreign: list[BaseException] = field(default_factory=list)
    """All other errors."""


def build(folder: Path) -> Sample:
    """Send some hundred messages of all kinds, and bring them into all states."""
    (folder / "open").mkdir(parents=True)
    (folder / "closed").mkdir()
    path = folder / "open" / "queue.db"
    random = Random(0)
    # All stays in the WAL until it is closed.
    store = SQLiteStore(path, now=NOW, durability="fast", wal_autocheckpoint_pages=0)
    store.run([CreateQueue(name, policy) for name, policy in QUEUES.items()], NOW)
    sent: set[tuple[bytes, str]] = set()
    for name in QUEUES:
        for start in range(0, 24, 8):
            messages = [_message(name, number, random) for number in range(start, start + 8)]
            store.run([Send(name, messages)], NOW)
            sent |= {(message.body, repr(message.headers or {})) for message in messages}
    for name in ("kept", "dying"):
        taken = store.run([Receive(name, 12)], NOW).results[0].messages
        refs = [Ref(message.id) for message in taken]
        store.run([Nack(name, [Release(ref, dead=True) for ref in refs]) if name == "dying" else Ack(name, refs)], NOW)
    dead = store.run([Receive("plain", 6)], NOW).results[0].messages
    store.run([Nack("plain", [Release(Ref(message.id), dead=True, reason="no") for message in dead])], NOW)
    for file in (folder / "open").glob("queue.db*"):
        shutil.copy(file, folder / f"copy-{file.name}")
    store.close()
    path.rename(folder / "closed" / "queue.db")
    for file in folder.glob("copy-*"):
        # Shared memory is made anew by whoever comes first.
        if not file.name.endswith("shm"):
            file.rename(folder / "open" / file.name.removeprefix("copy-"))
    return Sample(folder, sent)


def _message(queue: str, number: int, random: Random) -> NewMessage:
    size = 5_000 if number % 8 == 0 else random.randint(10, 400)
    return NewMessage(
        _MARK + f"{queue} {number} ".encode() + random.randbytes(size),
        format="text" if number % 3 else "json",
        headers={"trace": f"{queue}-{number}", "ö": [number]} if number % 2 else None,
        priority=number % 3,
        group=f"group-{number % 4}" if queue.endswith("fifo") else None,
        key=f"key-{number}" if number % 5 == 0 else None,
        lane="bulk" if queue == "plain" and number % 2 else None,
    )


def flip(file: Path, random: Random, *, at_body: bool = False) -> None:
    """Flip one place of a file as disks do: a bit, a byte, a few bytes, a sector."""
    data = bytearray(file.read_bytes())
    offset = random.randrange(len(data))
    if at_body:
        start = random.choice([match.start() for match in re.finditer(re.escape(_MARK), data)])
        offset = start + random.randrange(len(_MARK), 14)
    match random.choice(("bit", "bit", "byte", "burst", "sector")):
        case "bit":
            data[offset] ^= 1 << random.randrange(8)
        case "byte":
            data[offset] = random.randrange(256)
        case "burst":
            data[offset : offset + 8] = random.randbytes(len(data[offset : offset + 8]))
        case "sector":
            start = offset // 512 * 512
            data[start : start + 512] = bytes(len(data[start : start + 512]))
    file.write_bytes(data)


def open_and_drain(path: Path, sent: set[tuple[bytes, str]]) -> Outcome:
    """Run every operation of a store, and receive all that it has."""
    outcome = Outcome()
    try:
        store = SQLiteStore(path, now=NOW, durability="fast")
    except SqewError as error:
        outcome.errors[type(error).__name__] += 1
        return outcome
    except Exception as error:  # noqa: BLE001  that there is none is the claim
        outcome.foreign.append(error)
        return outcome
    with closing(store):
        for operation in _looks():
            for message in _messages(_ask(store, operation, outcome)):
                outcome.withheld += message.damaged
                if not message.damaged and (message.body, repr(message.headers)) not in sent:
                    outcome.altered.append(message)
        for queue in QUEUES:
            _receive_all(store, queue, outcome, sent)
        for queue in QUEUES:
            _ask(store, RequeueDead(queue), outcome)
            _receive_all(store, queue, outcome, sent)
            _ask(store, Send(queue, [_message(queue, 0, Random(0))]), outcome)
    return outcome


def _looks() -> Iterator[Operation[Any]]:
    yield ListQueues()
    yield LastId()
    for queue in QUEUES:
        yield from (Peek(queue, 100), Measure(queue), ListDead(queue), ListArchive(queue))
    for id in range(1, 130, 7):
        yield Get(None, id)


def _receive_all(store: SQLiteStore, queue: str, outcome: Outcome, sent: set[tuple[bytes, str]]) -> None:
    # Each message at most once, so that a file that shows one for ever ends, too.
    for _ in range(60):
        received = _ask(store, Receive(queue, 7, lease_ms=3_600_000), outcome)
        if received is None or not received.messages:
            break
        outcome.delivered += len(received.messages)
        for message in received.messages:
            if (message.body, repr(message.headers)) not in sent:
                outcome.altered.append(message)
        _ask(store, Ack(queue, [Ref(m.id, m.lease and m.lease.token) for m in received.messages]), outcome)
    else:
        raise AssertionError(f"{queue} has no end")
    _ask(store, Sweep(), outcome)


def _ask(store: SQLiteStore, operation: Operation[Any], outcome: Outcome) -> Any:
    try:
        result = store.run([operation], NOW + 3_600_000).results[0]
    except SqewError as error:
        result = error
    except Exception as error:  # noqa: BLE001  that there is none is the claim
        error.add_note(f"on {operation}")
        outcome.foreign.append(error)
        with suppress(Exception):
            store.rollback()
        return None
    if isinstance(result, SqewError):
        outcome.errors[type(result).__name__] += 1
        return None
    return result


def _messages(result: Any) -> Iterator[Message]:
    if isinstance(result, Page | ArchivePage):
        result = result.messages
    for one in result if isinstance(result, list) else [result]:
        if isinstance(one, Message):
            yield one
        elif hasattr(one, "message"):
            yield one.message
