"""The Sqew dialect over a real socket."""

import pytest


@pytest.fixture
def queue(shared_server, request):
    name = f"sqew-{abs(hash(request.node.name))}"
    assert shared_server.call("POST", "/queues", {"name": name}).status == 201
    return name


def test_a_message_goes_through_its_whole_life(shared_server, queue):
    sent = shared_server.call("POST", f"/queues/{queue}/messages", {"payload": {"sku": 7}})
    polled = shared_server.call("POST", f"/queues/{queue}/poll?batch=5")
    (message,) = polled.json["messages"]
    acked = shared_server.call("POST", f"/queues/{queue}/ack", {"id": message["id"], "token": message["token"]})

    assert (sent.status, sent.json["duplicate"]) == (201, False)
    assert (message["id"], message["payload"], message["attempts"]) == (sent.json["message_id"], {"sku": 7}, 1)
    assert (acked.status, acked.json["ok"]) == (200, True)
    assert shared_server.call("POST", f"/queues/{queue}/poll").json == {"messages": []}
