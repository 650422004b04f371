"""`writers` of both clients, and of an embedded queue: the same calls, the same answers."""

import pytest

from sqew import NewMessage, Queue
from sqew.errors import AlreadyPromoted, BadBody, BadValue, PartIncomplete, QueueNotFound, WriterNotFound
from sqew.model import Promotion, Staged, Staging, WriterInfo
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


def test_an_epoch_is_staged_and_promoted_once(anywhere, queue):
    anywhere.create(queue)
    bodies = [{"sku": 1}, "some text", NewMessage(b"3", headers={"a": "b"}, priority=9, key="k", ttl_ms=60_000)]

    assert anywhere.writers.stage(queue, "load", 0, "p 1/2", bodies, offset=0) == Staged(3)
    assert anywhere.writers.stage(queue, "load", 0, "p 1/2", bodies, offset=0) == Staged(3)
    assert anywhere.writers.promote(queue, "load", 0, {"p 1/2": 3}) == Promotion(3)
    assert anywhere.writers.promote(queue, "load", 0, {"p 1/2": 3}) == Promotion(3, repeated=True)

    found = anywhere.peek(queue)
    assert [message.value for message in found] == [3, {"sku": 1}, "some text"]
    assert (found[0].headers, found[0].key) == ({"a": "b"}, "k")


def test_writers_are_shown(anywhere, queue):
    anywhere.create(queue)
    anywhere.writers.stage(queue, "load", 3, "p", [1, 2])
    anywhere.writers.stage(queue, "other", 0, "p", [1])

    expected = WriterInfo("load", None, 0, 0, [Staging(3, 1, 2, promoting=False)])

    assert anywhere.writers.get(queue, "load") == expected
    assert [one.name for one in anywhere.writers.list(queue)] == ["load", "other"]
    assert anywhere.writers.list(queue, limit=1) == [expected]
    assert [one.name for one in anywhere.writers.list(queue, after="load")] == ["other"]


def test_what_is_aborted_is_gone(anywhere, queue):
    anywhere.create(queue)
    anywhere.writers.stage(queue, "load", 0, "p", [1])

    anywhere.writers.abort(queue, "load", 0)

    with pytest.raises(PartIncomplete, match="Part 'p' has 0 messages staged, and not 1"):
        anywhere.writers.promote(queue, "load", 0, {"p": 1})
    anywhere.writers.promote(queue, "load", 0, {})
    with pytest.raises(AlreadyPromoted):
        anywhere.writers.abort(queue, "load", 0)


def test_bad_input_is_refused(anywhere, queue):
    anywhere.create(queue)

    with pytest.raises(WriterNotFound):
        anywhere.writers.get(queue, "nobody")
    with pytest.raises(QueueNotFound):
        anywhere.writers.stage("nowhere", "load", 0, "p", [1])
    with pytest.raises(BadValue, match="epoch can't be -1"):
        anywhere.writers.stage(queue, "load", -1, "p", [1])
    with pytest.raises(BadValue, match="writer can't be ''"):
        anywhere.writers.stage(queue, "", 0, "p", [1])
    with pytest.raises(BadBody, match="not valid JSON"):
        anywhere.writers.stage(queue, "load", 0, "p", [NewMessage(b"{")])
    with pytest.raises(BadValue, match="bodies can't be 'text'"):
        anywhere.writers.stage(queue, "load", 0, "p", "text")
