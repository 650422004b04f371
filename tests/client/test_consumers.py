"""`consumers` of both clients, and of an embedded queue: the same calls, the same answers."""

import pytest

from sqew import NewMessage, Queue
from sqew.errors import BadValue, ClaimNotFound, ConsumerInUse, ConsumerNotFound, Fenced, QueueNotFound
from sqew.model import Claim, ClaimPart, OpenedConsumer
from tests.client.clients import connect, queue, servers, shared_server

__all__ = ["connect", "queue", "servers", "shared_server"]


@pytest.fixture(params=["server", "file"])
def anywhere(request, connect, shared_server, tmp_path):
    """Yield a client of a server (of each kind), and an embedded queue on a file."""
    if request.param == "server":
        yield connect(shared_server.url)
    else:
        with Queue.open(tmp_path / "queue.db") as embedded:
            yield embedded


def test_a_queue_is_read_claim_by_claim(anywhere, queue):
    anywhere.create(queue)
    sent = anywhere.enqueue_many(
        queue, [NewMessage(b'{"a":\n1}', headers={"h": 1}, key="k", priority=3), "text", {"sku": 7}]
    )
    consumers = anywhere.consumers

    opened = consumers.open(queue, "a b/c", owner="me")
    assert opened == OpenedConsumer(opened.epoch, [], 0)
    claim = consumers.claim(queue, "a b/c", opened.epoch, after=0)
    assert claim == Claim(1, 3, [ClaimPart(0, 3)])
    read = consumers.read(queue, "a b/c", 1, 0)
    assert [message.id for message in read] == sent
    assert [message.value for message in read] == [{"a": 1}, "text", {"sku": 7}]
    assert (read[0].headers, read[0].key, read[0].attempts, read[0].state) == ({"h": 1}, "k", 1, "leased")
    assert consumers.claim(queue, "a b/c", opened.epoch, after=1).count == 0
    assert anywhere.peek(queue) == []


def test_the_next_claim_is_made_while_the_one_before_it_is_worked_on(anywhere, queue):
    anywhere.create(queue)
    sent = anywhere.enqueue_many(queue, [1, 2, 3])
    consumers = anywhere.consumers
    epoch = consumers.open(queue, "c", owner="me").epoch
    consumers.claim(queue, "c", epoch, after=0, limit=2)

    assert consumers.claim(queue, "c", epoch, after=1, limit=2, done=0) == Claim(2, 1, [ClaimPart(0, 1)])

    assert [message.id for number in (1, 2) for message in consumers.read(queue, "c", number, 0)] == sent
    consumers.claim(queue, "c", epoch, after=2, done=1)
    assert consumers.open(queue, "c", owner="me").claims == [2]
    with pytest.raises(BadValue, match="done can't be 3: it must be a whole number from 0 to 2"):
        consumers.claim(queue, "c", epoch + 1, after=2, done=3)


def test_whoever_comes_back_has_the_claim_and_the_other_is_fenced_off(anywhere, queue):
    anywhere.create(queue)
    anywhere.enqueue(queue, 1)
    epoch = anywhere.consumers.open(queue, "c", owner="me").epoch
    made = anywhere.consumers.claim(queue, "c", epoch, after=0)

    assert anywhere.consumers.open(queue, "c", owner="me") == OpenedConsumer(epoch + 1, [1], 1)

    with pytest.raises(Fenced, match=f"its epoch is {epoch + 1}, and not {epoch}"):
        anywhere.consumers.renew(queue, "c", epoch)
    anywhere.consumers.renew(queue, "c", epoch + 1, hold_ms=60_000)
    assert anywhere.consumers.claim(queue, "c", epoch + 1, after=0) == made


def test_consumers_are_listed_and_released(anywhere, queue):
    anywhere.create(queue)
    anywhere.enqueue_many(queue, [1, 2])
    epoch = anywhere.consumers.open(queue, "c", owner="me", hold_ms=60_000).epoch
    anywhere.consumers.claim(queue, "c", epoch, after=0, limit=1)
    anywhere.consumers.open(queue, "d", owner="me")

    [first, _] = anywhere.consumers.list(queue)
    assert (first.name, first.owner, first.last, first.claims[0].count) == ("c", "me", 1, 1)
    assert [one.name for one in anywhere.consumers.list(queue, after="c")] == ["d"]
    with pytest.raises(ConsumerInUse, match="is in the hands of 'me'"):
        anywhere.consumers.release(queue, "c")
    anywhere.consumers.release(queue, "c", force=True)

    assert [one.name for one in anywhere.consumers.list(queue)] == ["d"]
    assert len(anywhere.claim_many(queue, 10)) == 2


def test_what_is_not_there_is_named(anywhere, queue):
    anywhere.create(queue)
    anywhere.consumers.open(queue, "c", owner="me")

    with pytest.raises(ConsumerNotFound, match="has no consumer 'x'"):
        anywhere.consumers.release(queue, "x")
    with pytest.raises(ClaimNotFound, match="claim 3"):
        anywhere.consumers.read(queue, "c", 3, 0)
    with pytest.raises(QueueNotFound):
        anywhere.consumers.list("nowhere")
    with pytest.raises(BadValue):
        anywhere.consumers.open(queue, "c", owner="")
    with pytest.raises(BadValue):
        anywhere.consumers.claim(queue, "c", 1, after=-1)
