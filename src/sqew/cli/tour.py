"""A guided tour: a queue at work in a file, step by step, with the Python that does it."""

from __future__ import annotations

import keyword
import shlex
import shutil
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import click

from sqew.errors import StoreUnusable
from sqew.model import Message
from sqew.terminal.cells import fold
from sqew.terminal.layout import lines_of_table
from sqew.terminal.output import Column
from sqew.terminal.screen import Screen

WIDTH = 100
_INDENT = "   "
_TITLES = {"dim": True}

Lines = Iterable[str]


class TourStep(NamedTuple):
    """A step of the tour: a sentence, the lines that it runs as they are shown, and a view of the result."""

    says: str
    code: str
    shows: Callable[[dict[str, Any], Screen], Lines]


def run(screen: Screen, db: str | None = None) -> None:
    """Show every step; in a temporary folder unless a new file is named."""
    screen = replace(screen, width=min(screen.width, WIDTH))
    with _place(db) as path, ExitStack() as closing:
        intro = fold("Sqew, a durable message queue: a short tour.", screen.width)
        name = screen.paint("Sqew", fg="cyan", bold=True)
        click.echo("\n" + "\n".join(intro).replace("Sqew", name, 1) + "\n")
        names: dict[str, Any] = {"path": path}
        closing.callback(_close, names)
        for number, step in enumerate(STEPS, 1):
            _show_step(screen, number, step, names)
    click.echo(screen.paint("Where to go next", bold=True) + "\n")
    kept = f"sqew --db {path} queue show --name orders" if db else "sqew queue add --name orders"
    for line, text in (*NEXT, (kept, "the same from the command line: try it")):
        program, blank, rest = line.partition(" ")
        command = f"{as_typed(program)}{blank}{rest}"
        click.echo(f"  {screen.paint(command, fg='cyan')}\n      {text}")


def as_typed(program: str) -> str:
    """Return what to type for a program of the environment that this runs in: its path, unless the shell finds it."""
    ours, found = Path(sys.executable).parent / program, shutil.which(program)
    # A link to our script is ours, as pipx makes one. The interpreters of all environments are links to the same.
    if found is not None and (
        Path(found).parent == ours.parent or (program == "sqew" and Path(found).resolve() == ours.resolve())
    ):
        return program
    if not ours.is_file():
        return program
    return shlex.quote(str(ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours))


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


def _show_step(screen: Screen, number: int, step: TourStep, names: dict[str, Any]) -> None:
    mark = f"{number}. "
    says = [screen.paint(line, bold=True) for line in fold(step.says, screen.width - len(mark))]
    _show(says, screen.paint(mark, fg="cyan", bold=True), " " * len(mark))
    click.echo()
    _show(highlighted(step.code, screen).splitlines(), _INDENT, _INDENT)
    click.echo()
    # What is shown is what runs, so the demo can't drift from the truth.
    exec(step.code, names)
    _show(step.shows(names, replace(screen, width=screen.width - len(_INDENT))), _INDENT, _INDENT)
    click.echo()


def _show(lines: Lines, first: str, others: str) -> None:
    """Print lines, each after its indent."""
    click.echo("\n".join((others if number else first) + line if line else "" for number, line in enumerate(lines)))


def highlighted(code: str, screen: Screen) -> str:
    """Return Python code with its keywords, strings and numbers in colours."""
    shown, row, column = [], 1, 0
    lines = code.splitlines(keepends=True)
    for token in tokenize.generate_tokens(StringIO(code).readline):
        if not token.string.strip():
            continue
        # What stands between two tokens belongs to neither.
        while row < token.start[0]:
            shown.append(lines[row - 1][column:])
            row, column = row + 1, 0
        shown += lines[row - 1][column : token.start[1]], screen.paint(token.string, **_look(token))
        row, column = token.end
    return "".join(shown)


def _look(token: tokenize.TokenInfo) -> dict[str, Any]:
    if token.type == tokenize.STRING:
        return {"fg": "yellow"}
    if token.type == tokenize.NUMBER:
        return {"fg": "bright_blue"}
    return {"fg": "bright_blue"} if keyword.iskeyword(token.string) else {}


def _sentence(template: str) -> Callable[[dict[str, Any], Screen], Lines]:
    def lines(names: dict[str, Any], screen: Screen) -> Lines:
        first, *more = fold(template.format(**names), screen.width - 2)
        return [screen.paint("→ ", fg="green") + first, *(f"  {line}" for line in more)]

    return lines


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]], screen: Screen) -> Lines:
    cells = [[str(cell) for cell in row] for row in rows]
    columns = [
        Column(title, right=all(cell.isdecimal() for cell in texts))
        for title, *texts in zip(titles, *cells, strict=True)
    ]
    return lines_of_table(columns, cells, screen, _TITLES)


def _policy(names: dict[str, Any], screen: Screen) -> Lines:
    rows = []
    for info in names["q"].queues():
        policy = info.policy
        lanes = ", ".join(f"{lane} ×{weight}" for lane, weight in policy.lanes.items())
        rows.append((info.name, lanes, policy.max_attempts or "no limit", policy.dead_letter or "-"))
    return _table(("queue", "lanes", "max attempts", "dead letters go to"), rows, screen)


def _depths(names: dict[str, Any], screen: Screen) -> Lines:
    lanes = names["q"].stats("orders").depths.lanes
    rows = [(lane, depth.ready, depth.leased, depth.delayed) for lane, depth in lanes.items()]
    return _table(("lane", "ready", "leased", "delayed"), rows, screen)


def _claimed(names: dict[str, Any], screen: Screen) -> Lines:
    return _messages(names["batch"], screen)


def _retried(names: dict[str, Any], screen: Screen) -> Lines:
    return _messages([names["again"]], screen)


def _messages(messages: list[Message], screen: Screen) -> Lines:
    rows = [(message.id, message.lane, message.body.decode(), message.attempts) for message in messages]
    return _table(("id", "lane", "body", "attempts"), rows, screen)


def _dead(names: dict[str, Any], screen: Screen) -> Lines:
    rows = [(message.id, message.death.queue, message.attempts, message.death.reason) for message in names["dead"]]
    return _table(("id", "died in", "attempts", "reason"), rows, screen)


def _figures(names: dict[str, Any], screen: Screen) -> Lines:
    totals, left = names["stats"].totals, names["stats"].depths.total()
    kinds = ("sent", "received", "acked", "nacked", "dead", "requeued")
    return _table((*kinds, "left"), [(*(totals[kind] for kind in kinds), left)], screen)


STEPS = (
    TourStep(
        "Open a file. There is no server to start.",
        "from sqew import Queue\n\nq = Queue.open(path)",
        _sentence("the queue is in {path}"),
    ),
    TourStep(
        "Create a queue with two lanes. It gets a dead-letter queue of its own.",
        'q.create("orders", lanes={"express": 3, "standard": 1},\n         max_attempts=2, base_backoff_ms=100)',
        _policy,
    ),
    TourStep(
        "Send eight messages. Each is on disk when the call returns.",
        'for n in range(1, 5):\n    q.enqueue("orders", {"sku": n}, lane="standard")\n'
        'for n in range(5, 9):\n    q.enqueue("orders", {"sku": n}, lane="express")',
        _depths,
    ),
    TourStep(
        "Send one twice by mistake: with a key, the second is the first.",
        'first = q.enqueue("orders", {"sku": 9}, key="order-9")\n'
        'second = q.enqueue("orders", {"sku": 9}, key="order-9")',
        _sentence("first is {first}, second is {second}: nothing was added."),
    ),
    TourStep(
        "Claim four. The express lane weighs 3, so it gets three of four turns; no lane starves.",
        'batch = [q.claim("orders", lease_seconds=30, consumer="w1")\n         for _ in range(4)]',
        _claimed,
    ),
    TourStep(
        "One fails, the others succeed: ack deletes a message, nack gives it back, to be tried again.",
        "failed, *done = batch\n"
        'q.ack_many(done + q.claim_many("orders", 10, consumer="w2"))\n'
        'q.nack(failed, reason="printer on fire")',
        _depths,
    ),
    TourStep(
        "Wait for it. Nothing polls meanwhile: the queue knows when it is due, and wakes who waits.",
        'again = q.claim("orders", wait_seconds=5, consumer="w2")',
        _retried,
    ),
    TourStep(
        "It fails again. That was its last attempt, so it is a dead letter now: kept, with the reason.",
        'q.nack(again, reason="printer still on fire")\ndead = q.dead_letters("orders")',
        _dead,
    ),
    TourStep(
        "The printer is repaired. Bring the dead letter back: it starts anew, and this time it works.",
        'count = q.requeue("orders")\nm = q.claim("orders")\nq.ack(m)',
        _sentence("{count} requeued; message {m.id} was delivered with attempts {m.attempts} and acked."),
    ),
    TourStep(
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
