"""Posts to real endpoints over real sockets, some of which misbehave."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

import sqew
from sqew.background.webhooks.poster import EndpointAnswer, Poster
from sqew.errors import DeliveryFailed
from tests.background.webhooks.posters import BODY, JSON, posting
from tests.support.endpoint import (
    OK,
    Behaviour,
    Hook,
    drips,
    endless_body,
    endless_chunks,
    endless_header,
    endless_headers,
    endless_interims,
    endpoint,
    hangs_up,
    resets,
    says,
    stalls,
    status,
)


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


# What goes out


def test_the_endpoint_gets_body_and_headers(hook, run):
    answer = run(lambda poster: poster.post(hook.url("/plain?a=1", "hook.example"), BODY, JSON))

    request = hook.received("/plain?a=1")[-1]
    assert isinstance(answer, EndpointAnswer)
    assert answer.status == 200
    assert (request.method, request.body) == ("POST", BODY)
    assert request.headers == {
        "host": f"hook.example:{hook.port}",
        "content-length": str(len(BODY)),
        "content-type": "application/json",
        "user-agent": f"sqew/{sqew.__version__}",
    }


def test_a_user_agent_that_is_given_is_sent_instead(hook, run):
    run(lambda poster: poster.post(hook.url("/agent"), BODY, {"User-Agent": "Another/1"}))

    agents = [request.headers["user-agent"] for request in hook.received("/agent")]
    assert agents[-1] == "Another/1"


def test_a_large_body_arrives_whole(hook, run):
    body = bytes(range(256)) * 40_000

    # Sender and endpoint share one interpreter: at each of 150 full buffers they wait for each other's turn.
    run(posting(hook.url("/large"), body=body), timeout_s=60)

    assert hook.received("/large")[-1].body == body


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-a", "b\r\nx-evil: 1"), ("x-a", "b\0"), ("x-a", "\u20ac"), ("x a", "b"), ("", "b"), ("é", "")],
)
def test_a_header_that_would_be_another_is_refused(hook, run, name, value):
    with pytest.raises(DeliveryFailed, match="has a character that HTTP can't carry"):
        run(lambda poster: poster.post(hook.url("/header"), BODY, {name: value}))

    assert hook.received("/header") == []


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "connection"])
def test_headers_of_the_connection_are_not_for_others_to_set(hook, run, name):
    with pytest.raises(DeliveryFailed, match=f"The header '{name}' belongs to the connection"):
        run(lambda poster: poster.post(hook.url("/header"), BODY, {name: "1"}))


# Answers


@pytest.mark.parametrize("code", [200, 201, 202, 204, 304, 400, 404, 410, 429, 500, 503])
def test_every_status_is_an_answer(hook, run, code):
    hook.does("/status", status(code))

    assert run(posting(hook.url("/status"))) == [code]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(hook, run, code):
    hook.does("/moved", status(code, location=hook.url("/elsewhere")))

    assert run(posting(hook.url("/moved"))) == [code]
    assert hook.received("/elsewhere") == []


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nupgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_an_answer_may_be_framed_in_any_way(hook, run, raw):
    hook.does("/framed", says(raw, goes_on=False))

    assert run(posting(hook.url("/framed"))) == [200]


@pytest.mark.parametrize("endless", [endless_body, endless_chunks])
def test_a_body_without_end_is_cut_off_and_its_status_counts(hook, run, endless):
    hook.does("/endless", endless)

    assert run(posting(hook.url("/endless"))) == [200]


@pytest.mark.parametrize("endless", [endless_headers, endless_header, endless_interims])
def test_headers_without_end_are_refused(hook, run, endless):
    hook.does("/endless", endless)

    with pytest.raises(DeliveryFailed, match="more than 65536 bytes of headers"):
        run(posting(hook.url("/endless")))


@pytest.mark.parametrize(("size", "is_fine"), [(65_000, True), (66_000, False)])
def test_headers_have_64_kib_at_most(hook, run, size, is_fine):
    raw = b"HTTP/1.1 200 OK\r\nx-more: %b\r\ncontent-length: 0\r\n\r\n" % (b"y" * size)
    hook.does("/headers", says(raw, goes_on=False))

    if is_fine:
        assert run(posting(hook.url("/headers"))) == [200]
    else:
        with pytest.raises(DeliveryFailed, match="bytes of headers"):
            run(posting(hook.url("/headers")))


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"220 mail.example ESMTP\r\n",
        b"\x00\x01\x02\x03",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot a size\r\n",
    ],
)
def test_an_answer_that_is_not_http_is_a_failure(hook, run, raw):
    hook.does("/garbage", says(raw))

    with pytest.raises(DeliveryFailed, match=rf"^127\.0\.0\.1:{hook.port} gave an answer that is not HTTP/1\.1 \("):
        run(posting(hook.url("/garbage")))


def test_another_protocol_is_not_gone_on_with(hook, run):
    hook.does("/switch", says(b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n"))

    with pytest.raises(DeliveryFailed, match="wants to go on in another protocol"):
        run(posting(hook.url("/switch")))


@pytest.mark.parametrize(
    ("behaviour", "how"),
    [
        (hangs_up, "closed the connection without an answer"),
        (resets, "reset the connection without an answer"),
        (says(OK[:10], goes_on=False), "closed the connection in the middle of its answer"),
        (says(OK[:-1], goes_on=False), "closed the connection in the middle of its answer"),
    ],
)
def test_a_connection_that_breaks_is_a_failure(hook, run, behaviour: Behaviour, how):
    hook.does("/breaks", behaviour)

    with pytest.raises(DeliveryFailed, match=rf"^127\.0\.0\.1:{hook.port} {how}"):
        run(posting(hook.url("/breaks")))


@pytest.mark.parametrize("behaviour", [resets, hangs_up])
def test_a_connection_that_breaks_while_the_body_goes_out_is_a_failure(hook, run, behaviour):
    hook.does_unread("/unread", behaviour)

    with pytest.raises(DeliveryFailed, match="the connection without an answer"):
        run(posting(hook.url("/unread"), body=bytes(20_000_000)))


def test_an_answer_before_the_body_was_read_is_an_answer(hook, run):
    hook.does_unread("/early", says(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"))

    async def scenario(poster: Poster) -> list[int]:
        first = await poster.post(hook.url("/early"), bytes(20_000_000), JSON)
        second = await poster.post(hook.url("/after"), BODY, JSON)
        return [first.status, second.status]

    assert run(scenario) == [413, 200]


# Time


@pytest.mark.parametrize("behaviour", [stalls, drips, says(OK[:40]), says(OK[:-3])])
def test_an_answer_that_takes_too_long_is_a_failure(hook, run, behaviour):
    hook.does("/slow", behaviour)
    began = time.monotonic()

    with pytest.raises(DeliveryFailed, match=r"did not answer within 0\.3 s"):
        run(posting(hook.url("/slow")), timeout_s=0.3)

    # uvloop counts in whole milliseconds, from when its turn began.
    assert 0.295 <= time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("raw", "answered"),
    [
        (OK[:-1], 200),
        (b"HTTP/1.1 200 OK\r\n\r\nendless", 200),
        (b"HTTP/1.1 503 So\r\ntransfer-encoding: chunked\r\n\r\n5\r\nsorry\r\n", 503),
    ],
    ids=["one byte short", "without an end", "a chunk to come"],
)
def test_an_answer_whose_body_stalls_was_not_counted_by_its_status(hook, run, raw, answered):
    hook.does("/stalled", says(raw))
    hook.does("/next", says(OK))

    assert run(posting(hook.url("/stalled"), hook.url("/next")), timeout_s=0.3) == [answered, 200]
    (stalled, following) = (hook.received(path)[-1] for path in ("/stalled", "/next"))
    assert stalled.connection != following.connection


@pytest.mark.parametrize(("first", "second"), [(200, 500), (500, 200)])
def test_of_two_answers_in_one_packet_the_second_one_counted(hook, run, first, second):
    raw = "".join(f"HTTP/1.1 {code} So\r\ncontent-length: 0\r\n\r\n" for code in (first, second))
    hook.does("/twice", says(raw.encode()))

    assert run(posting(hook.url("/twice"))) == [first]


def test_a_reader_that_stops_is_a_failure(hook, run):
    hook.does_unread("/unread", stalls)

    with pytest.raises(DeliveryFailed, match=r"did not answer within 0\.3 s"):
        run(posting(hook.url("/unread"), body=bytes(20_000_000)), timeout_s=0.3)


def test_a_name_that_is_not_resolved_in_time_is_a_failure(run):
    answered = threading.Event()

    def lookup(_: str) -> list[str]:
        answered.wait(10)
        return ["127.0.0.1"]

    with pytest.raises(DeliveryFailed, match=r"hook\.example could not be reached within 0\.2 s"):
        run(posting("http://hook.example/"), timeout_s=0.2, lookup=lookup)
    answered.set()


def test_a_slow_endpoint_does_not_hold_up_another(hook, run):
    hook.does("/stalls", stalls)

    async def scenario(poster: Poster) -> int:
        slow = [asyncio.create_task(poster.post(hook.url("/stalls"), BODY, JSON)) for _ in range(50)]
        answers = [await poster.post(hook.url("/fast"), BODY, JSON) for _ in range(20)]
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return len(answers)

    assert run(scenario) == 20


def test_how_long_it_took_is_told(hook, run):
    hook.does("/drips", drips)

    answer = run(lambda poster: poster.post(hook.url("/drips"), BODY, JSON))

    assert answer.took_s > 0.01 * len(OK) * 0.9
