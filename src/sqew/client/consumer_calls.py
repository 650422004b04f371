"""Requests and answers about consumers, which read in claims."""

from __future__ import annotations

import msgspec

from sqew.client.calls import ApiCall, nothing, query_of, reads, written
from sqew.client.native import path
from sqew.formats.ndjson import MessageLine, body_of
from sqew.model import Claim, ConsumerInfo, Death, Message, OpenedConsumer
from sqew.rules.names import check_queue_name
from sqew.rules.values import LARGEST_ID, check_int, check_text, check_unicode

_decode_line = msgspec.json.Decoder(MessageLine).decode


def open_consumer(queue: str, consumer: str, owner: str, hold_ms: int) -> ApiCall[OpenedConsumer]:
    # Repeated by the same owner, it only raises the epoch again.
    body = written({"owner": owner, "hold_ms": hold_ms}, "owner")
    where = _consumer(queue, consumer, "open")
    return ApiCall("POST", where, reads(OpenedConsumer), body=body, repeatable=True, about=_about(queue, consumer))


def claim(
    queue: str, consumer: str, epoch: int, after: int, limit: int, lease_ms: int, done: int | None
) -> ApiCall[Claim]:
    body = written({"epoch": epoch, "after": after, "limit": limit, "lease_ms": lease_ms, "done": done}, "limit")
    where, about = _consumer(queue, consumer, "claims"), _about(queue, consumer)
    return ApiCall("POST", where, reads(Claim), body=body, repeatable=True, long=True, about=about)


def read(queue: str, consumer: str, number: int, part: int) -> ApiCall[list[Message]]:
    check_int("number", number, 0, LARGEST_ID)
    check_int("part", part, 0, LARGEST_ID)
    where = _consumer(queue, consumer, "claims", number, "parts", part)

    def messages(body: bytes) -> list[Message]:
        return [_message(queue, _decode_line(line)) for line in body.splitlines()]

    return ApiCall("GET", where, messages, repeatable=True, long=True, about=_about(queue, consumer))


def _message(queue: str, line: MessageLine) -> Message:
    return Message(
        id=line.id or 0,
        queue=queue,
        body=body_of(line),
        format=line.format,
        headers=line.headers,
        priority=line.priority,
        lane=line.lane or "",
        group=line.group,
        key=line.key,
        attempts=line.attempts,
        created_at=line.created_at or 0,
        available_at=line.available_at or 0,
        expires_at=line.expires_at,
        state="leased",
        death=None if line.died_in is None else Death(line.died_in, line.reason or "", line.died_at or 0),
        damaged=line.damaged,
    )


def renew(queue: str, consumer: str, epoch: int, hold_ms: int | None, lease_ms: int) -> ApiCall[None]:
    body = written({"epoch": epoch, "hold_ms": hold_ms, "lease_ms": lease_ms}, "lease_ms")
    where = _consumer(queue, consumer, "renew")
    return ApiCall("POST", where, nothing, body=body, repeatable=True, about=_about(queue, consumer))


def release(queue: str, consumer: str, force: bool) -> ApiCall[None]:
    query = query_of(force="true" if force else None)
    return ApiCall("DELETE", _consumer(queue, consumer), nothing, query, long=True, about=_about(queue, consumer))


def consumers(queue: str, limit: int, after: str) -> ApiCall[list[ConsumerInfo]]:
    check_queue_name(queue)
    check_unicode("after", after)
    where, query = path("queues", queue, "consumers"), query_of(limit=limit, after=after or None)
    return ApiCall("GET", where, reads(list[ConsumerInfo]), query, repeatable=True, about={"queue": queue})


def _consumer(queue: str, name: str, *rest: object) -> str:
    check_queue_name(queue)
    check_text("consumer", name)
    return path("queues", queue, "consumers", name, *rest)


def _about(queue: str, consumer: str) -> dict[str, str]:
    return {"queue": queue, "consumer": consumer}
