"""`sqew queue …`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import structs

from sqew import operations as ops
from sqew.cli import views
from sqew.cli.messages.peek import show_next
from sqew.cli.parameters import (
    OFF,
    Limit,
    Milliseconds,
    Pair,
    lane_option,
    limit_option,
    queue_name_option,
    yes_option,
)
from sqew.cli.queues.stats import file_bytes
from sqew.cli.session import QueueSession, now_ms
from sqew.cli.steps import in_steps
from sqew.errors import BadValue
from sqew.model import Backoff, Policy
from sqew.terminal.command import Group
from sqew.terminal.output import byte_count, plural

F = TypeVar("F", bound=Callable[..., Any])

_POLICY_OPTIONS = [
    click.option("--visibility-ms", type=Milliseconds(), help="How long a lease lasts when the receiver doesn't say."),
    click.option(
        "--max-attempts", type=Limit(), metavar="NUMBER|none", help="After this many deliveries a message is dead."
    ),
    click.option(
        "--dead-letter",
        metavar="NAME|none",
        help="Where dead messages go: a queue, made if there is none; none: to the archive.",
    ),
    click.option("--delay-ms", type=Milliseconds(), help="How long messages wait before their first delivery."),
    click.option(
        "--ttl-ms", type=Milliseconds(at_least=1, may_be_none=True), metavar="MS|none", help="How long messages live."
    ),
    click.option(
        "--fifo", is_flag=True, default=None, help="In order within each group: as a name that ends in .fifo says."
    ),
    click.option(
        "--lane", "lanes", multiple=True, type=Pair(alone="1"), metavar="NAME=WEIGHT", help="A lane; give it once each."
    ),
    click.option("--keep", type=click.Choice(["delete", "archive"]), help="What ack does with a message."),
    click.option(
        "--archive-retention-ms",
        type=Milliseconds(may_be_none=True),
        metavar="MS|none",
        help="How long finished messages are kept.",
    ),
    click.option("--key-retention-ms", type=Milliseconds(), help="How long keys are remembered after their message."),
    click.option(
        "--key-retention-from",
        type=click.Choice(["gone", "sent"]),
        help="Whether that begins when the message is gone, or when it was sent, as with SQS.",
    ),
    click.option("--deduplicate", type=click.Choice(["key", "content"]), help="What makes two messages the same."),
    click.option(
        "--deduplicate-within", type=click.Choice(["queue", "group"]), help="Where no two messages may have one key."
    ),
    click.option("--backoff-base-ms", type=Milliseconds(), help="The wait after the first failure."),
    click.option("--backoff-cap-ms", type=Milliseconds(), help="The longest wait after a failure."),
    click.option("--backoff-kind", type=click.Choice(["exponential", "fixed"]), help="Whether the wait doubles."),
    click.option("--backoff-jitter-ms", type=Milliseconds(), help="At most this is added to each wait, at random."),
    click.option("--rate-limit", type=Limit(float), metavar="NUMBER|none", help="How many may be sent a second."),
    click.option("--quota", type=Limit(), metavar="NUMBER|none", help="How many messages the queue may hold."),
    click.option(
        "--max-body-bytes", type=Limit(), metavar="NUMBER|none", help="The largest body; none: what the server takes."
    ),
    click.option("--receive-wait-ms", type=Milliseconds(), help="How long a receive by SQS waits if it doesn't say."),
]


def policy_options(command: F) -> F:
    """Add an option for every field of a policy to a command."""
    for option in reversed(_POLICY_OPTIONS):
        command = option(command)
    return command


def policy_fields(options: dict[str, Any], backoff: Backoff) -> dict[str, Any]:
    """Return the fields of a policy that were given; ``backoff`` is the one that its parts change."""
    given = {name: None if value is OFF else value for name, value in options.items() if value not in (None, ())}
    parts = {name.removeprefix("backoff_"): given.pop(name) for name in [*given] if name.startswith("backoff_")}
    if parts:
        given["backoff"] = structs.replace(backoff, **parts)
    if given.get("dead_letter") == "none":
        given["dead_letter"] = None
    lanes: Any = given.get("lanes")
    if lanes:
        weights = {lane: _weight(lane, weight) for lane, weight in lanes}
        if len(weights) < len(lanes):
            raise BadValue("A lane is named twice. Name each once, with its weight: --lane NAME=WEIGHT.")
        given["lanes"] = weights
    return given


def _weight(lane: str, weight: str) -> int:
    if not (weight.isascii() and weight.isdigit() and len(weight) < 10):
        raise BadValue(f"The weight of lane '{lane}' can't be '{weight}': it must be a whole number from 1.")
    return int(weight)


@click.group(cls=Group, aliases={"remove": "rm"})
def queue() -> None:
    """Create, list, change and delete queues."""


@queue.command("list")
@click.option("--prefix", default="", help="Only queues whose names begin so.")
@click.pass_obj
def list_queues(session: QueueSession, prefix: str) -> None:
    """List the queues, and how many messages each holds."""
    with session.reader() as q:
        found = [(info, q.stats(info.name)) for info in q.queues(prefix)]
    document = [views.queue_document(info) | {"depths": _depths(stats)} for info, stats in found]
    session.show({"queues": document}, views.queue_table(found))


def _depths(stats: Any) -> dict[str, int]:
    depths = stats.depths
    states = {state: depths.total(state) for state in ("ready", "delayed", "leased", "blocked")}
    return states | {"dead": depths.dead, "archived": depths.archived}


@queue.command("add")
@queue_name_option
@policy_options
@click.option("--exist-ok", is_flag=True, help="Leave a queue of that name as it is.")
@click.pass_obj
def add(session: QueueSession, /, name: str, exist_ok: bool, **options: Any) -> None:
    """Create a queue, and the file if it is the first one.

    Unless told otherwise it allows 5 attempts and gets a dead-letter queue NAME-dlq. The dead-letter queue is made with
    it, whatever its name, if there is none.
    """
    fields = policy_fields(options, Backoff())
    if not session.url:
        from sqew.core.engine import creation

        # Refused before there is a file: an empty one would be taken for the one that was meant from then on.
        creation(session.settings, name, fields)
    with session.open(create=True) as q:
        info = q.create(name, exist_ok=exist_ok, **fields)
        known = {other.name for other in q.queues()}
    session.show(views.queue_document(info), views.queue_facts(info, now_ms()))
    _warn_of_missing_dead_letter(session, info.policy, known)


@queue.command("update")
@queue_name_option
@policy_options
@click.pass_obj
def update(session: QueueSession, /, name: str, **options: Any) -> None:
    """Change a queue's policy. What is not named stays; lanes are replaced as a whole."""
    with session.open() as q:
        changes = policy_fields(options, q.info(name).policy.backoff)
        if not changes:
            raise click.UsageError("Say what to change.", click.get_current_context())
        info = q.update(name, **changes)
        known = {other.name for other in q.queues()}
    session.show(views.queue_document(info), views.queue_facts(info, now_ms()))
    _warn_of_missing_dead_letter(session, info.policy, known)


def _warn_of_missing_dead_letter(session: QueueSession, policy: Policy, known: set[str]) -> None:
    if policy.dead_letter is not None and policy.dead_letter not in known:
        session.note(f"Queue '{policy.dead_letter}' was deleted. It is made anew when a message dies.")


@queue.command("show")
@queue_name_option
@click.pass_obj
def show(session: QueueSession, name: str) -> None:
    """Show a queue's policy and how many messages it holds."""
    with session.reader() as q:
        info, stats = q.info(name), q.stats(name)
    now = now_ms()
    _, *tables = views.stats_parts(stats, now)
    session.show(views.queue_document(info, stats), views.queue_facts(info, now), *tables)


@queue.command("rm")
@queue_name_option
@yes_option
@click.pass_obj
def remove(session: QueueSession, name: str, yes: bool) -> None:
    """Delete a queue and its messages. Its dead-letter queue stays."""
    with session.open() as q:
        session.confirm(f"Deleting queue '{name}' with {plural(q.stats(name).depths.total(), 'message')}", yes)
        q.delete(name)
    session.show({"name": name, "deleted": True}, f"Deleted queue '{name}'.")


@queue.command("purge")
@queue_name_option
@yes_option
@click.pass_obj
def purge(session: QueueSession, name: str, yes: bool) -> None:
    """Delete every message of a queue, leased ones included."""
    with session.open() as q:
        session.confirm(f"Deleting {plural(q.stats(name).depths.total(), 'message')} of queue '{name}'", yes)

        def purging() -> ops.Purge:
            return ops.Purge(name, q.run(ops.LastId()), session.limits.max_batch)

        count = in_steps(session, q, purging, lambda: q.purge(name), "deleted", "message")
    session.show({"name": name, "purged": count}, views.sentence_of(count, "Purged"))


@queue.command("peek")
@queue_name_option
@limit_option(10)
@lane_option
@click.pass_obj
def peek(session: QueueSession, name: str, limit: int, lane: str | None) -> None:
    """Look at the next messages without taking them."""
    show_next(session, name, limit, lane)


@queue.command("requeue-dlq")
@queue_name_option
@click.pass_obj
def requeue_dlq(session: QueueSession, name: str) -> None:
    """Bring a queue's dead letters back to it, with attempts 0."""
    with session.open() as q:
        count = in_steps(session, q, lambda: ops.RequeueDead(name), lambda: q.requeue(name), "requeued", "message")
    session.show({"name": name, "requeued": count}, views.sentence_of(count, "Requeued"))


@queue.command("compact")
@queue_name_option
@click.pass_obj
def compact(session: QueueSession, name: str) -> None:
    """Sweep out what is due, give free space back to the disk and empty the write-ahead log.

    It is the file's space: the other queues in it gain as well.
    """
    if session.url:
        with session.connect() as client:
            compacted = client.compact(name)
        where, before, after = session.url, compacted.bytes_before, compacted.bytes_after
    else:
        session.check_file("queue compact", "autovacuum does it by itself, VACUUM FULL at once with the tables locked")
        where, before, after = session.settings.db, *_compact_file(session, name)
    session.show(
        {"name": name, "bytes_before": before, "bytes_after": after},
        f"Compacted {where}: {byte_count(before)} before, {byte_count(after)} now.",
    )


def _compact_file(session: QueueSession, name: str) -> tuple[int, int]:
    path = session.settings.db
    with session.open_file() as q:
        q.info(name)
        before = file_bytes(path) + file_bytes(path + "-wal")
        q.maintain()
        after = file_bytes(path) + file_bytes(path + "-wal")
    return before, after
