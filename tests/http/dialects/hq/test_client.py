"""hq's Rust client, rebuilt from its wire: the same requests, and answers decoded into the same strict types.

It knows nothing of Sqew: any status from 400 on is an error to it, a number that is null or has a fraction is no
number, and a job's arguments are of the type that the caller names.
"""

import time
from typing import Generic, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec
import pytest
from msgspec import Struct

from tests.support.postgres import new_database
from tests.support.serving import STORES, serving

T = TypeVar("T")
SEGMENT = "!$&'()*+,;=:@|[]\\^~"
"""Characters that the client's URL library does not escape in a path segment."""


class Sent(Struct):
    message_id: UUID


class Job(Struct, Generic[T]):
    id: UUID
    args: T
    queue: str
    attempts: int


class Listed(Struct):
    name: str
    max_attempts: int


class Shown(Struct):
    name: str
    max_attempts: int
    visibility_timeout_seconds: int


class Resize(Struct):
    """Arguments of a job, as a program would define them."""

    picture: str


class HqClient:
    """A client with every call of hq's client."""

    def __init__(self, server):
        self._server = server

    def enqueue(self, queue, args):
        body = msgspec.json.encode(args)
        return self._read(self._call("POST", self._path("queues", queue, "enqueue"), body), Sent).message_id

    def receive(self, queue, kind=Resize):
        return self._read(self._call("GET", self._path("queues", queue, "receive")), Job[kind] | None)

    def complete(self, id):
        self._call("PUT", self._path("messages", str(id), "complete"))

    def fail(self, id):
        self._call("PUT", self._path("messages", str(id), "fail"))

    def queues(self):
        return self._read(self._call("GET", "/queues"), list[Listed])

    def create(self, name, max_attempts=5, visibility_timeout_seconds=30):
        self._call("POST", "/queues?" + urlencode(
            {"name": name, "max_attempts": max_attempts, "visibility_timeout_seconds": visibility_timeout_seconds}
        ))  # fmt: skip

    def queue(self, name):
        return self._read(self._call("GET", self._path("queues", name)), Shown | None)

    def update(self, name, **options):
        # Its URL has a question mark even where nothing follows.
        self._call("PUT", f"{self._path('queues', name)}?{urlencode(options)}")

    def delete(self, name):
        self._call("DELETE", self._path("queues", name))

    def _path(self, *parts):
        return "/" + "/".join(quote(part, safe=SEGMENT) for part in parts)

    def _call(self, method, path, body=None):
        headers = {"accept": "*/*"} if body is None else {"accept": "*/*", "content-type": "application/json"}
        answer = self._server.call(method, path, body, headers)
        assert answer.status < 400, answer
        return answer

    def _read(self, answer, kind):
        return msgspec.json.decode(answer.body, type=kind, strict=True)


@pytest.fixture(scope="module", params=STORES)
def client(request, tmp_path_factory):
    database = new_database() if request.param == "postgres" else None
    with serving(tmp_path_factory.mktemp("hq"), "--durability", "fast", database=database) as server:
        yield HqClient(server)


@pytest.fixture(autouse=True)
def nothing_is_left(client):
    """Delete all queues after each test, as the client's own tests start on a server without any."""
    yield
    for queue in client.queues():
        client.delete(queue.name)
    assert client.queues() == []


def test_a_new_server_has_no_queues(client):
    assert client.queues() == []
    assert client.queue("jobs") is None


def test_a_queue_that_was_made_is_listed_and_shown_and_nothing_else_is(client):
    client.create("jobs")

    assert client.queues() == [Listed("jobs", 5)]
    assert client.queue("jobs") == Shown("jobs", 5, 30)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"max_attempts": 6}, Shown("jobs", 6, 30)),
        ({"visibility_timeout_seconds": 10}, Shown("jobs", 5, 10)),
        ({"max_attempts": 6, "visibility_timeout_seconds": 10}, Shown("jobs", 6, 10)),
        ({}, Shown("jobs", 5, 30)),
    ],
)
def test_what_an_update_names_is_changed_and_nothing_else(client, options, shown):
    client.create("jobs")

    client.update("jobs", **options)

    assert client.queue("jobs") == shown


def test_to_delete_what_is_not_there_is_no_error(client):
    client.delete("jobs")

    assert client.queues() == []


def test_a_deleted_queue_leaves_nothing(client):
    client.create("jobs")
    client.enqueue("jobs", Resize("cat.png"))

    client.delete("jobs")

    assert client.queues() == []
    client.create("jobs")
    assert client.receive("jobs") is None


def test_an_empty_queue_gives_nothing(client):
    client.create("jobs")

    assert client.receive("jobs") is None


def test_a_job_is_received_as_it_was_sent(client):
    client.create("jobs")

    id = client.enqueue("jobs", Resize("cat.png"))

    assert client.receive("jobs") == Job(id, Resize("cat.png"), "jobs", 1)


@pytest.mark.parametrize("act", [HqClient.complete, HqClient.fail])
def test_a_job_that_is_completed_or_failed_does_not_come_again(client, act):
    client.create("jobs", visibility_timeout_seconds=1)
    client.enqueue("jobs", Resize("cat.png"))
    job = client.receive("jobs")

    act(client, job.id)

    assert client.receive("jobs") is None
    act(client, job.id)


def test_a_job_comes_again_when_its_time_is_over_until_it_has_no_attempts_left(client):
    client.create("jobs", max_attempts=2, visibility_timeout_seconds=1)
    id = client.enqueue("jobs", Resize("cat.png"))

    jobs = [client.receive("jobs")]
    deadline = time.monotonic() + 10
    while len(jobs) < 2 and time.monotonic() < deadline:
        # (hq has no receive that waits.)
        jobs += [job] if (job := client.receive("jobs")) is not None else []
        time.sleep(0.05)
    client.update("jobs", visibility_timeout_seconds=30)

    assert [(job.id, job.attempts) for job in jobs] == [(id, 1), (id, 2)]
    assert client.receive("jobs") is None


@pytest.mark.parametrize("kind", [dict[str, int], list[int], str, int, type(None)])
def test_arguments_are_of_the_type_that_was_sent(client, kind):
    args = {dict[str, int]: {"n": 1}, list[int]: [1, 2], str: "é", int: 7, type(None): None}[kind]
    client.create("jobs")

    client.enqueue("jobs", args)

    assert client.receive("jobs", kind).args == args


@pytest.mark.parametrize("name", ["my jobs", "a/b", "über", "50%", "a+b&c=d"])
def test_a_queue_may_be_called_anything(client, name):
    client.create(name)

    id = client.enqueue(name, Resize("cat.png"))

    assert client.receive(name) == Job(id, Resize("cat.png"), name, 1)
    assert client.queues() == [Listed(name, 5)]


def test_queues_of_other_dialects_do_not_break_its_list(client):
    client._server.call("POST", "/v1/queues", {"name": "native"})
    client._server.call("POST", "/queues", {"name": "ours", "visibility_ms": 1_500})

    assert [queue.name for queue in client.queues()] == ["native", "ours", "ours-dlq"]
    assert client.queue("ours").visibility_timeout_seconds == 2
