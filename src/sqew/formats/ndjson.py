"""Messages as lines of JSON, which `export` writes and `import` reads.

A JSON body stands in its line as it is, byte for byte; one that holds line breaks, or has space around it, stands as a
string in ``raw`` instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from sqew.errors import BadBody, BadValue, SqewError
from sqew.formats.entry_limits import LARGE, Crowd
from sqew.model import ArchivedMessage, Format, Message, NewMessage
from sqew.rules.bodies import parse_json
from sqew.rules.limits import Limits
from sqew.rules.messages import check_message
from sqew.rules.values import seconds_as_ms, shown


class MessageLine(Struct, omit_defaults=True):
    """A message as a line. Only ``body`` (or ``raw``) must be there to import it."""

    body: Raw | UnsetType = UNSET
    raw: str | None = None
    format: Format = "json"
    id: int | None = None
    lane: str | None = None
    priority: int = 0
    headers: dict[str, Any] = {}
    group: str | None = None
    key: str | None = None
    attempts: int = 0
    created_at: int | None = None
    available_at: int | None = None
    expires_at: int | None = None
    state: str | None = None
    died_in: str | None = None
    reason: str | None = None
    died_at: int | None = None
    outcome: str | None = None
    finished_at: int | None = None
    damaged: bool = False


class GivenLine(MessageLine):
    """A line as it is read, which may also use the names of the HTTP dialects for the same fields."""

    payload: Raw | UnsetType = UNSET
    message: Raw | UnsetType = UNSET
    idempotency_key: str | None = None
    group_id: str | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None
    delay: float | None = None
    """Delay in seconds, as `ttl` is."""
    ttl: float | None = None

    def delay_from(self, now: int) -> int | None:
        """Return the milliseconds from now that the message is delayed; None: as its queue's policy says."""
        if self.delay_ms is not None:
            return self.delay_ms
        if self.delay is not None:
            return seconds_as_ms("delay", self.delay)
        return None if self.available_at is None else max(self.available_at - now, 0)

    def ttl_from(self, now: int) -> int | None:
        """Return the milliseconds from now that the message lives; None: as its queue's policy says."""
        if self.ttl_ms is not None:
            return self.ttl_ms
        if self.ttl is not None:
            return seconds_as_ms("ttl", self.ttl, at_least=1)
        return None if self.expires_at is None else self.expires_at - now


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(GivenLine).decode
_crowd = Crowd(GivenLine, _decode)
_decode_text = msgspec.json.Decoder(str).decode


def line(message: Message, columns: Iterable[str] | None = None) -> bytes:
    """Return a message as a line, its line break included; with ``columns``, only these fields."""
    return _written(_line(message), message.queue, columns)


def archived_line(archived: ArchivedMessage, columns: Iterable[str] | None = None) -> bytes:
    """Return an archived message as a line, its line break included; with ``columns``, only these fields."""
    made = _line(archived.message)
    made.state = None
    made.outcome, made.finished_at, made.reason = archived.outcome, archived.finished_at, archived.reason or None
    return _written(made, archived.message.queue, columns)


def _written(made: MessageLine, queue: str, columns: Iterable[str] | None) -> bytes:
    if columns is None:
        return _encode(made) + b"\n"
    values = {**structs.asdict(made), "queue": queue}
    kept = {name: values[name] for name in columns if values[name] is not UNSET}
    if made.raw is not None and "body" in columns:
        kept["raw"] = made.raw
    return _encode(kept) + b"\n"


def _line(message: Message) -> MessageLine:
    made = MessageLine(
        format=message.format,
        id=message.id,
        lane=message.lane,
        priority=message.priority,
        headers=message.headers,
        group=message.group,
        key=message.key,
        attempts=message.attempts,
        created_at=message.created_at,
        available_at=message.available_at,
        expires_at=message.expires_at,
        state=message.state,
        damaged=message.damaged,
    )
    if message.death is not None:
        made.died_in, made.reason, made.died_at = message.death.queue, message.death.reason, message.death.at
    if message.damaged:
        return made
    if message.format == "text":
        made.body = Raw(_encode(message.body.decode()))
    elif _can_stand_in_a_line(message.body):
        made.body = Raw(message.body)
    else:
        made.raw = message.body.decode()
    return made


def _can_stand_in_a_line(body: bytes) -> bool:
    # A line break would end the line. Space around the body would be taken for the line's own when it is read.
    return b"\n" not in body and b"\r" not in body and body == body.strip(b" \t")


def body_of(read: MessageLine) -> bytes:
    """Return the body in a line that `line` has written; empty if the message is damaged."""
    if read.raw is not None:
        return read.raw.encode()
    if isinstance(read.body, UnsetType):
        return b""
    return bytes(read.body) if read.format == "json" else _decode_text(read.body).encode()


def batches(lines: Iterable[bytes], now: int, limits: Limits) -> Iterator[list[NewMessage]]:
    """Parse lines into messages, in batches that may be sent. An error names the line."""
    if not isinstance(lines, Iterable):
        raise BadValue(f"The lines can't be {shown(lines)}: give an open file, or a list of bytes.")
    batch: list[NewMessage] = []
    for number, text in enumerate(lines, 1):
        if _is_blank(text):
            continue
        try:
            message = parse(text, now, limits)
        except SqewError as error:
            # The same error, so that its class and what it knows are kept.
            error.args = (f"Line {number}: {error}",)
            raise
        if message is not None:
            batch.append(message)
        if len(batch) == limits.max_batch:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_blank(text: object) -> bool:
    return isinstance(text, bytes | str) and not text.strip()


def parse(text: bytes, now: int, limits: Limits) -> NewMessage | None:
    """Parse a line; None if its message has expired, or its body was lost before it was exported."""
    try:
        read = _crowd.decode(text) if len(text) > LARGE and type(text) is bytes else _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
        raise BadBody(f"This is not a message as `sqew export` writes it: {error}.") from error
    if read.damaged or (read.expires_at is not None and read.expires_at <= now):
        return None
    message = NewMessage(
        _body(read, limits),
        read.format,
        read.headers or None,
        read.priority,
        read.lane,
        read.group_id if read.group is None else read.group,
        read.idempotency_key if read.key is None else read.key,
        read.delay_from(now),
        read.ttl_from(now),
    )
    check_message(message, limits)
    return message


def _body(read: GivenLine, limits: Limits) -> bytes:
    if read.raw is not None:
        body = read.raw.encode()
        if read.format == "text":
            return body
        parse_json(body, limits)
        return body
    given = next((body for body in (read.body, read.payload, read.message) if not isinstance(body, UnsetType)), None)
    if given is None:
        raise BadBody('There is no body. A line needs "body", "payload" or "message", or "raw" for JSON as text.')
    if read.format == "json":
        parse_json(bytes(given), limits)
        return bytes(given)
    try:
        return _decode_text(given).encode()
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadBody(f"A text body must be a JSON string: {error}.") from error
