"""Conversion of rows to messages, and back: headers, checksums and large bodies."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from sqew.model import ArchivedMessage, Death, Lease, Message, NewMessage, State
from sqew.rules.limits import MOST_BYTES
from sqew.rules.messages import attribute_bytes
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.transaction import Row, Work

T = TypeVar("T")

DAMAGE = (TypeError, ValueError, LookupError, msgspec.MsgspecError)
"""Errors of reading a row that holds what was never written to it."""

HIGHEST = 253_402_300_799_999
"""The last millisecond of the year 9999: no number that is stored is higher, except random ones."""

MOST_ADDED_UP = 8 * HIGHEST
"""Highest sum of eight numbers of a row: they are added up to see that they are numbers."""

INLINE_BODY_BYTES = 2048
"""Bytes of a body, at most, to be kept in the message's row, which SQLite rewrites whole for every lease."""

encode_headers = msgspec.json.Encoder().encode
_decode_headers = msgspec.json.Decoder(dict[str, Any]).decode


def checksum(body: bytes, headers: bytes | None, is_text: int) -> int:
    """Return the CRC-32 of what a receiver is given: it finds every burst of up to 32 flipped bits."""
    crc = zlib.crc32(body, is_text)
    return zlib.crc32(headers, crc) if headers else crc


def is_whole(body: bytes | None, headers: bytes | None, is_text: int, check: int) -> bool:
    """Return True if body and headers are what was sent.

    No body at all is damage even where the checksum holds. One flipped bit in the record of a message without headers
    makes headers of its body, and the checksum of both together stays the same.
    """
    return body is not None and checksum(body, headers, is_text) == check


def payload_checksum(routing_key: bytes, message_id: bytes, form: int, is_text: int, body: bytes) -> int:
    """Return the CRC-32 of what is posted to endpoints, and of its description."""
    return zlib.crc32(b"%d %d %b %b" % (form, is_text, routing_key, message_id), zlib.crc32(body))


def delivery_checksum(payload_id: int, endpoint: bytes) -> int:
    """Return the CRC-32 of a delivery: its payload's id and its endpoint."""
    return zlib.crc32(endpoint, payload_id & 0xFFFF_FFFF)


def are_odd(texts: tuple[Any, ...], numbers: tuple[Any, ...]) -> bool:
    """Return True if one of these optional values of a row is there, and of the wrong type or too high."""
    return any(text is not None and type(text) is not str for text in texts) or any(
        number is not None and (type(number) is not int or number > HIGHEST) for number in numbers
    )


def size_of(message: Message | NewMessage) -> int:
    """Return the bytes of a message, attributes of SQS or SNS included. Other headers don't count: they are few."""
    return len(message.body) + (attribute_bytes(message.headers) if message.headers else 0)


def not_too_much(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the first messages, as many as fit into one answer: one at least."""
    size = 0
    for message in messages:
        yield message
        size += size_of(message)
        if size >= MOST_BYTES:
            return


def part_of(found: Iterable[tuple[int, T, int]], limit: int) -> tuple[list[T], int | None]:
    """Return the first entries (each between its id and its size), as many as fit into one answer: one at least.

    Also return the id after which there are more (None: there are no more).
    """
    entries: list[T] = []
    size = last = 0
    for id, entry, bytes_of_entry in found:
        if len(entries) == limit or size >= MOST_BYTES:
            return entries, last
        entries.append(entry)
        size, last = size + bytes_of_entry, id
    return entries, None


_MARK = "\x1e"
"""Prefix of stored keys that are not as they were given."""


def scoped_key(key: str, group: str | None, within: str) -> str:
    """Return a key as it is stored: with its group before it if it is unique only there."""
    if within == "group":
        return f"{_MARK}{len(group or '')}:{group or ''}{key}"
    return key if not key.startswith(_MARK) else f"{_MARK}0:{key}"


def shown_key(stored: str) -> str:
    """Return a stored key as it was given."""
    if not stored.startswith(_MARK):
        return stored
    length, _, rest = stored[1:].partition(":")
    return rest[int(length) :]


def body_of(work: Work, id: int, inline: bytes | None) -> bytes | None:
    """Return the body, from its row or from where large ones are kept. None if it is lost."""
    if inline is not None:
        return inline
    body: bytes | None = work.execute(work.sql.large_body, (id,)).get
    return body


def decode_headers(headers: bytes | None) -> dict[str, Any]:
    return _decode_headers(headers) if headers else {}


def stored_message(work: Work, row: Row) -> Message:
    """Return a row of {stored} as a message. Tokens are secrets between the store and the holder: none is shown."""
    (
        id, queue_id, lane_id, priority, due_at, attempts, available_at, created_at, expires_at, lease_until, _token,
        leased_by, key, group, origin, _origin_lane, reason, died_at, is_text, check, headers, body,
    ) = row  # fmt: skip
    state = work.catalog.queue_by_id(queue_id)
    added_up = priority + attempts + available_at + created_at + is_text + check
    if (
        type(added_up) is not int
        or added_up > MOST_ADDED_UP
        or are_odd((leased_by, key, group, origin, reason), (due_at, lease_until, expires_at, died_at))
    ):
        raise ValueError(f"message {id} holds what was never written to it")
    body, headers, damaged = _verified(body_of(work, id, body), headers, is_text, check)
    leased = lease_until is not None and lease_until > work.now
    return Message(
        id=id,
        queue=state.name if state else "",
        body=body,
        format="text" if is_text else "json",
        headers=decode_headers(headers),
        priority=priority,
        lane=state.lane_names.get(lane_id, "") if state else "",
        group=group,
        key=None if key is None else shown_key(key),
        attempts=attempts,
        created_at=created_at,
        # A lease that ran out made the message available when it ended.
        available_at=available_at if leased or due_at is None else due_at,
        expires_at=expires_at,
        state=message_state(due_at, leased, work.now),
        lease=Lease("", lease_until, leased_by) if leased else None,
        death=Death(origin, reason or "", died_at or 0) if origin is not None else None,
        damaged=damaged,
    )


def sized_message(work: Work, row: Row) -> tuple[int, Message, int]:
    """Return a row of {stored} as a message, between its id and its size with all headers."""
    message = stored_message(work, row)
    return message.id, message, len(message.body) + len(row[20] or b"")


def sized_archived(state: QueueState, row: Row) -> tuple[int, ArchivedMessage, int]:
    """Return a row of {archived} as a message, between its id and its size with all headers."""
    archived = archived_message(state, row)
    return archived.message.id, archived, len(archived.message.body) + len(row[14] or b"")


def archived_message(state: QueueState, row: Row) -> ArchivedMessage:
    """Return a row of {archived} as an archived message."""
    (
        id, _queue_id, lane, priority, attempts, available_at, created_at, finished_at, outcome, reason, key, group,
        is_text, check, headers, body,
    ) = row  # fmt: skip
    added_up = priority + attempts + available_at + created_at + finished_at + is_text + check
    if type(added_up) is not int or added_up > MOST_ADDED_UP or are_odd((lane, outcome, reason, key, group), ()):
        raise ValueError(f"message {id} in the archive holds what was never written to it")
    body, headers, damaged = _verified(body, headers, is_text, check)
    message = Message(
        id=id,
        queue=state.name,
        body=body,
        format="text" if is_text else "json",
        headers=decode_headers(headers),
        priority=priority,
        lane=lane,
        group=group,
        key=None if key is None else shown_key(key),
        attempts=attempts,
        created_at=created_at,
        available_at=available_at,
        expires_at=None,
        state="ready",
        death=Death(state.name, reason or "", finished_at) if outcome == "dead" else None,
        damaged=damaged,
    )
    return ArchivedMessage(message, outcome, finished_at, reason or "")


def _verified(body: bytes | None, headers: bytes | None, is_text: int, check: int) -> tuple[bytes, bytes | None, bool]:
    """Return body and headers as they were sent; nothing in their place if they are not."""
    if body is not None and is_whole(body, headers, is_text, check):
        return body, headers, False
    return b"", None, True


def message_state(due_at: int | None, leased: bool, now: int) -> State:
    if leased:
        return "leased"
    if due_at is None:
        return "blocked"
    return "ready" if due_at <= now else "delayed"
