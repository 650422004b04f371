"""`sqew event …`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sqew.cli.messages import lines
from sqew.cli.messages.bodies import body_of, body_option, text_option
from sqew.cli.parameters import LINES_FILE, Milliseconds, Name, Pair
from sqew.cli.session import QueueSession
from sqew.errors import SqewError, TooLarge
from sqew.matching.routing import check_routing_key
from sqew.model import NewMessage, Published
from sqew.rules.bodies import parse_json
from sqew.rules.messages import check_message
from sqew.terminal.command import Group
from sqew.terminal.exits import CommandError, Exit, complain
from sqew.terminal.output import plural

if TYPE_CHECKING:
    from sqew.cli.session import Queues

Make = Callable[[bytes, Any], NewMessage]


@click.group(cls=Group)
def event() -> None:
    """Publish events."""


@event.command("publish")
@click.option("--key", "routing_key", required=True, metavar="KEY", help="The routing key, as in orders.created.")
@body_option
@text_option
@click.option(
    "--file", type=LINES_FILE, metavar="FILE", help="Newline-delimited JSON, an event to a line; - for stdin."
)
@click.option("--priority", type=int, default=0, help="Higher ones are received first: -1000 to 1000.")
@click.option(
    "--delay-ms", "--delay", "delay_ms", type=Milliseconds(), help="How long it waits before its first delivery."
)
@click.option(
    "--ttl-ms", "--ttl", "ttl_ms", type=Milliseconds(at_least=1), help="How long it can be received or posted."
)
@click.option("--group", type=Name(), help="The group, in FIFO queues.")
@click.option("--header", "--headers", "headers", multiple=True, type=Pair(), help="A header; give it once each.")
@click.pass_obj
def publish(
    session: QueueSession, /, routing_key: str, body: str | None, text: str | None, file: str | None, **rest: Any
) -> None:
    """Publish to every queue and endpoint whose subscription matches.

    All lines of a file are checked first: if one is bad, nothing is published.
    """
    check_routing_key(routing_key)
    make = _maker(session, rest)
    single = body_of(body, text, session.limits)
    if (single is None) == (file is None):
        raise click.UsageError("Give one of --body, --text and --file to publish.", click.get_current_context())
    if single is not None:
        _publish_one(session, routing_key, make(*single))
    else:
        _publish_file(session, routing_key, str(file), make)


def _maker(session: QueueSession, options: dict[str, Any]) -> Make:
    headers = dict(options.pop("headers")) or None

    def make(body: bytes, format: Any) -> NewMessage:
        message = NewMessage(body, format, headers, **options)
        check_message(message, session.limits)
        return message

    return make


def _publish_one(session: QueueSession, routing_key: str, message: NewMessage) -> None:
    with session.open() as q:
        (published,) = q.events.publish_many(routing_key, [message])
    sentences = [
        f"Published '{routing_key}' {_places(published)}.",
        *(f"It is message {id} of '{queue}'." for queue, id in published.messages),
    ]
    session.show(_document(routing_key, [published]), *sentences)
    _note_missing(session, [published])


def _document(routing_key: str, published: list[Published]) -> dict[str, Any]:
    """Return events for machines: in the same form for one as for many."""
    messages = [{"queue": queue, "id": id} for one in published for queue, id in one.messages]
    return {
        "routing_key": routing_key,
        "published": len(published),
        "queues_matched": len({message["queue"] for message in messages}),
        "messages": messages,
        "deliveries": sum(one.deliveries for one in published),
        "missing": _missing(published),
    }


def _missing(published: list[Published]) -> list[str]:
    return sorted({queue for one in published for queue in one.missing})


def _places(published: Published) -> str:
    queues, endpoints = len(published.messages), published.deliveries
    if not queues and not endpoints:
        # Of a queue that is missing more is said below.
        return "to nobody" if published.missing else "to nobody: no subscription matches it"
    both = [plural(queues, "queue")] * bool(queues) + [plural(endpoints, "endpoint")] * bool(endpoints)
    return "to " + " and ".join(both)


def went_out(messages: int, deliveries: int) -> str:
    """Return the numbers of messages and deliveries in words: ``2 messages``, ``1 message, and 3 to post``."""
    return plural(messages, "message") + (f", and {deliveries} to post" if deliveries else "")


def _publish_file(session: QueueSession, routing_key: str, name: str, make: Make) -> None:
    def parse(line: bytes) -> NewMessage:
        body = line.strip()
        parse_json(body, session.limits)
        return make(body, "json")

    with lines.opened(name) as file, session.open() as q:
        total = lines.messages_in(file, name, parse, "published")
        if not total:
            where = "stdin" if name == "-" else name
            raise CommandError(f"There is no line in {where}, so nothing was published.", Exit.INVALID)
        file.seek(0)
        events = (parse(line) for line in file if line.strip())
        published = _published(q, routing_key, lines.Batches(events, session.settings.max_batch), total)
    messages = sum(len(one.messages) for one in published)
    deliveries = sum(one.deliveries for one in published)
    session.show(
        _document(routing_key, published),
        f"Published {plural(len(published), 'event')} under '{routing_key}': {went_out(messages, deliveries)}.",
    )
    _note_missing(session, published)


def _published(q: Queues, routing_key: str, batches: lines.Batches, total: int) -> list[Published]:
    """Publish batches, each in one transaction."""
    published: list[Published] = []
    while batch := batches.next():
        try:
            published += q.events.publish_many(routing_key, batch)
        except SqewError as error:
            if isinstance(error, TooLarge) and len(batch) > 1:
                batches.put_back(batch)
                continue
            if published:
                complain(f"Stopped: {len(published)} of {plural(total, 'event')} were published.")
            raise
    return published


def _note_missing(session: QueueSession, published: list[Published]) -> None:
    for queue in _missing(published):
        session.note(f"A subscription leads to queue '{queue}', which does not exist: nothing reached it.")
    if any(one.deliveries for one in published) and not session.url:
        place = "database" if session.database else "file"
        session.note(f"A server on this {place} posts to the endpoints: sqew serve.")
