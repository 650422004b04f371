"""Calls of the data source to a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from sqew.client.calls import ApiCall, nothing, query_of, reads
from sqew.client.native import path
from sqew.model import Bounds, Claim, OpenedConsumer, Promotion, Staged, WriterInfo

_encode = msgspec.json.Encoder().encode


class Depth(Struct):
    queue_visible_length: int


def bounds(queue: str, archive: bool) -> ApiCall[Bounds]:
    return ApiCall(
        "GET", path("queues", queue, "bounds"), reads(Bounds), _archive(archive), repeatable=True, about=_about(queue)
    )


def export(queue: str, after: int, up_to: int, archive: bool, columns: Sequence[str], **only: str) -> ApiCall[None]:
    """Get the messages after one id and up to another, as a stream of Arrow."""
    query = query_of(after=after, up_to=up_to, columns=",".join(columns), **only)
    where = path("queues", queue, "export")
    return ApiCall(
        "GET", where, nothing, {**query, **_archive(archive)}, repeatable=True, long=True, about=_about(queue)
    )


def stage(queue: str, writer: str, epoch: int, part: str, messages: bytes, offset: int) -> ApiCall[Staged]:
    """Stage messages of a part. ``offset``: how many came before, so that the server recognizes what it has already."""
    where = path("queues", queue, "writers", writer, "epochs", epoch, "parts", part)
    query = query_of(offset=offset)
    return ApiCall("POST", where, reads(Staged), query, body=messages, repeatable=True, about=_about(queue))


def promote(queue: str, writer: str, epoch: int, parts: Mapping[str, int]) -> ApiCall[Promotion]:
    """Put what was staged into the queue: all of it, and once, however often this is called."""
    where = path("queues", queue, "writers", writer, "epochs", epoch, "promote")
    body = _encode({"parts": parts})
    return ApiCall("POST", where, reads(Promotion), body=body, repeatable=True, long=True, about=_about(queue))


def abort(queue: str, writer: str, epoch: int) -> ApiCall[None]:
    where = path("queues", queue, "writers", writer, "epochs", epoch)
    return ApiCall("DELETE", where, nothing, repeatable=True, about=_about(queue))


def writer(queue: str, name: str) -> ApiCall[WriterInfo]:
    """Get the server's record of a writer."""
    return ApiCall(
        "GET", path("queues", queue, "writers", name), reads(WriterInfo), repeatable=True, about=_about(queue)
    )


def writers(queue: str) -> ApiCall[None]:
    return ApiCall(
        "GET", path("queues", queue, "writers"), nothing, query_of(limit=1), repeatable=True, about=_about(queue)
    )


def depth(queue: str) -> ApiCall[Depth]:
    return ApiCall("GET", path("queues", queue), reads(Depth), repeatable=True, about=_about(queue))


def open_consumer(queue: str, consumer: str, owner: str, hold_ms: int) -> ApiCall[OpenedConsumer]:
    body = _encode({"owner": owner, "hold_ms": hold_ms})
    where = path("queues", queue, "consumers", consumer, "open")
    return ApiCall("POST", where, reads(OpenedConsumer), body=body, repeatable=True, about=_about(queue))


def claim(
    queue: str, consumer: str, epoch: int, after: int, limit: int, lease_ms: int, done: int | None = None
) -> ApiCall[Claim]:
    """Ack all claims up to one (``done``: only up to that one), and get the next.

    Repeatable: an open claim is returned again as it is.
    """
    body = _encode({"epoch": epoch, "after": after, "limit": limit, "lease_ms": lease_ms, "done": done})
    where = path("queues", queue, "consumers", consumer, "claims")
    return ApiCall("POST", where, reads(Claim), body=body, repeatable=True, long=True, about=_about(queue))


def claimed(queue: str, consumer: str, number: int, part: int, columns: Sequence[str]) -> ApiCall[None]:
    """Get the messages of a part of a claim, as a stream of Arrow."""
    where = path("queues", queue, "consumers", consumer, "claims", number, "parts", part)
    query = query_of(columns=",".join(columns))
    return ApiCall("GET", where, nothing, query, repeatable=True, long=True, about=_about(queue))


def renew(queue: str, consumer: str, epoch: int, hold_ms: int, lease_ms: int) -> ApiCall[None]:
    body = _encode({"epoch": epoch, "hold_ms": hold_ms, "lease_ms": lease_ms})
    where = path("queues", queue, "consumers", consumer, "renew")
    return ApiCall("POST", where, nothing, body=body, repeatable=True, about=_about(queue))


def _archive(archive: bool) -> dict[str, str]:
    return {"archive": "true"} if archive else {}


def _about(queue: str) -> dict[str, str]:
    return {"queue": queue}
