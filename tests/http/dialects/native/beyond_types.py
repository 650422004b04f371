"""Types into which clients of beyond-queue decode answers, equally strict: no field is absent, no number is null."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from tests.support.serving import Answer

Int32 = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]
Moment = Annotated[datetime, Meta(tz=True)]
T = TypeVar("T")


class Queue(Struct):
    name: str
    is_partitioned: bool
    is_unlogged: bool
    created_at: Moment


class QueueFigures(Struct):
    name: str
    queue_length: int
    newest_msg_age_sec: int | None
    oldest_msg_age_sec: int | None
    total_messages: int
    scrape_time: Moment


class Message(Struct):
    id: int
    read_count: Int32
    enqueued_at: Moment
    visible_at: Moment
    message: Any
    headers: Any


class SentOne(Struct):
    id: int


class SentMany(Struct):
    ids: list[int]


class Deleted(Struct):
    deleted: list[int]


class Purged(Struct):
    deleted: int


class Visibility(Struct):
    id: int
    visible_at: Moment


class Health(Struct):
    status: str
    version: str


class Refusal(Struct):
    """A refusal in the seed's form, with the fields that clients look for beside it."""

    error: str
    code: str
    message: str


def decoded(answer: Answer, kind: type[T]) -> T:
    """Decode the body of an answer, or raise if it does not fit."""
    assert answer.headers["content-type"] == "application/json", answer
    return msgspec.json.decode(answer.body, type=kind, strict=True)
