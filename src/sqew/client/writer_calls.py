"""Requests and answers about writers, which send in whole epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sqew.client.calls import SENDABLE, ApiCall, messages_of, nothing, query_of, reads, written
from sqew.client.native import path
from sqew.formats.columns import LARGEST_EPOCH
from sqew.model import NewMessage, Promotion, Staged, WriterInfo
from sqew.rules.messages import check_new_message
from sqew.rules.names import check_queue_name
from sqew.rules.values import check_int, check_text, check_unicode

_encode = msgspec.json.Encoder().encode


class StagedLine(Struct, omit_defaults=True):
    """A message to stage, as it is written."""

    message: Raw
    format: str = "json"
    headers: dict[str, Any] | None = None
    priority: int = 0
    lane: str | None = None
    group: str | None = None
    key: str | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None


def stage(queue: str, writer: str, epoch: int, part: str, bodies: Iterable[Any], offset: int | None) -> ApiCall[Staged]:
    check_text("part", part)
    messages = messages_of(bodies)
    for message in messages:
        check_new_message(message, SENDABLE)
    # With the offset, the server knows whether it has them already.
    return ApiCall(
        "POST",
        _epoch(queue, writer, epoch, "parts", part),
        reads(Staged),
        query_of(offset=offset),
        body=_encode([_line(message) for message in messages]),
        repeatable=offset is not None,
        about={"queue": queue, "writer": writer},
    )


def _line(message: NewMessage) -> StagedLine:
    body = message.body if message.format == "json" else _encode(message.body.decode())
    return StagedLine(
        Raw(body),
        message.format,
        message.headers,
        message.priority,
        message.lane,
        message.group,
        message.key,
        message.delay_ms,
        message.ttl_ms,
    )


def promote(queue: str, writer: str, epoch: int, parts: Mapping[str, int]) -> ApiCall[Promotion]:
    body = written({"parts": parts}, "parts")
    where, about = _epoch(queue, writer, epoch, "promote"), {"queue": queue, "writer": writer}
    return ApiCall("POST", where, reads(Promotion), body=body, repeatable=True, long=True, about=about)


def abort(queue: str, writer: str, epoch: int) -> ApiCall[None]:
    about = {"queue": queue, "writer": writer}
    return ApiCall("DELETE", _epoch(queue, writer, epoch), nothing, repeatable=True, about=about)


def writer(queue: str, name: str) -> ApiCall[WriterInfo]:
    about = {"queue": queue, "writer": name}
    return ApiCall("GET", _writer(queue, name), reads(WriterInfo), repeatable=True, about=about)


def writers(queue: str, limit: int, after: str) -> ApiCall[list[WriterInfo]]:
    check_queue_name(queue)
    check_unicode("after", after)
    query = query_of(limit=limit, after=after or None)
    return ApiCall(
        "GET", path("queues", queue, "writers"), reads(list[WriterInfo]), query, repeatable=True, about={"queue": queue}
    )


def _epoch(queue: str, writer: str, epoch: int, *rest: str) -> str:
    check_int("epoch", epoch, 0, LARGEST_EPOCH)
    return _writer(queue, writer, "epochs", epoch, *rest)


def _writer(queue: str, name: str, *rest: object) -> str:
    check_queue_name(queue)
    check_text("writer", name)
    return path("queues", queue, "writers", name, *rest)
