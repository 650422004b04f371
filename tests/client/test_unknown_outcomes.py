"""Clients and a commit that the database did not answer: they repeat only what does no harm twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sqew import Queue
from sqew.cli.main import sqew as root
from sqew.errors import OutcomeUnknown
from sqew.terminal.exits import Exit
from tests.client.clients import connect, queue
from tests.support.cutting import COMMIT, Cutter, cutter
from tests.support.postgres import fetch_column, new_database
from tests.support.serving import Serving, serving

__all__ = ["connect", "queue"]

PLACES = ("through a server", "embedded")


@pytest.fixture(scope="module")
def url() -> str:
    return new_database()


@pytest.fixture(scope="module")
def wired(url: str) -> Iterator[tuple[Cutter, str]]:
    with cutter(url) as wire:
        yield wire


@pytest.fixture(scope="module")
def wire(wired: tuple[Cutter, str]) -> Cutter:
    return wired[0]


@pytest.fixture(scope="module")
def server(wired: tuple[Cutter, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Yield a server with one connection to its database, which a test may cut."""
    folder = tmp_path_factory.mktemp("cut")
    with serving(folder, "--database-connections", "1", database=wired[1]) as server:
        yield server


@pytest.fixture(params=PLACES)
def q(
    request: pytest.FixtureRequest, connect: Callable[..., Any], server: Serving, wired: tuple[Cutter, str], queue: str
) -> Iterator[Any]:
    """Yield a client, or the database opened in this process, with a queue that has been used."""
    if request.param == "embedded":
        with Queue.open(wired[1], database_connections=1) as q:
            yield warmed(q, queue)
    else:
        yield warmed(connect(server.url), queue)


def warmed(q: Any, queue: str) -> Any:
    """Use the queue until each call is a single statement: all that it looks up or prepares is there then."""
    q.create(queue)
    for _ in range(2):
        q.enqueue(queue, "warm")
        q.ack(q.claim(queue))
    return q


def stored(url: str, value: str) -> int:
    return fetch_column(url, f"SELECT count(*) FROM sqew_message WHERE body LIKE '%{value}%'")[0]


def test_one_enqueue_became_two_messages(q: Any, wire: Cutter, queue: str, url: str) -> None:
    body = f"once-{queue}"
    wire.cut_answer(body.encode())

    with pytest.raises(OutcomeUnknown):
        q.enqueue(queue, body)

    assert wire.has_cut()
    assert stored(url, body) == 1


def test_an_ack_that_was_done_was_repeated_and_found_no_message(q: Any, wire: Cutter, queue: str) -> None:
    q.enqueue(queue, "to be acked")
    message = q.claim(queue)
    wire.cut_answer(message.lease.token.encode())

    with pytest.raises(OutcomeUnknown):
        q.ack(message)

    assert wire.has_cut()
    assert q.claim(queue) is None


def test_a_send_with_a_key_is_repeated_by_a_client_and_stored_once(
    connect: Callable[..., Any], server: Serving, wire: Cutter, queue: str, url: str
) -> None:
    q = warmed(connect(server.url), queue)
    body = f"keyed-{queue}"
    wire.cut_answer(body.encode(), COMMIT)

    id = q.enqueue(queue, body, key=queue)

    assert wire.has_cut()
    assert stored(url, body) == 1
    assert q.claim(queue).id == id


def test_what_was_not_done_for_sure_is_repeated_without_a_key(
    connect: Callable[..., Any], server: Serving, wire: Cutter, queue: str, url: str
) -> None:
    """Check that a send whose failure is certain is repeated.

    A priority that is new to the queue takes several statements, and the connection breaks before the commit is sent.
    """
    q = warmed(connect(server.url), queue)
    body = f"not done-{queue}"
    wire.cut_question(body.encode())

    q.enqueue(queue, body, priority=7)

    assert wire.has_cut()
    assert stored(url, body) == 1


def test_the_command_line_sends_once_and_says_that_nobody_knows(
    connect: Callable[..., Any], server: Serving, wire: Cutter, queue: str, url: str
) -> None:
    warmed(connect(server.url), queue)
    body = f"cli-{queue}"
    wire.cut_answer(body.encode())

    ended = CliRunner().invoke(
        root, ["--url", server.url, "message", "enqueue", "--queue", queue, "--payload", json.dumps(body)]
    )

    assert wire.has_cut()
    assert ended.exit_code == Exit.STORE
    assert "it may have been done, or not" in ended.stderr
    assert stored(url, body) == 1


def test_an_import_counts_the_batch_that_nobody_knows_of(
    connect: Callable[..., Any], server: Serving, wire: Cutter, queue: str, tmp_path: Path, url: str
) -> None:
    warmed(connect(server.url), queue)
    body = f"lines-{queue}"
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f'{{"payload": "{body}"}}\n')
    wire.cut_answer(body.encode())

    ended = CliRunner().invoke(
        root, ["--url", server.url, "message", "enqueue", "--queue", queue, "--file", str(lines)]
    )

    assert wire.has_cut()
    assert ended.exit_code == Exit.STORE
    assert "0 of 1 message were sent, and perhaps the 1 after them" in ended.stderr
    assert stored(url, body) == 1


def test_a_mailbox_message_that_was_stored_was_refused_because_it_could_not_be_read_again(
    server: Serving, wire: Cutter, url: str
) -> None:
    text = {"topic": "letters", "body": "stored", "dedupe_key": "first"}
    assert server.call("POST", "/v1/messages", text).status == 201
    # Its transaction names the key. The one after it reads the message for the answer.
    wire.cut_question(b"second", b"BEGIN")

    answer = server.call("POST", "/v1/messages", text | {"dedupe_key": "second"})

    assert wire.has_cut()
    assert answer.status == 201
    assert answer.json["body"] == "stored"
    assert stored(url, "stored") == 2
