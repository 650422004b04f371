"""Shorthands for tests of writers."""

from sqew.formats.columns import columns
from sqew.model import NewMessage
from sqew.operations import GetWriter, Promote, Stage, StepPromotion

WRITER = "job-1"


def numbered(count, start=0, **fields):
    return [NewMessage(b"%d" % number, **fields) for number in range(start, start + count)]


def stage(store, messages, part="0-a", epoch=0, writer=WRITER, offset=None, queue="jobs"):
    return store.run(Stage(queue, writer, epoch, part, columns(messages), offset))


def decide(store, parts, epoch=0, writer=WRITER, queue="jobs"):
    return store.run(Promote(queue, writer, epoch, parts))


def step(store, epoch=0, writer=WRITER, queue="jobs"):
    return store.run(StepPromotion(queue, writer, epoch))


def promote(store, parts, epoch=0, writer=WRITER, queue="jobs"):
    promotion = decide(store, parts, epoch, writer, queue)
    while not promotion.done:
        promotion = step(store, epoch, writer, queue)
    return promotion


def bodies(store, queue="jobs"):
    return [int(message.body) for message in store.peek(10_000, queue)]


def writer(store, name=WRITER, queue="jobs"):
    return store.run(GetWriter(queue, name))
