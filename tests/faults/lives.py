"""A store's lives on a disk that keeps losing its power: work, a cut, a look at what is left, and on from there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import apsw
from msgspec import Struct

from sqew.operations import Sweep
from sqew.stores.contract import Store
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import Durability
from sqew.stores.sqlite.lost_transactions import WalWatch, recorded_losses
from tests.faults.client import Client, Workload, create_queues
from tests.faults.consistency import problems_of, rows_of
from tests.faults.history import Event, Verdict, check
from tests.faults.power import Disk

FILE = "queue.db"
_START = 1_700_000_000_000
_names = count()

Wrap = Callable[[SQLiteStore], Store]


class Cut(Struct):
    """The effects of one power cut."""

    seed: int
    number: int
    transactions_lost: int = 0
    """Transactions answered, and not in the file."""
    unfinished_arrived: bool = False
    """True if the transaction that was under way is in the file, though it was never answered."""
    problems: list[str] = []


class Story(Struct):
    """A run of lives and how it ended."""

    cuts: list[Cut]
    verdict: Verdict | None
    """The verdict on the whole history; None if the file was beyond use, or losing is allowed."""

    @property
    def problems(self) -> list[str]:
        return [f"seed {cut.seed}, cut {cut.number}: {problem}" for cut in self.cuts for problem in cut.problems]


class _Life:
    """A life from power on to power cut. The simulated process goes on a little after the cut, unseen."""

    def __init__(self, folder: Path, images: dict[str, bytes], random: Random) -> None:
        folder.mkdir()
        self.path = folder / FILE
        self.disk = Disk(f"disk-{next(_names)}", folder, random)
        self.disk.load(images)
        self.disk.cut_at = random.choice((random.randint(1, 120), random.randint(1, 500)))
        self.disk.on_cut = self._power_fails
        # What the file held after each transaction, in their order.
        self.states: list[Any] = []
        self.events: list[Event] = []
        self.images: dict[str, bytes] | None = None
        # The shared memory of the WAL as it was then: the newest that a disk can have of it.
        self.shared = b""
        self.answered = self.public_text = 0

    def _power_fails(self, images: dict[str, bytes]) -> None:
        self.images = images
        shared = self.path.with_name(f"{FILE}-shm")
        self.shared = shared.read_bytes() if shared.exists() else b""
        self.answered, self.public_text = len(self.states), len(self.events)


def live_and_die(
    seed: int, folder: Path, *, durability: Durability, lives: int, wrap: Wrap = lambda store: store
) -> Story:
    """Run one seeded story. With ``durable`` the history across all lives is judged as well."""
    random = Random(f"{seed} {durability}")
    clock = count(_START, 7)
    images: dict[str, bytes] = {}
    found: Any = None
    history: list[Event] = []
    cuts: list[Cut] = []
    for number in range(lives):
        life = _Life(folder / f"life-{number}", images, random)
        life.states.append(found)
        _work_until_cut(life, durability, random, lambda: next(clock), f"life{number}", wrap)
        history += life.events[: life.public_text]
        images = life.images or {}
        cut = Cut(seed, number)
        cuts.append(cut)
        try:
            found, cut.problems = _look(folder / f"found-{number}", images)
            if durability == "durable":
                cut.problems += _losses(folder / f"watched-{number}", images, life.shared)
        except apsw.Error as error:
            cut.problems = [f"the file can't be read: {error!r}"]
            return Story(cuts, None)
        _compare(cut, life, found, durability)
        if any("integrity" in problem for problem in cut.problems):
            return Story(cuts, None)
    return Story(cuts, _verdict(folder / "end", images, history, next(clock)) if durability == "durable" else None)


def _work_until_cut(
    life: _Life, durability: Durability, random: Random, now: Callable[[], int], name: str, wrap: Wrap
) -> None:
    # Small, so that checkpoints fall among the cuts; one in three lives keeps all in the WAL.
    pages = random.choice((4, 12, 1_000))

    def start() -> tuple[SQLiteStore, Store]:
        opened = SQLiteStore(
            life.path,
            now=now(),
            durability=durability,
            wal_autocheckpoint_pages=pages,
            random=random,
            vfs=life.disk.name,
        )
        return opened, wrap(opened)

    def remember() -> None:
        life.states.append(rows_of(sqlite.connection))

    sqlite, store = start()
    try:
        remember()
        create_queues(store, now())
        remember()
        client = Client(_Watched(store, remember), life.events.append, name, now)
        workload = Workload(client, random)
        while life.images is None:
            chance = random.random()
            if chance < 0.5:
                workload.send()
            elif chance < 0.95:
                workload.consume(lease_ms=random.choice((20, 300)))
            elif chance < 0.98:
                client.store.run([Sweep()], now())
            else:
                # The last one out puts the WAL back into the file and deletes it: cuts must fall there, too.
                sqlite.close()
                sqlite, store = start()
                client.store = _Watched(store, remember)
    finally:
        sqlite.close()


class _Watched:
    """A store that shows each commit before the client gets its answer."""

    def __init__(self, store: Store, committed: Callable[[], None]) -> None:
        self._store, self._committed = store, committed

    def run(self, operations: Any, now: int) -> Any:
        commit = self._store.run(operations, now)
        self._committed()
        return commit

    def close(self) -> None:
        self._store.close()


def _look(folder: Path, images: dict[str, bytes]) -> tuple[Any, list[str]]:
    """Open the files that a cut left with nothing but SQLite; return the rows and the problems."""
    folder.mkdir()
    for name, image in images.items():
        (folder / name).write_bytes(image)
    with closing(apsw.Connection(str(folder / FILE))) as connection:
        return rows_of(connection), problems_of(connection)


def _losses(folder: Path, images: dict[str, bytes], shared: bytes) -> list[str]:
    """Open it beside the shared memory, as after a kill, and return the losses reported: there must be none."""
    folder.mkdir()
    for name, image in {**images, f"{FILE}-shm": shared}.items():
        (folder / name).write_bytes(image)
    watch = WalWatch(str(folder / FILE))
    with closing(apsw.Connection(str(folder / FILE))) as connection:
        rows_of(connection)
        watch.report_loss()
    return recorded_losses(str(folder / FILE))


def _compare(cut: Cut, life: _Life, found: Any, durability: Durability) -> None:
    """Check that the file holds exactly what a transaction left: the last answered or a later one, if it is durable."""
    matching = [index for index, state in enumerate(life.states) if state == found]
    if not matching:
        cut.problems.append("the file holds what no transaction left")
        return
    # Several transactions may have left the same rows (an empty receive changes nothing).
    newest = max(matching)
    last_answered = life.answered - 1
    cut.unfinished_arrived = newest > last_answered
    cut.transactions_lost = max(0, last_answered - newest)
    if cut.transactions_lost and durability == "durable":
        cut.problems.append(f"{cut.transactions_lost} answered transactions are not in the file")


def _verdict(folder: Path, images: dict[str, bytes], history: list[Event], now: int) -> Verdict:
    folder.mkdir()
    for name, image in images.items():
        (folder / name).write_bytes(image)
    with closing(SQLiteStore(folder / FILE, now=now)) as store:
        create_queues(store, now)
        Client(store, history.append, "drain", lambda: now).drain()
    return check(history)
