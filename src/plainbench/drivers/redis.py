"""The driver of Redis: a stream for each topic, with a consumer group."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from zlib import crc32

import msgspec
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry

from plainbench.drivers.base import Delivered, Item, Left, Place, Topic
from plainbench.drivers.other_queues import NUMBER, Policies, number_of, refuse_fifo, refuse_lanes, refuse_priorities
from sqew.errors import (
    BadValue,
    NotFound,
    OutcomeUnknown,
    SqewError,
    StaleLease,
    StoreFull,
    StoreUnavailable,
    Unreachable,
)

GROUP = "lab"

_TIMEOUT_S = 10.0
_SLICE_S = 0.1
"""Seconds between looks at the queue: Redis notifies waiters of new messages, but not when a lease ends."""
_SCANNED = 1_000
_DURABILITY = {
    "always": "durable: appendonly, appendfsync=always",
    "everysec": "fast: appendonly, appendfsync=everysec",
    "no": "fast: appendonly, appendfsync=no",
}

_ACK = """
local answers = {}
for n = 2, #ARGV do
  answers[n - 1] = redis.call('XACK', KEYS[1], ARGV[1], ARGV[n])
  if answers[n - 1] == 1 then redis.call('XDEL', KEYS[1], ARGV[n]) end
end
return answers
"""
_HOLD = """
local held = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
if #held == 0 then return 0 end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'IDLE', ARGV[4], 'JUSTID')
return 1
"""
"""Script that sets for how long a consumer has held a message, if it still holds it."""
_BURY = """
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
local found = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if found then redis.call('XADD', KEYS[2], '*', unpack(found[2])) end
redis.call('XDEL', KEYS[1], ARGV[2])
return 1
"""


class Handle(msgspec.Struct, frozen=True):
    """A message that a consumer holds."""

    id: bytes
    consumer: str
    lease_ms: int


class RedisDriver:
    """A driver of Redis; see `plainbench.drivers.base.Driver`."""

    name: ClassVar[str] = "redis"
    does: ClassVar[str] = "Redis 6.2 or newer, through redis-py: a stream for each topic, with a consumer group."
    needs: ClassVar[Sequence[str]] = ("redis",)
    options: ClassVar[Mapping[str, str]] = {
        "url": "Where it is: redis://127.0.0.1:6379/0, unless given; rediss:// for TLS.",
        "durability": "What the server promises, where it doesn't let the lab ask it.",
    }
    runs_in_virtual_time: ClassVar[bool] = False
    faults_inside: ClassVar[bool] = False
    shows_dead: ClassVar[bool] = True
    leases_outlive: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        url = str(place.options.get("url") or "redis://127.0.0.1:6379/0")
        try:
            # Nothing is tried again behind the lab's back: it would not be on the log, and might be stored twice.
            self._redis: Any = Redis.from_url(
                url, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=_TIMEOUT_S, decode_responses=False,
                single_connection_client=True,
            )  # fmt: skip
        except ValueError as error:
            raise BadValue(f"target.options.url: {error}.") from error
        except RedisError as error:
            raise Unreachable(f"Redis can't be reached: {error}") from error
        self._ack, self._hold, self._bury = map(self._redis.register_script, (_ACK, _HOLD, _BURY))
        self._policies = Policies(place)
        self._consumer = uuid.uuid4().hex
        self._looked_until: dict[str, bytes] = {}
        self.durability = str(place.options.get("durability") or self._promised())

    def _promised(self) -> str:
        try:
            said = self._redis.config_get("append*")
        except ResponseError:
            return "unknown: give target.options.durability"
        except RedisError as error:
            raise Unreachable(f"Redis can't be reached: {error}") from error
        if said.get("appendonly") != "yes":
            return "none: no appendonly file"
        return _DURABILITY.get(said.get("appendfsync", ""), "unknown: appendonly")

    def create(self, topic: Topic) -> None:
        refuse_lanes(topic, "Redis")
        refuse_fifo(topic, "Redis")
        with _asking():
            try:
                self._redis.xgroup_create(topic.name, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    def send(self, topic: str, items: Sequence[Item]) -> None:
        refuse_priorities(items, "Redis")
        with _asking(), self._redis.pipeline(transaction=True) as together:
            for item in items:
                together.xadd(topic, _fields(item))
            together.execute()

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        deadline = time.monotonic() + wait_s
        with _asking():
            while True:
                if expired := self._expired(topic, limit, lease_ms):
                    return expired
                left_s = deadline - time.monotonic()
                block = max(1, round(min(left_s, _SLICE_S) * 1000)) if left_s > 0 else None
                answer = self._redis.xreadgroup(GROUP, self._consumer, {topic: ">"}, count=limit, block=block)
                if answer or left_s <= 0:
                    return [
                        self._delivered(id, fields, 1, lease_ms) for _, found in answer or () for id, fields in found
                    ]

    def _expired(self, topic: str, limit: int, lease_ms: int) -> list[Delivered]:
        """Claim messages whose lease is over; those that have been delivered often enough go to the dead letters."""
        start = self._looked_until.get(topic, b"0-0")
        answer = self._redis.xautoclaim(topic, GROUP, self._consumer, lease_ms, start, count=limit)
        self._looked_until[topic] = answer[0]
        taken = []
        for id, fields in answer[1]:
            (held,) = self._redis.xpending_range(topic, GROUP, id, id, 1) or ({"times_delivered": 1},)
            attempt = held["times_delivered"]
            if self._policies.is_spent(topic, attempt - 1):
                self._bury([topic, _dead_letters(topic)], [GROUP, id])
            else:
                taken.append(self._delivered(id, fields, attempt, lease_ms))
        return taken

    def _delivered(self, id: bytes, fields: Mapping[bytes, bytes], attempt: int, lease_ms: int) -> Delivered:
        headers = msgspec.json.decode(fields[b"headers"]) if b"headers" in fields else None
        handle = Handle(id, self._consumer, lease_ms)
        return Delivered(_number(id, fields), fields.get(b"body", b""), "", attempt, None, headers, handle)

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        with _asking():
            answers = self._ack([topic], [GROUP, *(delivery.handle.id for delivery in deliveries)])
        return [
            None if answer else StaleLease(delivery.number)
            for answer, delivery in zip(answers, deliveries, strict=True)
        ]

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        """Leave a message pending, with its lease shortened to the delay: so it waits for one lease at most."""
        if self._policies.is_spent(topic, delivery.attempt):
            self.bury(topic, delivery, "")
            return
        wait_ms = self._policies.wait_ms(topic, delivery.attempt, after_ms)
        self._set_idle(topic, delivery, max(0, delivery.handle.lease_ms - wait_ms))

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        with _asking():
            done = self._bury([topic, _dead_letters(topic)], [GROUP, delivery.handle.id])
        if not done:
            raise StaleLease(delivery.number)

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        self._set_idle(topic, delivery, max(0, delivery.handle.lease_ms - lease_ms))

    def _set_idle(self, topic: str, delivery: Delivered, idle_ms: int) -> None:
        handle = delivery.handle
        with _asking():
            done = self._hold([topic], [GROUP, handle.consumer, handle.id, idle_ms])
        if not done:
            raise StaleLease(delivery.number)

    def left(self, topic: str) -> Iterator[Left]:
        with _asking():
            held = set(self._pending(topic))
            for id, fields in self._scan(topic):
                yield Left(_number(id, fields), "leased" if id in held else "ready")
            for id, fields in self._scan(_dead_letters(topic)):
                yield Left(_number(id, fields), "dead")

    def _pending(self, topic: str) -> Iterator[bytes]:
        after = "-"
        while page := self._redis.xpending_range(topic, GROUP, after, "+", _SCANNED):
            yield from (held["message_id"] for held in page)
            after = f"({page[-1]['message_id'].decode()}"

    def _scan(self, stream: str) -> Iterator[tuple[bytes, Mapping[bytes, bytes]]]:
        after = "-"
        while page := self._redis.xrange(stream, after, "+", _SCANNED):
            yield from page
            after = f"({page[-1][0].decode()}"

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        with _asking(), self._redis.pipeline(transaction=True) as together:
            together.xlen(topic)
            together.xpending(topic, GROUP)
            together.xlen(_dead_letters(topic))
            there, pending, dead = together.execute()
        leased = pending["pending"]
        return {"": {"ready": there - leased, "leased": leased, "dead": dead}}

    def close(self) -> None:
        self._redis.close()


@contextmanager
def _asking() -> Iterator[None]:
    """Convert the errors of redis-py to those of the lab."""
    try:
        yield
    except AuthenticationError as error:
        raise BadValue(f"Redis says: {error}") from error
    except (ConnectionError, TimeoutError) as error:
        if "connecting to" in str(error):
            raise Unreachable(f"Redis can't be reached: {error}") from error
        raise OutcomeUnknown(f"No answer came from Redis: {error}") from error
    except OutOfMemoryError as error:
        raise StoreFull(f"Redis says: {error}") from error
    except ResponseError as error:
        raise (NotFound if "NOGROUP" in str(error) else StoreUnavailable)(f"Redis says: {error}") from error


def _fields(item: Item) -> dict[str, bytes | int]:
    headers = {"headers": msgspec.json.encode(item.headers)} if item.headers else {}
    return {NUMBER: item.number, "body": item.body, **headers}


def _number(id: bytes, fields: Mapping[bytes, bytes]) -> int:
    return number_of(fields.get(NUMBER.encode()), crc32(id))


def _dead_letters(topic: str) -> str:
    """Return the name of the stream of a topic's dead letters."""
    return f"{topic}:dead"
