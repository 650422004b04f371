"""The lines between the lab and a command, one each way (docs/plainbench.md)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from plainbench.drivers.base import Delivered
from plainbench.workers import Dead, Done, Retry, Verdict

_SHOWN = 200


class Nonsense(Exception):
    """A line that can't be understood."""


class Asked(Struct, omit_defaults=True):
    """The line that a command gets for a message."""

    n: int
    topic: str
    lane: str
    attempt: int
    body: Raw
    group: str | None = None
    headers: dict[str, Any] | None = None


class Answer(Struct, forbid_unknown_fields=True):
    """The line that a command answers with, if it is JSON."""

    verdict: str | None = None
    after_ms: Annotated[int, Meta(ge=0)] | None = None
    reason: str = ""
    query: str | None = None
    parameters: list[Any] | dict[str, Any] = []  # msgspec copies it


class Rows(Struct, omit_defaults=True):
    """The line that a command gets for a query: the rows, or why there are none."""

    rows: list[dict[str, Any]] | None = None
    error: str | None = None


def message_line(topic: str, delivery: Delivered) -> bytes:
    """Return the line for a message.

    >>> message_line("orders", Delivered(7, b'{"id":\\n1}', "normal"))
    b'{"n":7,"topic":"orders","lane":"normal","attempt":1,"body":{"id": 1}}\\n'
    """
    headers = {name: value for name, value in (delivery.headers or {}).items() if name != "lab"}
    body = _as_json(delivery.body)
    asked = Asked(delivery.number, topic, delivery.lane, delivery.attempt, body, delivery.group, headers or None)
    return msgspec.json.encode(asked) + b"\n"


def _as_json(body: bytes) -> Raw:
    """Return a body as JSON in one line: as it is if it is JSON, and as a string if it is not."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Raw(msgspec.json.encode(body.decode(errors="replace")))
    # Outside of strings, where no JSON has them, the ends of lines are but spaces.
    return Raw(body.replace(b"\n", b" ").replace(b"\r", b" "))


_decode = msgspec.json.Decoder(Answer).decode


def answer_in(line: bytes) -> Answer:
    """Parse the line that a command answered with.

    >>> answer_in(b"retry 500").after_ms
    500
    """
    text = line.strip()
    if text.startswith(b"{"):
        try:
            return _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _nonsense(line, str(error)) from None
    word, _, rest = text.decode(errors="replace").partition(" ")
    if word == "retry" and rest:
        if not (rest.isascii() and rest.isdigit()):
            raise _nonsense(line, "after `retry` there may be a number of milliseconds")
        return Answer(word, int(rest))
    return Answer(word, None, rest)


def verdict_in(answer: Answer) -> Verdict:
    """Return the verdict in an answer."""
    match answer.verdict:
        case "ack":
            return Done()
        case "retry":
            return Retry(answer.after_ms, answer.reason)
        case "dead":
            return Dead(answer.reason)
    raise _nonsense((answer.verdict or "").encode(), "it is not ack, retry or dead")


def _nonsense(line: bytes, why: str) -> Nonsense:
    return Nonsense(f"Its answer {line[:_SHOWN].decode(errors='replace')!r} can't be understood: {why}.")
