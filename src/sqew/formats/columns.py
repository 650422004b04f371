"""Messages staged until their writer's epoch is promoted: reading, checking and packing them.

Each field of thousands of messages is kept as a column, or as one value if it is the same in all of them. A field that
no message sets then costs nothing: packing and unpacking take a tenth of a microsecond a message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, cast
from zlib import crc32

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from sqew.errors import BadBody, BadValue, SqewError, StoreDamaged, TooLarge, nearest, quoted, shortened
from sqew.formats.entry_limits import check_array, check_lines
from sqew.model import Format, NewMessage, NewMessages
from sqew.rules.bodies import check_utf8, parse_all, parse_json
from sqew.rules.limits import Limits
from sqew.rules.messages import check_message, check_new_message
from sqew.rules.values import check_text, seconds_as_ms

MOST_STAGED = 10_000
"""The most messages that one request may stage."""
LARGEST_EPOCH = 10**18 - 1
CHUNK = 1_000
"""Messages moved into a queue in one transaction, which blocks everybody else for some 5 ms."""
CHUNK_BYTES = 1_048_576
"""The most bytes of bodies in a chunk of more than one message."""
_LEAST_TOGETHER = 100
"""The least messages that a kind must have on average for chunks to be made by kind."""


class StagedMessage(Struct, forbid_unknown_fields=True):
    """A message to stage: its body as `message`, any JSON or, with `"format": "text"`, a string; all else is optional.

    `delay` and `ttl` are in seconds. They count from when the message is promoted.
    """

    message: Raw | UnsetType = UNSET
    format: Format = "json"
    headers: dict[str, Any] | None = None
    priority: int = 0
    lane: str | None = None
    group_id: str | None = None
    key: str | None = None
    """A repeated send with the same key stores nothing."""
    delay: float | None = None
    ttl: float | None = None
    body: Raw | UnsetType = UNSET
    """The same as `message`."""
    group: str | None = None
    """The same as `group_id`."""
    delay_ms: int | None = None
    """The same as `delay`, in milliseconds."""
    ttl_ms: int | None = None
    """The same as `ttl`, in milliseconds."""


class _Bare(Struct, forbid_unknown_fields=True):
    """A message with a body and no other fields."""

    message: Raw
    format: Format = "json"


_FIELDS = StagedMessage.__struct_fields__
_decoder = msgspec.json.Decoder(StagedMessage)
_decode_lines = _decoder.decode_lines
_decode_array = msgspec.json.Decoder(list[StagedMessage]).decode
_decode_bare_lines = msgspec.json.Decoder(_Bare).decode_lines
_decode_bare_array = msgspec.json.Decoder(list[_Bare]).decode
_decode_text = msgspec.json.Decoder(str).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


def read(body: bytes) -> NewMessages:
    """Decode the body of a request, a JSON array or lines of JSON, into messages. Their values are not checked yet."""
    is_array = body[:64].lstrip()[:1] == b"["
    (check_array if is_array else check_lines)(body, MOST_STAGED)
    try:
        # Most have nothing but a body: that is found out at the first that has more, and read in half the time.
        bare = _decode_bare_array(body) if is_array else _decode_bare_lines(body)
    except _UNREADABLE:
        return _read_whole(body, is_array)
    formats = [item.format for item in bare]
    bodies = [_body(item.message, item.format, number) for number, item in enumerate(bare, 1)]
    return NewMessages(bodies, _one_or_all(formats) if formats else "json")


def _read_whole(body: bytes, is_array: bool) -> NewMessages:
    try:
        items = _decode_array(body) if is_array else _decode_lines(body)
    except _UNREADABLE as error:
        if is_array:
            raise BadBody(f"That is not an array of messages: {_explained(error)}.") from error
        raise _unreadable_line(body) from error
    return _columns_of(items) if items else NewMessages([])


def _columns_of(items: Sequence[StagedMessage]) -> NewMessages:
    """Convert messages to columns, column by column: half the time of message by message."""
    columns = [list(column) for column in zip(*map(structs.astuple, items), strict=True)]
    message, formats, headers, priorities, lanes, group_ids, keys, delays, ttls, body, groups, *in_ms = columns
    given = _either(body, message, UNSET)
    if UNSET in given:
        raise BadBody(f'Message {given.index(UNSET) + 1} has no body. Give it a "message".')
    delays_ms = _either(_in_ms("delay", delays, 0), in_ms[0])
    ttls_ms = _either(_in_ms("ttl", ttls, 1), in_ms[1])
    return NewMessages(
        [_body(*one, number) for number, one in enumerate(zip(given, formats, strict=True), 1)],
        _one_or_all(formats),
        _none_or_all([one or None for one in headers]),
        _one_or_all(priorities),
        _one_or_all(lanes),
        _none_or_all(_either(groups, group_ids)),
        _none_or_all(keys),
        _one_or_all(delays_ms),
        _one_or_all(ttls_ms),
    )


def _either(values: list[Any], others: list[Any], nothing: object = None) -> list[Any]:
    """Return for each message its value from the first column or, if that has none, from the second."""
    if values.count(nothing) == len(values):
        return others
    return [other if value is nothing else value for value, other in zip(values, others, strict=True)]


def _in_ms(name: str, seconds: list[float | None], at_least: int) -> list[int | None]:
    if seconds.count(None) == len(seconds):
        return cast("list[int | None]", seconds)
    found: list[int | None] = []
    for number, value in enumerate(seconds, 1):
        try:
            found.append(None if value is None else seconds_as_ms(name, value, at_least))
        except SqewError as error:
            raise _numbered(error, number) from error
    return found


def _body(given: Raw, format: Format, number: int) -> bytes:
    if format == "json":
        return bytes(given)
    try:
        return _decode_text(given).encode()
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadBody(f"Message {number}: A text body must be a JSON string: {error}.") from error


def _unreadable_line(body: bytes) -> SqewError:
    """Return an error that names the line at fault, and the reason."""
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.strip():
            try:
                _decoder.decode(line)
            except _UNREADABLE as error:
                return BadBody(f"Line {number} is not a message: {_explained(error)}.")
    return BadBody("Every message must stand in a line of its own. Send an array, or lines of JSON.")


def _explained(error: Exception) -> str:
    """Return msgspec's sentence, with the nearest name if one is misspelt."""
    sentence = shortened(str(error), 300)
    _, unknown, rest = sentence.partition("unknown field `")
    if not unknown:
        return sentence
    name = rest.partition("`")[0]
    return f"there is no {quoted(name)}{nearest(name, _FIELDS)}; the fields are: {', '.join(_FIELDS)}"


def _numbered(error: SqewError, number: int) -> SqewError:
    """Prefix an error with the number of its message; it stays the same object, so that its class and data are kept."""
    error.args = (f"Message {number}: {error}",)
    return error


def columns(messages: Iterable[NewMessage]) -> NewMessages:
    """Convert messages to columns."""
    fields = [list(column) for column in zip(*map(structs.astuple, messages), strict=True)]
    if not fields:
        return NewMessages([])
    bodies, formats, headers, priorities, lanes, groups, keys, delays_ms, ttls_ms = fields
    return NewMessages(
        bodies,
        _one_or_all(formats),
        _none_or_all(headers),
        _one_or_all(priorities),
        _one_or_all(lanes),
        _none_or_all(groups),
        _none_or_all(keys),
        _one_or_all(delays_ms),
        _one_or_all(ttls_ms),
    )


def _one_or_all(values: list[Any]) -> Any:
    return values[0] if values.count(values[0]) == len(values) else values


def _none_or_all(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def check(messages: object, limits: Limits) -> None:
    """Raise unless the messages may be staged; the error names the first that may not."""
    if type(messages) is not NewMessages:
        raise BadValue("What is staged must be NewMessages: make them with sqew.formats.columns.columns.")
    _check_columns(messages)
    if len(messages) > MOST_STAGED:
        raise TooLarge(f"{MOST_STAGED} messages may be staged at once; these are {len(messages)}. Split them.")
    try:
        _check_all(messages, limits)
    except SqewError:
        # One of them is at fault. Which one?
        for number, message in enumerate(messages, 1):
            try:
                check_new_message(message, limits)
            except SqewError as error:
                raise _numbered(error, number) from error
        raise


def _check_columns(messages: NewMessages) -> None:
    """Raise unless every column is of the right type, with a value for every message."""
    try:
        converted = msgspec.convert(structs.astuple(messages), NewMessages, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise BadValue(f"That can't be the columns of messages: {error}.") from error
    if converted != messages:
        raise BadValue("Each column of NewMessages must be a list, or the one value that all of them have.")
    for name in messages.__struct_fields__:
        column = getattr(messages, name)
        if isinstance(column, list) and len(column) != len(messages):
            raise BadValue(f"{name} has {len(column)} values for {len(messages)} messages: it must have one for each.")


def _check_all(messages: NewMessages, limits: Limits) -> None:
    """Check messages as `check_new_message` does, but values that many share only once."""
    if not messages.bodies:
        return
    if messages.headers is not None:
        for message in messages:
            check_message(message, limits)
    else:
        longest = max(messages.bodies, key=len)
        for priority, lane, delay_ms, ttl_ms in _kinds(messages):
            check_message(NewMessage(longest, "json", None, priority, lane, None, None, delay_ms, ttl_ms), limits)
    for name, values in (("group", messages.groups), ("key", messages.keys)):
        for value in values or ():
            if value is not None:
                check_text(name, value)
    bodies, formats = messages.bodies, messages.formats
    if formats == "json":
        parse_all(bodies, limits)
    else:
        for body, format in zip(bodies, repeat(formats) if isinstance(formats, str) else formats, strict=False):
            if format == "json":
                parse_json(body, limits)
            else:
                check_utf8(body)


def _kinds(messages: NewMessages) -> set[tuple[Any, ...]]:
    """Return the distinct combinations of priority, lane, delay and ttl: mostly one, or a few."""
    said = (messages.priorities, messages.lanes, messages.delays_ms, messages.ttls_ms)
    if not any(isinstance(column, list) for column in said):
        return {said}
    return set(zip(*_each(said, len(messages)), strict=True))


def _each(columns: Iterable[Any], count: int) -> list[Any]:
    return [column if isinstance(column, list) else [column] * count for column in columns]


class Packed(Struct, frozen=True, array_like=True):
    """Messages as they are stored until they are promoted, each with the checksum that its body must have."""

    messages: NewMessages
    """The messages without their headers."""
    checksums: list[int]
    headers: list[bytes | None] | None = None
    """The headers as JSON, which can express more than MessagePack."""
    headers_checksum: int = 0


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Packed).decode
_encode_headers = msgspec.json.Encoder().encode
_decode_headers = msgspec.json.Decoder(dict[str, Any]).decode


def packed(messages: NewMessages, *, in_order: bool) -> Iterator[tuple[int, bytes]]:
    """Yield messages in chunks: the number of messages in each, and its bytes to store.

    ``in_order`` keeps them as they are. Otherwise messages of one lane and priority stand together, in their order: a
    chunk whose messages are alike is promoted in half the time.
    """
    for some in [messages] if in_order else _by_kind(messages):
        start = 0
        for end in _ends(some.bodies):
            yield _chunk(some.part(start, end))
            start = end


def _by_kind(messages: NewMessages) -> list[NewMessages]:
    if messages.are_alike or messages.headers or messages.groups or messages.keys:
        return [messages]
    count, places = len(messages), defaultdict[tuple[Any, ...], list[bytes]](list)
    said = (messages.formats, messages.priorities, messages.lanes, messages.delays_ms, messages.ttls_ms)
    for kind, body in zip(zip(*_each(said, count), strict=True), messages.bodies, strict=True):
        places[kind].append(body)
    if len(places) * _LEAST_TOGETHER > count:
        return [messages]
    return [
        NewMessages(bodies, format, None, priority, lane, None, None, delay_ms, ttl_ms)
        for (format, priority, lane, delay_ms, ttl_ms), bodies in places.items()
    ]


def _ends(bodies: Sequence[bytes]) -> Iterator[int]:
    """Yield the position at which each chunk ends."""
    count = len(bodies)
    if not count:
        return
    if max(map(len, bodies)) * CHUNK <= CHUNK_BYTES:
        yield from range(CHUNK, count, CHUNK)
    else:
        start, size = 0, 0
        for end, body in enumerate(bodies):
            if end - start >= CHUNK or (size and size + len(body) > CHUNK_BYTES):
                yield end
                start, size = end, 0
            size += len(body)
    yield count


def _chunk(messages: NewMessages) -> tuple[int, bytes]:
    checks, headers = checksums(messages), messages.headers
    if headers is None:
        return len(messages), _pack(Packed(messages, checks))
    encoded = [None if one is None else _encode_headers(one) for one in headers]
    return len(messages), _pack(Packed(structs.replace(messages, headers=None), checks, encoded, _sum(encoded)))


def _sum(headers: Iterable[bytes | None]) -> int:
    return crc32(b"\n".join(one or b"" for one in headers))


def unpack(chunk: bytes) -> Packed:
    """Decode a stored chunk, with the headers of its messages in their place."""
    try:
        found = _unpack(chunk)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise StoreDamaged("The store is damaged: staged messages are lost. Restore it from a backup.") from error
    if found.headers is None:
        return found
    if _sum(found.headers) != found.headers_checksum:
        raise StoreDamaged("The store is damaged: the headers of staged messages are lost. Restore it from a backup.")
    decoded = [None if one is None else _decode_headers(one) for one in found.headers]
    return Packed(structs.replace(found.messages, headers=decoded), found.checksums)


def checksums(messages: NewMessages) -> list[int]:
    """Return the checksum that a store keeps beside each body, for messages without headers."""
    if isinstance(messages.formats, str):
        is_text = messages.formats == "text"
        return [crc32(body, is_text) for body in messages.bodies]
    return [crc32(body, format == "text") for body, format in zip(messages.bodies, messages.formats, strict=True)]
