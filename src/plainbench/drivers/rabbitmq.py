"""The driver of RabbitMQ: per topic a durable queue with confirms, one for dead letters, one for delayed messages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Literal
from zlib import crc32

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker

from plainbench.drivers.base import Delivered, Item, Left, Place, Topic
from plainbench.drivers.other_queues import NUMBER, Policies, number_of, refuse_fifo, refuse_lanes, refuse_priorities
from plainbench.drivers.rabbitmq_confirms import Confirming
from sqew.errors import BadValue, NotFound, OutcomeUnknown, SqewError, StaleLease, StoreUnavailable, Unreachable

_TIMEOUT_S = 10.0
_ATTEMPTS = "lab-attempts"
"""The header that counts the deliveries before the message was put aside to wait."""
_TYPES = ("quorum", "classic")
_DURABILITY = {
    "quorum": "durable: quorum queue, confirmed",
    "classic": "confirmed: durable classic queue, persistent",
}
_NOT_FOUND = 404


class _Consumer:
    """A channel on which messages of one topic come in, no more than ``limit`` at a time."""

    def __init__(self, channel: BlockingChannel, topic: str, limit: int) -> None:
        self.channel, self.topic, self.limit = channel, topic, limit
        self.held: set[int] = set()
        channel.basic_qos(prefetch_count=limit)

    def ack(self, tags: Sequence[int]) -> None:
        """Ack these tags, which the caller has removed from ``held``."""
        if self.held:
            for tag in tags:
                self.channel.basic_ack(tag)
        else:
            # Up to the last one they are all, since messages come in the order of their tags.
            self.channel.basic_ack(max(tags), multiple=True)
        self.sync()

    def sync(self) -> None:
        """Return when the server has read everything that was sent on this channel: it does not answer acks."""
        self.channel.basic_qos(prefetch_count=self.limit)


class RabbitDriver:
    """A driver of RabbitMQ; see `plainbench.drivers.base.Driver`."""

    name: ClassVar[str] = "rabbitmq"
    does: ClassVar[str] = "RabbitMQ 3.10 or newer, through pika: quorum or classic queues, with publisher confirms."
    needs: ClassVar[Sequence[str]] = ("pika",)
    options: ClassVar[Mapping[str, str]] = {
        "url": "Where it is: amqp://guest:guest@127.0.0.1:5672/%2F, unless given.",
        "queue_type": "quorum (unless given) or classic.",
    }
    runs_in_virtual_time: ClassVar[bool] = False
    faults_inside: ClassVar[bool] = False
    shows_dead: ClassVar[bool] = True
    leases_outlive: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        kind = str(place.options.get("queue_type", "quorum"))
        if kind not in _TYPES:
            raise BadValue(f"target.options.queue_type can't be {kind!r}: it must be quorum or classic.")
        self._kind = kind
        self._parameters = _parameters(str(place.options.get("url") or "amqp://guest:guest@127.0.0.1:5672/%2F"))
        self._policies = Policies(place)
        self._connection: pika.BlockingConnection | None = None
        self._consumers: dict[str, _Consumer] = {}
        self._sending = Confirming(self._parameters, _TIMEOUT_S)
        self.durability = _DURABILITY[kind]

    def create(self, topic: Topic) -> None:
        refuse_lanes(topic, "RabbitMQ")
        refuse_fifo(topic, "RabbitMQ")
        with self._asking(), self._channel() as channel:
            for queue, goes_to in ((_dead_letters(topic.name), None), (topic.name, _dead_letters(topic.name)),
                                   (_waiting(topic.name), topic.name)):  # fmt: skip
                channel.queue_declare(queue, durable=True, arguments=self._arguments(goes_to))

    def _arguments(self, goes_to: str | None) -> dict[str, str]:
        arguments = {"x-queue-type": self._kind}
        if goes_to is not None:
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": goes_to}
            if self._kind == "quorum":
                # Otherwise what moves from queue to queue may be lost on the way.
                arguments |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
        return arguments

    def send(self, topic: str, items: Sequence[Item]) -> None:
        refuse_priorities(items, "RabbitMQ")
        self._sending.send([(topic, item.body, _properties(item)) for item in items])

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        deadline = time.monotonic() + wait_s
        with self._asking():
            consumer = self._consumer(topic, limit)
            deliveries: list[Delivered] = []
            while not deliveries or (len(deliveries) < limit and consumer.channel.get_waiting_message_count()):
                left_s = max(0.0, deadline - time.monotonic())
                method, properties, body = next(
                    consumer.channel.consume(topic, inactivity_timeout=left_s), (None, None, None)
                )
                if method is None:
                    break
                delivery = _delivered(method, properties, body or b"", consumer)
                if self._policies.is_spent(topic, delivery.attempt - 1):
                    consumer.channel.basic_nack(method.delivery_tag, requeue=False)
                    continue
                consumer.held.add(method.delivery_tag)
                deliveries.append(delivery)
            return deliveries

    def _consumer(self, topic: str, limit: int) -> _Consumer:
        consumer = self._consumers.get(topic)
        if consumer is not None and consumer.channel.is_open and (consumer.held or consumer.limit != limit):
            # Another limit, or it would count what is held. What it was sent and nobody has asked for goes back.
            consumer.channel.cancel()
            consumer.limit = limit
            consumer.sync()
        elif consumer is None or not consumer.channel.is_open:
            consumer = self._consumers[topic] = _Consumer(self._opened().channel(), topic, limit)
        return consumer

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        refusals = [self._take(delivery) for delivery in deliveries]
        tags: dict[_Consumer, list[int]] = {}
        for delivery, refusal in zip(deliveries, refusals, strict=True):
            if refusal is None:
                consumer, tag = delivery.handle[:2]
                tags.setdefault(consumer, []).append(tag)
        with self._asking():
            for consumer, done in tags.items():
                consumer.ack(done)
        return refusals

    def _take(self, delivery: Delivered) -> StaleLease | None:
        """Stop holding a message; return an error if it is not held: to settle it twice would close the channel."""
        consumer, tag = delivery.handle[:2]
        if not consumer.channel.is_open or tag not in consumer.held:
            return StaleLease(delivery.number)
        consumer.held.remove(tag)
        return None

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        """Give a message back. RabbitMQ does so at once; to delay it, send a copy to a waiting queue and ack it."""
        if self._policies.is_spent(topic, delivery.attempt):
            self.bury(topic, delivery, "")
            return
        wait_ms = self._policies.wait_ms(topic, delivery.attempt, after_ms)
        if wait_ms == 0:
            self._give_back(delivery, requeue=True)
            return
        consumer, tag, properties = delivery.handle
        if not consumer.channel.is_open or tag not in consumer.held:
            raise StaleLease(delivery.number)
        headers = {**_own_headers(properties), _ATTEMPTS: delivery.attempt}
        waiting = pika.BasicProperties(headers=headers, delivery_mode=2, expiration=str(wait_ms))
        self._sending.send([(_waiting(topic), delivery.body, waiting)])
        (refusal,) = self.ack(topic, [delivery])
        if refusal is not None:
            raise refusal

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        self._give_back(delivery, requeue=False)

    def _give_back(self, delivery: Delivered, *, requeue: bool) -> None:
        if (refusal := self._take(delivery)) is not None:
            raise refusal
        consumer, tag = delivery.handle[:2]
        with self._asking():
            consumer.channel.basic_nack(tag, requeue=requeue)
            consumer.sync()

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        """Do nothing: a message is its receiver's for as long as the connection lasts."""

    def left(self, topic: str) -> Iterator[Left]:
        """Receive all messages, as RabbitMQ shows them in no other way, and give them back when all are seen."""
        places: Sequence[tuple[str, Literal["ready", "delayed", "dead"]]] = [
            (topic, "ready"), (_waiting(topic), "delayed"), (_dead_letters(topic), "dead"),
        ]  # fmt: skip
        for queue, where in places:
            with self._asking(), self._channel() as channel:
                while True:
                    method, properties, _ = channel.basic_get(queue)
                    if method is None:
                        break
                    yield Left(_number(properties), where)

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        """Return the number of ready, delayed and dead messages: only the server knows how many are with workers."""
        with self._asking(), self._channel() as channel:
            counts = {
                state: int(channel.queue_declare(queue, passive=True).method.message_count)
                for state, queue in (("ready", topic), ("delayed", _waiting(topic)), ("dead", _dead_letters(topic)))
            }
        return {"": counts}

    def _opened(self) -> pika.BlockingConnection:
        if self._connection is None or not self._connection.is_open:
            self._connection = pika.BlockingConnection(self._parameters)
            self._consumers.clear()
        return self._connection

    @contextmanager
    def _channel(self) -> Iterator[BlockingChannel]:
        """Yield a channel for one purpose: the server closes a channel on which something was wrong."""
        channel = self._opened().channel()
        try:
            yield channel
        finally:
            if channel.is_open:
                channel.close()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Convert the errors of pika to those of the lab."""
        try:
            yield
        except ChannelClosedByBroker as error:
            kind = NotFound if error.reply_code == _NOT_FOUND else BadValue
            raise kind(f"RabbitMQ says {error.reply_code}: {error.reply_text}") from error
        except AMQPConnectionError as error:
            was_open, self._connection = self._connection is not None, None
            sentence = str(error) or type(error).__name__
            if was_open:
                raise OutcomeUnknown(f"No answer came from RabbitMQ: {sentence}.") from error
            where = f"{self._parameters.host}:{self._parameters.port}"
            raise Unreachable(f"RabbitMQ can't be reached at {where}: {sentence}.") from error
        except AMQPError as error:
            raise StoreUnavailable(f"RabbitMQ could not do it: {error or type(error).__name__}.") from error

    def close(self) -> None:
        self._sending.close()
        if self._connection is not None and self._connection.is_open:
            with suppress(AMQPError):
                self._connection.close()


def _parameters(url: str) -> pika.URLParameters:
    try:
        parameters = pika.URLParameters(url)
    except (ValueError, TypeError, AttributeError) as error:
        raise BadValue(f"target.options.url must be as amqp://user:password@host:5672/%2F: {error}.") from error
    # pika answers heartbeats only while it is called, and a worker may be busy for longer.
    parameters.heartbeat = 0
    parameters.socket_timeout = parameters.stack_timeout = parameters.blocked_connection_timeout = _TIMEOUT_S
    return parameters


def _properties(item: Item) -> pika.BasicProperties:
    return pika.BasicProperties(headers={**(item.headers or {}), NUMBER: item.number}, delivery_mode=2)


def _own_headers(properties: pika.BasicProperties) -> dict[str, Any]:
    """Return the headers that came with the message, without those of RabbitMQ."""
    return {name: value for name, value in (properties.headers or {}).items() if not name.startswith("x-")}


def _delivered(method: Any, properties: pika.BasicProperties, body: bytes, consumer: _Consumer) -> Delivered:
    headers = properties.headers or {}
    # Classic queues don't count: they say whether it is the first time.
    before = headers.get("x-delivery-count", int(method.redelivered))
    attempt = int(headers.get(_ATTEMPTS, 0)) + int(before) + 1
    own = {name: value for name, value in _own_headers(properties).items() if name not in (NUMBER, _ATTEMPTS)}
    handle = (consumer, method.delivery_tag, properties)
    return Delivered(_number(properties), body, "", attempt, None, own or None, handle)


def _number(properties: pika.BasicProperties) -> int:
    return number_of((properties.headers or {}).get(NUMBER), crc32(repr(properties).encode()))


def _dead_letters(topic: str) -> str:
    """Return the name of the queue for a topic's dead letters."""
    return f"{topic}.dead"


def _waiting(topic: str) -> str:
    """Return the name of the queue for a topic's delayed messages."""
    return f"{topic}.waiting"
