"""A guided demo: a queue at work in a file, step by step, with the Python that does it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from sqew.errors import StoreUnusable
from sqew.model import Message

WIDTH = 100


class Step(NamedTuple):
    """What happens, the lines that do it (run as they are shown), and what then to look at."""

    says: str
    code: str
    shows: Callable[[dict[str, Any]], RenderableType]


def run(console: Console, db: str | None = None) -> None:
    """Show every step on the console; in a temporary folder unless a new file is named."""
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    with _place(db) as path, ExitStack() as closing:
        _say(console, Text.assemble(("Sqew", "bold cyan"), ", a durable message queue: a short tour."))
        names: dict[str, Any] = {"path": path}
        closing.callback(_close, names)
        for number, step in enumerate(STEPS, 1):
            _show_step(console, number, step, names)
    _say(console, Text("Where to go next", style="bold"))
    kept = f"sqew --db {path} queue show --name orders" if db else "sqew queue add --name orders"
    for command, text in (*NEXT, (kept, "the same from the command line: try it")):
        console.print(Text.assemble("  ", (command, "cyan"), f"\n      {text}"), soft_wrap=True)


@contextmanager
def _place(db: str | None) -> Iterator[Path]:
    if db is None:
        with tempfile.TemporaryDirectory(prefix="sqew-demo-") as folder:
            yield Path(folder) / "queue.db"
    elif Path(db).exists():
        raise StoreUnusable(f"{db} exists. The demo makes a file of its own: name a new one, or none.")
    else:
        yield Path(db)


def _close(names: dict[str, Any]) -> None:
    if "q" in names:  # unless the tour ended before its first step, as in `sqew demo | head -n 1`
        names["q"].close()


def _say(console: Console, text: Text) -> None:
    console.print()
    console.print(text)
    console.print()


def _show_step(console: Console, number: int, step: Step, names: dict[str, Any]) -> None:
    heading = Table.grid()
    heading.add_row(Text(f"{number}. ", style="bold cyan"), Text(step.says, style="bold"))
    console.print(heading)
    lines = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(step.code)
    lines.rstrip()
    console.print(Padding(lines, (1, 0, 0, 3), expand=False))
    # What is shown is what runs, so the demo can't drift from the truth.
    exec(step.code, names)
    console.print(Padding(step.shows(names), (1, 0, 1, 3), expand=False))


def _sentence(template: str) -> Callable[[dict[str, Any]], RenderableType]:
    return lambda names: Text.assemble(("→ ", "green"), template.format(**names))


def _table(*titles: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False)
    for title in titles:
        table.add_column(title)
    return table


def _policy(names: dict[str, Any]) -> RenderableType:
    table = _table("queue", "lanes", "max attempts", "dead letters go to")
    for info in names["q"].queues():
        policy = info.policy
        lanes = ", ".join(f"{lane} ×{weight}" for lane, weight in policy.lanes.items())
        table.add_row(info.name, lanes, str(policy.max_attempts or "no limit"), policy.dead_letter or "-")
    return table


def _depths(names: dict[str, Any]) -> RenderableType:
    table = _table("lane", "ready", "leased", "delayed")
    for lane, depth in names["q"].stats("orders").depths.lanes.items():
        table.add_row(lane, str(depth.ready), str(depth.leased), str(depth.delayed))
    return table


def _claimed(names: dict[str, Any]) -> RenderableType:
    return _messages(names["batch"])


def _messages(messages: list[Message]) -> Table:
    table = _table("id", "lane", "body", "attempts")
    for message in messages:
        table.add_row(str(message.id), message.lane, message.body.decode(), str(message.attempts))
    return table


def _retried(names: dict[str, Any]) -> RenderableType:
    return _messages([names["again"]])


def _dead(names: dict[str, Any]) -> RenderableType:
    table = _table("id", "died in", "attempts", "reason")
    for message in names["dead"]:
        table.add_row(str(message.id), message.death.queue, str(message.attempts), message.death.reason)
    return table


def _figures(names: dict[str, Any]) -> RenderableType:
    totals = names["stats"].totals
    kinds = ("sent", "received", "acked", "nacked", "dead", "requeued")
    table = _table(*kinds, "left")
    table.add_row(*(str(totals[kind]) for kind in kinds), str(names["stats"].depths.total()))
    return table


STEPS = (
    Step(
        "Open a file. There is no server to start.",
        "from sqew import Queue\n\nq = Queue.open(path)",
        _sentence("the queue is in {path}"),
    ),
    Step(
        "Create a queue with two lanes. It gets a dead-letter queue of its own.",
        'q.create("orders", lanes={"express": 3, "standard": 1}, max_attempts=2, base_backoff_ms=100)',
        _policy,
    ),
    Step(
        "Send eight messages. Each is on disk when the call returns.",
        'for n in range(1, 5):\n    q.enqueue("orders", {"sku": n}, lane="standard")\n'
        'for n in range(5, 9):\n    q.enqueue("orders", {"sku": n}, lane="express")',
        _depths,
    ),
    Step(
        "Send one twice by mistake: with a key, the second is the first.",
        'first = q.enqueue("orders", {"sku": 9}, key="order-9")\n'
        'second = q.enqueue("orders", {"sku": 9}, key="order-9")',
        _sentence("first is {first}, second is {second}: nothing was added."),
    ),
    Step(
        "Claim four. The express lane weighs 3, so it gets three of four turns; no lane starves.",
        'batch = [q.claim("orders", lease_seconds=30, consumer="w1") for _ in range(4)]',
        _claimed,
    ),
    Step(
        "One fails, the others succeed: ack deletes a message, nack gives it back, to be tried again.",
        "failed, *done = batch\n"
        'q.ack_many(done + q.claim_many("orders", 10, consumer="w2"))\n'
        'q.nack(failed, reason="printer on fire")',
        _depths,
    ),
    Step(
        "Wait for it. Nothing polls meanwhile: the queue knows when it is due, and wakes who waits.",
        'again = q.claim("orders", wait_seconds=5, consumer="w2")',
        _retried,
    ),
    Step(
        "It fails again. That was its last attempt, so it is a dead letter now: kept, with the reason.",
        'q.nack(again, reason="printer still on fire")\ndead = q.dead_letters("orders")',
        _dead,
    ),
    Step(
        "The printer is repaired. Bring the dead letter back: it starts anew, and this time it works.",
        'count = q.requeue("orders")\nm = q.claim("orders")\nq.ack(m)',
        _sentence("{count} requeued; message {m.id} was delivered with attempts {m.attempts} and acked."),
    ),
    Step(
        "Nothing was lost, and nothing is left.",
        'stats = q.stats("orders")',
        _figures,
    ),
)

NEXT = (
    ("docs/cli.md", "every command, with examples"),
    ("docs/settings.md", "every setting, and where it can be set"),
    ("python -c 'import sqew; help(sqew.Queue)'", "the whole Python API"),
)
