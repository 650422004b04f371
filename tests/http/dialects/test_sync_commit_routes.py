"""Choice of senders whether an answer waits for the disk, in each dialect that has a word for it."""

from collections.abc import Iterator

import pytest

from sqew import Client
from tests.stores.test_sync_commit import NOTED
from tests.support.postgres import fetch_column, new_database
from tests.support.serving import Serving, serving


@pytest.fixture(scope="module")
def database() -> str:
    """Return a database that records how each insert will be committed."""
    url = new_database()
    fetch_column(url, NOTED)
    return url


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, database: str) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("server"), "--database-url", database) as server:
        server.call("POST", "/queues", {"name": "orders"})
        yield server


def waited(database: str) -> list[str]:
    """Return how the inserts since the last call were committed."""
    return fetch_column(database, "DELETE FROM waited RETURNING setting")


@pytest.mark.parametrize(
    ("wishes", "setting"), [((None,), "on"), ((False,), "off"), ((False, False), "off"), ((False, True), "on")]
)
@pytest.mark.parametrize(("path", "payload"), [("/queues", "payload"), ("/v1/queues", "message")])
def test_a_request_waits_for_the_disk_unless_all_its_messages_can_do_without(
    server, database, path, payload, wishes, setting
):
    items = [{payload: 1, "sync_commit": wish} for wish in wishes]

    answer = server.call("POST", f"{path}/orders/messages", items if len(items) > 1 else items[0])

    assert answer.status == 201
    assert waited(database) == [setting]


@pytest.mark.parametrize(
    ("asked", "wishes", "setting"),
    [
        ("true", (None,), "off"),
        ("true", (None, None), "off"),
        ("true", (True,), "on"),
        ("true", (None, True), "on"),
        ("false", (None,), "on"),
        ("false", (False,), "off"),
    ],
)
def test_a_url_that_asks_for_an_async_commit_speaks_for_messages_that_do_not(server, database, asked, wishes, setting):
    items = [{"message": 1} if wish is None else {"message": 1, "sync_commit": wish} for wish in wishes]

    answer = server.call(
        "POST", f"/v1/queues/orders/messages?async_commit={asked}", items if len(items) > 1 else items[0]
    )

    assert answer.status == 201
    assert waited(database) == [setting]


def test_the_client_passes_the_choice_on(server, database):
    with Client(server.url) as client:
        client.enqueue("orders", 1, sync_commit=False)
        client.enqueue_many("orders", [1, 2], sync_commit=False)
        client.enqueue("orders", 1)

    assert sorted(waited(database)) == ["off", "off", "on"]


def test_what_is_not_a_choice_is_refused(server):
    answer = server.call("POST", "/v1/queues/orders/messages", {"message": 1, "sync_commit": "off"})

    assert answer.status == 422
    assert "sync_commit" in answer.body.decode()
