"""`sqew message …`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from sqew import operations as ops
from sqew.cli import views
from sqew.cli.messages import lines
from sqew.cli.messages.peek import show_next
from sqew.cli.parameters import (
    COUNT,
    LINES_FILE,
    IdList,
    Milliseconds,
    Name,
    OneText,
    Pair,
    QueueName,
    any_queue_option,
    check_alternatives,
    lane_option,
    queue_option,
    token_option,
)
from sqew.cli.session import QueueSession, now_ms
from sqew.errors import BadBody, MessageNotFound, SqewError, StaleLease
from sqew.model import Extension, NewMessage, Ref, Release, Settled
from sqew.rules.bodies import encode_body, parse_json
from sqew.rules.limits import Limits, check_batch
from sqew.rules.messages import check_message
from sqew.rules.values import check_int
from sqew.terminal.command import Group, Leading
from sqew.terminal.exits import Exit, complain
from sqew.terminal.failures import code_of
from sqew.terminal.output import moment, plural

if TYPE_CHECKING:
    from sqew.cli.session import Queues

_ONE_MESSAGE = OneText("several messages go as lines of JSON with --file")
batch_option = click.option("--batch", type=int, default=1, show_default=True, metavar="N", help="How many at most.")
wait_option = click.option(
    "--wait-ms", type=Milliseconds(), default=0, help="Wait up to this long for a message if there is none."
)
_CLI = "sqew-cli"
"""The consumer that polls by default: an id and this name settle a message, but only one that was polled."""
consumer_option = click.option(
    "--consumer", type=Name(), metavar="NAME", default=_CLI, show_default=True, help="Who holds the lease."
)
ids_option = click.option("--ids", "--id", "ids", required=True, type=IdList(), help="The message, or several: 1,2,3.")
leading_ids_option = click.option(
    "--ids",
    "--id",
    "ids",
    required=True,
    type=IdList(),
    cls=Leading,
    metavar="ID,…",
    help="The message, or several: 1,2,3. --ids may be left out.",
)


@click.group(cls=Group)
def message() -> None:
    """Send, receive, acknowledge and look at messages."""


@message.command("enqueue")
@queue_option
@click.option("--payload", type=_ONE_MESSAGE, metavar="JSON", help="The message, as JSON.")
@click.option("--text", type=_ONE_MESSAGE, help="The message, as plain text.")
@click.option(
    "--file", type=LINES_FILE, metavar="FILE", help="Newline-delimited JSON, a message to a line; - for stdin."
)
@click.option("--priority", type=int, default=0, help="Higher ones are received first: -1000 to 1000.")
@click.option("--delay-ms", type=Milliseconds(), help="How long it waits before its first delivery.")
@click.option("--ttl-ms", type=Milliseconds(at_least=1), help="How long it lives.")
@click.option("--lane", metavar="NAME", help="The lane.")
@click.option("--group", type=Name(), help="The group, in a FIFO queue.")
@click.option("--header", "headers", multiple=True, type=Pair(), help="A header; give it once each.")
@click.option("--idempotency-key", "key", type=Name(), help="A second message with this key is not stored.")
@click.option(
    "--sync-commit/--no-sync-commit", default=None, help="Wait for the disk, or don't, whatever the setting durability."
)
@click.pass_obj
def enqueue(
    session: QueueSession,
    /,
    queue: str,
    payload: str | None,
    text: str | None,
    file: str | None,
    key: str | None,
    sync_commit: bool | None,
    **rest: Any,
) -> None:
    """Send messages.

    All lines of a file are checked first: if one is bad, nothing is sent. With --idempotency-key the first message gets
    the key itself and the n-th KEY:n, so sending the same file again sends only what is missing.
    """
    make = _maker(session.limits, rest)
    singles = _singles(payload, text, make, session.limits)
    if not singles and file is None:
        raise click.UsageError(
            "There is nothing to send: give --payload, --text or --file.", click.get_current_context()
        )
    if file is None:
        messages = [_keyed(message, key, number) for number, message in enumerate(singles, 1)]
        _send_one(session, ops.Send(queue, messages, sync_commit=sync_commit))
    else:
        _send_file(session, queue, file, singles, key, make, sync_commit)


Make = Callable[[bytes, Any], NewMessage]


def _maker(limits: Limits, options: dict[str, Any]) -> Make:
    headers = dict(options.pop("headers")) or None

    def make(body: bytes, format: Any) -> NewMessage:
        message = NewMessage(body, format, headers, **options)
        check_message(message, limits)
        return message

    return make


def _singles(payload: str | None, text: str | None, make: Make, limits: Limits) -> list[NewMessage]:
    messages = []
    if payload is not None:
        # The bytes as they were typed, whether or not they are valid UTF-8: parse_json tells.
        body = os.fsencode(payload)
        try:
            parse_json(body, limits)
        except BadBody as error:
            raise BadBody(f"{error} Quote it for the shell, or send it as it is with --text.") from error
        messages.append(make(body, "json"))
    if text is not None:
        messages.append(make(*encode_body(text, limits)))
    return messages


def _keyed(message: NewMessage, key: str | None, number: int) -> NewMessage:
    """Give a message its key. The first one gets the key itself, so that a file of one line is like a payload."""
    if key is None:
        return message
    return structs.replace(message, key=key if number == 1 else f"{key}:{number}")


def _send_one(session: QueueSession, sending: ops.Send) -> None:
    queue = sending.queue
    with session.open() as q:
        sent = q.run(sending)
    parts = [
        f"Message {one.id} of '{queue}' has that key: nothing was added." if one.duplicate
        else f"Sent message {one.id} to '{queue}'."
        for one in sent
    ]  # fmt: skip
    answers = [{"id": one.id, "duplicate": one.duplicate} for one in sent]
    session.show({"queue": queue, **(answers[0] if len(answers) == 1 else {"sent": answers})}, *parts)


def _send_file(
    session: QueueSession,
    queue: str,
    name: str,
    singles: list[NewMessage],
    key: str | None,
    make: Make,
    sync_commit: bool | None,
) -> None:
    limits = session.limits

    def parse(line: bytes) -> NewMessage:
        body = line.strip()
        parse_json(body, limits)
        return make(body, "json")

    with lines.opened(name) as file, session.open() as q:
        q.info(queue)
        total = lines.messages_in(file, name, parse) + len(singles)
        file.seek(0)
        unkeyed = chain(singles, (parse(line) for line in file if line.strip()))
        messages = (_keyed(message, key, number) for number, message in enumerate(unkeyed, 1))
        counts = lines.send(session, q, queue, messages, total, sync_commit)
    show_counts(session, queue, counts, "Sent")


def show_counts(session: QueueSession, queue: str, counts: lines.SendCounts, done: str, left_out: int = 0) -> None:
    """Show the results of sending a file of messages."""
    document = {"queue": queue, "sent": counts.sent, "duplicates": counts.duplicates}
    ids = {"first_id": counts.first_id, "last_id": counts.last_id}
    sentence = f"{done} {plural(counts.sent, 'message')} to '{queue}'"
    if counts.duplicates:
        sentence += f"; {counts.duplicates} were there already"
    if left_out:
        sentence += f"; {left_out} left out, expired or damaged"
    session.show(document | ids | ({"left_out": left_out} if left_out else {}), sentence + ".")


@message.command("poll")
@queue_option
@batch_option
@wait_option
@lane_option
@click.option(
    "--lease-ms",
    "--visibility-ms",
    "lease_ms",
    type=Milliseconds(),
    help="How long the lease lasts.  [default: the queue's visibility]",
)
@consumer_option
@click.pass_obj
def poll(
    session: QueueSession, queue: str, batch: int, wait_ms: int, lane: str | None, lease_ms: int | None, consumer: str
) -> None:
    """Receive messages under a lease: ack them, or they come back when it ends."""
    _receive(session, ops.Receive(queue, batch, lane, lease_ms, consumer), wait_ms)


@message.command("get")
@queue_option
@batch_option
@wait_option
@lane_option
@click.pass_obj
def get(session: QueueSession, queue: str, batch: int, wait_ms: int, lane: str | None) -> None:
    """Take messages for good: they are acknowledged as they are received.

    If what comes after fails, they are lost (at most once). To work safely, poll and ack.
    """
    _receive(session, ops.Receive(queue, batch, lane, finish=True), wait_ms)


def _receive(session: QueueSession, operation: ops.Receive, wait_ms: int) -> None:
    check_int("--batch", operation.limit, 1, session.limits.max_batch)
    with session.open() as q:
        messages = q.receive(operation, wait_ms).messages
    document = views.messages_document(messages)
    if operation.finish:
        messages = [structs.replace(message, lease=None) for message in messages]
        document = views.taken_document(messages)
    session.show(document, *views.received_messages(messages, now_ms()))
    if not messages:
        session.note(f"Queue '{operation.queue}' has nothing to receive.")


@message.command("peek")
@click.option(
    "--queue",
    type=QueueName(),
    cls=Leading,
    metavar="QUEUE",
    help="The queue. --queue may be left out.  [default: whichever the message is in]",
)
@click.option("--ids", "--id", "ids", type=IdList(), help="The message, or several: 1,2,3.  [default: the next one]")
@click.option("--limit", type=COUNT, metavar="N", help="How many of the next ones at most.  [default: 1]")
@click.pass_obj
def peek(session: QueueSession, queue: str | None, ids: list[int] | None, limit: int | None) -> None:
    """Look at one message, or several, without taking them: by id, or the next of a queue."""
    if ids is not None:
        check_alternatives({"ids": ids, "limit": limit}, ("ids", "limit"))
        _show_messages(session, queue, ids)
    elif queue is None:
        raise click.UsageError("Say what to look at: a queue, or --id.", click.get_current_context())
    else:
        show_next(session, queue, limit or 1)


@message.command("peek-id")
@leading_ids_option
@click.pass_obj
def peek_id(session: QueueSession, ids: list[int]) -> None:
    """Look at one message, or several, whichever queue they are in."""
    _show_messages(session, None, ids)


def _show_messages(session: QueueSession, queue: str | None, ids: list[int]) -> None:
    with session.reader() as q:
        found = [q.run(ops.Get(queue, id)) if queue is None else q.get(queue, id) for id in ids]
    document = views.message_document(found[0]) if len(found) == 1 else views.messages_document(found)
    session.show(document, *(views.one_message(message, now_ms()) for message in found))


@message.command("remove")
@any_queue_option
@leading_ids_option
@click.pass_obj
def remove(session: QueueSession, queue: str | None, ids: list[int]) -> int:
    """Delete messages by id, whoever holds them."""
    check_batch(len(ids), session.limits)

    def remove_from(q: Queues, name: str, ids: Sequence[int]) -> list[Settled | SqewError]:
        found = zip(ids, q.remove(name, ids), strict=True)
        return [Settled(id) if was_there else MessageNotFound(id, name) for id, was_there in found]

    return _settle(session, remove_from, queue, ids, "Removed")


@message.command("ack")
@any_queue_option
@ids_option
@token_option
@consumer_option
@click.pass_obj
def ack(session: QueueSession, queue: str | None, ids: list[int], token: str | None, consumer: str) -> int:
    """Acknowledge messages that were polled: their work is done."""
    refs = _refs(session, ids, token, consumer)
    return _settle(
        session, lambda q, name, ids: q.run(ops.Ack(name, [refs[id] for id in ids])), queue, ids, "Acknowledged"
    )


@message.command("nack")
@any_queue_option
@ids_option
@token_option
@consumer_option
@click.option("--delay-ms", type=Milliseconds(), help="How long they wait.  [default: the queue's backoff]")
@click.option("--reason", type=Name(), help="Why, for whoever finds it among the dead letters.")
@click.option("--dead", is_flag=True, help="Don't try again: they are dead at once.")
@click.pass_obj
def nack(
    session: QueueSession,
    queue: str | None,
    ids: list[int],
    token: str | None,
    consumer: str,
    delay_ms: int | None,
    reason: str | None,
    dead: bool,
) -> int:
    """Give messages back that were polled: their work failed."""
    refs = _refs(session, ids, token, consumer)

    def nack_in(q: Queues, name: str, ids: Sequence[int]) -> list[Settled | SqewError]:
        return q.run(ops.Nack(name, [Release(refs[id], delay_ms, dead, reason or "") for id in ids]))

    return _settle(session, nack_in, queue, ids, "Gave back")


@message.command("extend-lease")
@any_queue_option
@ids_option
@click.option("--ms", required=True, type=Milliseconds(), help="The lease ends so long from now.")
@token_option
@consumer_option
@click.pass_obj
def extend_lease(
    session: QueueSession, queue: str | None, ids: list[int], ms: int, token: str | None, consumer: str
) -> int:
    """Set the end of a message's lease."""
    refs = _refs(session, ids, token, consumer)

    def extend_in(q: Queues, name: str, ids: Sequence[int]) -> list[Settled | SqewError]:
        return q.run(ops.Extend(name, [Extension(refs[id], ms) for id in ids]))

    return _settle(session, extend_in, queue, ids, "Extended the lease of")


def _refs(session: QueueSession, ids: Sequence[int], token: str | None, consumer: str) -> dict[int, Ref]:
    """Refer to the messages by the holder of their lease: by a token, if given, which is more specific than a name."""
    check_batch(len(ids), session.limits)
    return {id: Ref(id, token, None if token else consumer) for id in ids}


Settle = Callable[["Queues", str, Sequence[int]], "list[Settled | SqewError]"]
"""A function that settles messages of one queue."""


def _settle(session: QueueSession, settle: Settle, queue: str | None, ids: list[int], done: str) -> int:
    """Settle the messages in the named queue, or else queue by queue."""
    with session.open() as q:
        if queue is not None:
            results = dict(zip(ids, settle(q, queue, ids), strict=True))
            return _answer(session, queue, results, done)
        queues, results = _found(q, ids)
        for number, name in enumerate(dict.fromkeys(queues.values())):
            theirs = [id for id, of in queues.items() if of == name]
            try:
                settled = settle(q, name, theirs)
            except SqewError as error:
                if not number:
                    raise
                # Others are settled already, and their results must not be lost.
                settled = [error] * len(theirs)
            results.update(zip(theirs, settled, strict=True))
    return _answer(session, queues, {id: results[id] for id in ids}, done)


def _found(q: Queues, ids: Sequence[int]) -> tuple[dict[int, str], dict[int, Settled | SqewError]]:
    """Find the queue of each message, and the ids that are in none."""
    queues: dict[int, str] = {}
    missing: dict[int, Settled | SqewError] = {}
    for id in ids:
        try:
            queues[id] = q.run(ops.Get(None, id)).queue
        except MessageNotFound as error:
            missing[id] = error
    return queues, missing


def _explained(result: Settled | SqewError) -> Settled | SqewError:
    """Add a hint to a stale lease's error: the user of a command line may never have held the lease."""
    if type(result) is StaleLease:
        hint = "If you never held it, poll it first, or name its holder with --consumer or --token."
        result.args = (f"{result} {hint}",)
    return result


def _answer(
    session: QueueSession, queue: str | Mapping[int, str], results: Mapping[int, Settled | SqewError], done: str
) -> int:
    """Show the result of each message. The exit code is that of the first that failed.

    ``queue``: the queue of all, or of each by id if none was named.
    """
    results = {id: _explained(result) for id, result in results.items()}
    refused = [result for result in results.values() if isinstance(result, SqewError)]
    entries = [_entry(id, result) for id, result in results.items()]
    if isinstance(queue, str):
        document: dict[str, Any] = {"queue": queue, "results": entries}
    else:
        document = {"results": [{"queue": queue.get(entry["id"]), **entry} for entry in entries]}
    session.show(document, *_sentences([*results.values()], done))
    for sentence in dict.fromkeys(str(error) for error in refused):
        complain(sentence)
    return code_of(refused[0]) if refused else Exit.OK


def _entry(id: int, result: Settled | SqewError) -> dict[str, Any]:
    if isinstance(result, SqewError):
        return {"id": id, "ok": False, "error": result.code, "message": str(result)}
    return {"id": id, "ok": True, "due_at": result.due_at, "dead": result.dead}


def _sentences(results: Sequence[Settled | SqewError], done: str) -> Iterator[str]:
    settled = [result for result in results if isinstance(result, Settled)]
    if settled:
        of = f" of {len(results)}" if len(settled) < len(results) else ""
        yield f"{done} {len(settled)}{of} {'message' if len(results) == 1 else 'messages'}."
    now = now_ms()
    for result in settled:
        if result.dead:
            yield f"Message {result.id} is dead: it had its last attempt, or was given up."
        elif result.due_at is not None:
            yield f"Message {result.id} is due {moment(result.due_at, now)}."
