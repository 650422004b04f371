"""What handlers work with: the broker, the settings, and the few things that several dialects do alike."""

from __future__ import annotations

from typing import Any

import msgspec

from sqew.broker import Broker
from sqew.errors import BadBody
from sqew.http.router import Router
from sqew.model import Message, QueueInfo
from sqew.rules import check_int, check_ms
from sqew.settings import Settings

_encode_text = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(str).decode


class Service:
    """One running server, as its handlers see it."""

    def __init__(self, broker: Broker, settings: Settings, router: Router) -> None:
        self.broker = broker
        self.settings = settings
        self.router = router

    def batch(self, given: int | None, name: str = "batch", default: int = 1) -> int:
        """How many messages to receive: the default, or what was asked for if that is allowed."""
        if given is None:
            return default
        check_int(name, given, 1, self.settings.max_batch)
        return given

    def wait_ms(self, given: int, name: str = "wait_ms") -> int:
        """How long a receive may wait: what was asked for, or as long as the server allows."""
        check_ms(name, given)
        # An empty answer is better than the one that says that the request took too long.
        return min(given, self.settings.max_wait_ms, self.settings.request_timeout_ms * 9 // 10)

    async def ensure_queue(self, name: str, **policy: Any) -> QueueInfo:
        """The queue of that name, made if there is none."""
        from sqew.engine import creation

        return await self.broker.run(creation(self.settings, name, policy, exist_ok=True))


def as_json(message: Message) -> msgspec.Raw:
    """A body as it stands in a JSON document: JSON as it was sent, text as a string, and null where it is damaged."""
    if message.damaged:
        return msgspec.Raw(b"null")
    return msgspec.Raw(message.body if message.format == "json" else _encode_text(message.body.decode()))


def json_body(raw: msgspec.Raw) -> bytes:
    """The JSON in a field of a request, byte for byte."""
    body = bytes(raw)
    if not body:
        raise BadBody("There is no body to send.")
    return body


def text_in(body: bytes) -> bytes:
    """The text that a JSON string stands for."""
    try:
        return _decode_text(body).encode()
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadBody(f"A text body must be a JSON string: {error}.") from error
