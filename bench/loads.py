"""Loads with the same work for each server: Sqew's own routes, hq's, and SQS in JSON as its emulators speak it."""

from __future__ import annotations

from typing import Literal

import msgspec

from bench.bodies import Bodies
from bench.serving import QUEUE
from bench.wrk import Load, Request

Job = Literal["cycle", "send", "receive 1", "ack", "send x10", "send x100", "send x1000", "receive 10"]

# In an order in which each finds what it needs: what was sent is received, and what was received is acked.
JOBS: tuple[Job, ...] = (
    "cycle", "send", "receive 1", "ack", "send x10", "send x100", "send x1000", "receive 10",
)  # fmt: skip


def in_sqew(seed: int, queue: str = QUEUE) -> dict[Job, Load]:
    """Return every job, on the routes of Sqew's own dialect."""
    payload = _body(seed)
    item = f'{{"payload":{payload}}}'
    send = Request("POST", f"/queues/{queue}/messages", item)
    ack = Request("POST", f"/queues/{queue}/ack", '{"id":%s,"token":"%s"}')
    handle = '{"id":(%d+),.-"token":"([^"]+)"'

    def receive(count: int) -> Request:
        return Request("POST", f"/queues/{queue}/poll?batch={count}")

    def batch(count: int) -> Load:
        body = "[" + ",".join([item] * count) + "]"
        return Load("same", {"same": Request("POST", send.path, body)}, per_request=count)

    return {
        "cycle": Load("cycle", {"send": send, "receive": receive(1), "ack": ack}, handle),
        "send": Load("same", {"same": send}),
        "receive 1": Load("receive", {"same": receive(1)}, handle),
        "ack": Load("ack", {"ack": ack}),
        "send x10": batch(10),
        "send x100": batch(100),
        "send x1000": batch(1_000),
        "receive 10": Load("receive", {"same": receive(10)}, handle),
    }


def in_native(seed: int, queue: str) -> dict[Job, Load]:
    """Return whole cycles under ``/v1``, where a message is deleted by its id in the path."""
    path = f"/v1/queues/{queue}/messages"
    send = Request("POST", path, f'{{"message":{_body(seed)}}}')
    receive = Request("GET", f"{path}?max=1", headers={})
    delete = Request("DELETE", f"{path}/%s", headers={})
    handle = '%[{"id":(%d+),"message"'
    return {"cycle": Load("cycle", {"send": send, "receive": receive, "ack": delete}, handle)}


def in_hq(seed: int, queue: str) -> dict[Job, Load]:
    """Return whole cycles in hq's words, where a job is completed by its id in the path."""
    send = Request("POST", f"/queues/{queue}/enqueue", _body(seed))
    receive = Request("GET", f"/queues/{queue}/receive", headers={})
    complete = Request("PUT", "/messages/%s/complete", headers={})
    return {"cycle": Load("cycle", {"send": send, "receive": receive, "ack": complete}, '{"id":"([^"]+)"')}


def in_sqs(seed: int, queue_url: str) -> dict[Job, Load]:
    """Return the jobs that SQS has: its batches are of 10 at most."""
    payload = msgspec.json.encode(_body(seed)).decode()
    url = f'"QueueUrl":"{queue_url}"'
    handle = '"ReceiptHandle": ?"([^"]+)"'

    def request(action: str, fields: str) -> Request:
        return Request("POST", "/", f"{{{url},{fields}}}", sqs_headers(action))

    entries = ",".join(f'{{"Id":"{number}","MessageBody":{payload}}}' for number in range(10))
    send = request("SendMessage", f'"MessageBody":{payload}')
    ack = request("DeleteMessage", '"ReceiptHandle":"%s"')

    def receive(count: int) -> Request:
        return request("ReceiveMessage", f'"MaxNumberOfMessages":{count}')

    return {
        "cycle": Load("cycle", {"send": send, "receive": receive(1), "ack": ack}, handle),
        "send": Load("same", {"same": send}),
        "receive 1": Load("receive", {"same": receive(1)}, handle),
        "ack": Load("ack", {"ack": ack}),
        "send x10": Load("same", {"same": request("SendMessageBatch", f'"Entries":[{entries}]')}, per_request=10),
        "receive 10": Load("receive", {"same": receive(10)}, handle),
    }


def sqs_headers(action: str) -> dict[str, str]:
    """Return headers with the service's name in a signature, which the emulators read and don't check."""
    scope = "bench/20260101/us-east-1/sqs/aws4_request"
    return {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{action}",
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
    }


def _body(seed: int) -> str:
    return msgspec.json.encode(Bodies(seed, SIZE).next()).decode()


SIZE = 400
"""Bytes of JSON in a message, as in the prototypes behind the wanted figures."""
