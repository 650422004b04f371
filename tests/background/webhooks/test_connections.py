"""Connections to endpoints: the addresses they reach, how long they are kept, and what happens when they die."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from sqew.background.webhooks.connection import EndpointConnection, EndpointGone
from sqew.background.webhooks.poster import Poster
from sqew.errors import DeliveryFailed
from tests.background.webhooks.posters import BODY, JSON, posting
from tests.support.endpoint import (
    OK,
    Hook,
    after,
    answers_and_resets,
    answers_once,
    both,
    endpoint,
    hangs_up,
    says,
    stalls,
    status,
)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


def at_once(url: str, count: int):
    async def scenario(poster: Poster) -> list[int]:
        answers = await asyncio.gather(*(poster.post(url, BODY, JSON) for _ in range(count)))
        return [answer.status for answer in answers]

    return scenario


def turns(hook: Hook) -> list[tuple[int, int]]:
    """Return each request's connection, and its number on that connection."""
    return [(request.connection, request.turn) for request in hook.received()]


# Where they lead


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/x", "http://hook.example:{port}/x"])
def test_nothing_is_sent_where_it_may_not_go(hook, run, url):
    with pytest.raises(DeliveryFailed, match=r"127\.0\.0\.1(,| is) a loopback address"):
        run(posting(url.format(port=hook.port)), allowed="")

    assert hook.connections == 0


def test_a_name_that_changes_its_mind_does_not_lead_around_the_check(hook, run):
    answers = iter([["93.184.216.34", "127.0.0.1"], ["127.0.0.1"]])

    for _ in range(2):
        with pytest.raises(DeliveryFailed, match=r"leads to 127\.0\.0\.1"):
            run(posting(hook.url("/x", "hook.example")), allowed="", lookup=lambda _: next(answers))

    assert hook.connections == 0


def test_a_name_is_resolved_once_for_a_connection_and_connected_to_as_it_was(hook, run):
    answers = iter([["127.0.0.1"]])

    run(posting(*[hook.url("/x", "hook.example")] * 3), lookup=lambda _: next(answers))

    assert [request.headers["host"] for request in hook.received()] == [f"hook.example:{hook.port}"] * 3
    assert hook.connections == 1


def test_another_address_is_tried_when_the_first_does_not_listen(hook, run):
    assert run(posting(hook.url("/x", "hook.example")), lookup=lambda _: ["127.0.0.9", "127.0.0.1"]) == [200]


def test_an_address_that_does_not_answer_leaves_time_for_the_next(hook, run):
    # The queue of the first is full, so that it lets others wait.
    with (
        socket.create_server(("127.0.0.8", hook.port), backlog=0),
        socket.create_connection(("127.0.0.8", hook.port)),
    ):
        url = hook.url("/x", "hook.example")

        assert run(posting(url), timeout_s=1, lookup=lambda _: ["127.0.0.8", "127.0.0.1"]) == [200]


def test_an_endpoint_may_be_an_ipv6_address(run):
    with endpoint(host="::1") as hook:
        assert run(posting(hook.url("/x", "[::1]"))) == [200]

    assert hook.received()[0].headers["host"] == f"[::1]:{hook.port}"


def test_an_endpoint_that_does_not_listen_is_a_failure(hook, run):
    with pytest.raises(DeliveryFailed, match=rf"^hook\.example:{hook.port} refused the connection\. Check"):
        run(posting(hook.url("/x", "hook.example")), lookup=lambda _: ["127.0.0.9"])


def test_an_endpoint_of_an_unknown_name_is_a_failure(run):
    def lookup(_: str) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(DeliveryFailed, match=r"nowhere\.example can't be resolved \(Name or service not known\)"):
        run(posting("http://nowhere.example/"), lookup=lookup)


def test_proxies_of_the_environment_are_not_used(hook, run, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.9:9")

    assert run(posting(hook.url("/x"))) == [200]


def test_cookies_are_not_kept(hook, run):
    hook.does("/x", status(200, set_cookie="a=b"))

    run(posting(hook.url("/x"), hook.url("/x")))

    assert [request.headers.get("cookie") for request in hook.received()] == [None, None]


# How long they are kept


def test_requests_to_one_place_share_a_connection(hook, run):
    hook.does("/fails", status(500))

    run(posting(*[hook.url("/a"), hook.url("/fails"), hook.url("/b")] * 5))

    assert [request.turn for request in hook.received()] == list(range(1, 16))


def test_requests_to_names_of_one_address_do_not(hook, run):
    run(posting(hook.url("/x", "hook.example"), hook.url("/x", "other.example"), hook.url("/x")))

    assert [request.connection for request in hook.received()] == [1, 2, 3]


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        OK + OK,
        OK + b"HTTP/1.1 2",
        OK + b"nonsense",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\nnonsense",
    ],
)
def test_a_connection_that_can_not_go_on_is_not_used_again(hook, run, raw):
    hook.does("/x", says(raw))

    assert run(posting(hook.url("/x"), hook.url("/x"))) == [200, 200]

    assert [request.connection for request in hook.received()] == [1, 2]


def test_only_so_many_connections_are_kept(hook, run):
    async def scenario(poster: Poster) -> None:
        await at_once(hook.url("/x"), 20)(poster)
        await asyncio.to_thread(hook.wait_for_ends, 17)
        await at_once(hook.url("/x"), 20)(poster)

    run(scenario, most_idle=3)

    assert hook.connections == 20 + 17


def test_the_connection_that_rested_longest_gives_way(hook, run):
    urls = [hook.url("/x", host) for host in ("a.example", "b.example", "c.example", "b.example", "a.example")]

    run(posting(*urls), most_idle=2)

    assert [request.connection for request in hook.received()] == [1, 2, 3, 2, 4]


def test_the_connection_that_rested_last_is_used_first_so_that_the_others_may_end(hook, run):
    async def scenario(poster: Poster) -> None:
        await at_once(hook.url("/x"), 5)(poster)
        await posting(*[hook.url("/y")] * 5)(poster)

    run(scenario)

    assert len({request.connection for request in hook.received("/y")}) == 1


def test_connections_at_rest_are_closed_after_a_while(hook, run):
    hook.does("/later", after(0.1, says(OK)))

    async def scenario(poster: Poster) -> None:
        await asyncio.gather(posting(hook.url("/x"))(poster), posting(hook.url("/later"))(poster))
        await asyncio.to_thread(hook.wait_for_ends, 2)
        await poster.post(hook.url("/y"), BODY, JSON)

    run(scenario, idle_s=0.2)

    assert hook.received("/y")[0].connection == 3


def test_a_connection_in_use_is_not_closed_for_having_rested(hook, run):
    async def scenario(poster: Poster) -> None:
        ends = asyncio.get_running_loop().time() + 0.9
        while asyncio.get_running_loop().time() < ends:
            await poster.post(hook.url("/x"), BODY, JSON)

    run(scenario, idle_s=0.4)

    assert hook.connections == 1


def test_a_connection_is_not_used_for_ever_so_that_an_endpoint_may_move(hook, run):
    run(posting(*[hook.url("/x")] * 3), oldest_s=0)

    assert [request.connection for request in hook.received()] == [1, 2, 3]


# Those that die


def test_a_connection_found_dead_is_replaced(hook, run):
    hook.does("/x", answers_once)

    assert run(posting(*[hook.url("/x")] * 3)) == [200, 200, 200]

    assert turns(hook) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]


def test_a_connection_that_is_reset_at_rest_is_replaced(hook, run):
    hook.does("/x", answers_and_resets)

    assert run(posting(*[hook.url("/x")] * 20)) == [200] * 20


def test_a_connection_that_is_closed_at_rest_is_replaced(hook, run):
    hook.does("/x", says(OK, goes_on=False))

    async def scenario(poster: Poster) -> None:
        await poster.post(hook.url("/x"), BODY, JSON)
        await asyncio.to_thread(hook.wait_for_ends, 1)
        await poster.post(hook.url("/y"), BODY, JSON)

    run(scenario)

    assert [(request.path, request.connection) for request in hook.received()] == [("/x", 1), ("/y", 2)]


def test_a_connection_that_speaks_unasked_is_closed(hook, run):
    hook.does("/x", both(says(OK), after(0.1, says(OK))))

    async def scenario(poster: Poster) -> None:
        await poster.post(hook.url("/x"), BODY, JSON)
        await asyncio.to_thread(hook.wait_for_ends, 1)

    run(scenario)


def test_a_connection_whose_request_was_not_read_to_its_end_is_not_used_again(hook, run):
    hook.does_unread("/early", both(status(413), stalls))

    async def scenario(poster: Poster) -> list[int]:
        early = await poster.post(hook.url("/early"), bytes(20_000_000), JSON)
        return [early.status, *await posting(hook.url("/x"))(poster)]

    assert run(scenario, timeout_s=2) == [413, 200]


def test_a_connection_that_was_lost_before_its_first_request_says_so():
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: EndpointConnection(("http", "hook.example", 80), lambda _: None), sock=ours
        )
        theirs.close()
        async with asyncio.timeout(10):
            await connection.lost
            with pytest.raises(EndpointGone, match="closed the connection without an answer"):
                await connection.exchange(b"POST / HTTP/1.1\r\n\r\n")

    asyncio.run(scenario())


def test_it_is_tried_again_once_and_no_more(hook, run):
    hook.does("/x", says(OK), hangs_up)

    with pytest.raises(DeliveryFailed, match="closed the connection without an answer"):
        run(posting(hook.url("/x"), hook.url("/x")))

    assert turns(hook) == [(1, 1), (1, 2), (2, 1)]


def test_it_is_not_tried_again_when_an_answer_has_begun(hook, run):
    hook.does("/x", says(OK), says(OK[:5], goes_on=False))

    with pytest.raises(DeliveryFailed, match="closed the connection in the middle of its answer"):
        run(posting(hook.url("/x"), hook.url("/x")))

    assert len(hook.received()) == 2


# The end


def test_a_post_that_is_given_up_closes_its_connection(run):
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def read_all() -> bytes:
            connection, _ = silent.accept()
            with connection, connection.makefile("rb") as received:
                connection.settimeout(10)
                return received.read()

        async def scenario(poster: Poster) -> bytes:
            with pytest.raises(DeliveryFailed, match="did not answer within"):
                await poster.post(f"http://127.0.0.1:{silent.getsockname()[1]}/", BODY, JSON)
            return await asyncio.to_thread(read_all)

        assert run(scenario, timeout_s=0.2).endswith(BODY)


def test_closing_ends_connections_and_what_is_on_them(hook, run):
    hook.does("/stalls", says(OK), stalls)

    async def scenario(poster: Poster) -> None:
        await at_once(hook.url("/x"), 3)(poster)
        await poster.post(hook.url("/stalls"), BODY, JSON)
        task = asyncio.create_task(poster.post(hook.url("/stalls"), BODY, JSON))
        await asyncio.to_thread(hook.wait_for, "/stalls", 2)
        await poster.close()
        with pytest.raises(DeliveryFailed, match="The server is stopping"):
            await task
        with pytest.raises(DeliveryFailed, match="The server is stopping"):
            await poster.post(hook.url("/x"), BODY, JSON)

    run(scenario)

    hook.wait_for_ends(2)
