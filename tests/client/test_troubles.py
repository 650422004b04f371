"""Errors of a client whose server is missing, goes away, or is not a Sqew server."""

import asyncio
import inspect
import socket
import subprocess
import sys
import threading

import pytest

from sqew import AsyncClient, Client, NewMessage, Queue
from sqew.client import calls
from sqew.client.address import address_of
from sqew.client.retries import Patience
from sqew.errors import (
    BadValue,
    Forbidden,
    NoAnswer,
    NotSqew,
    OutcomeUnknown,
    RequestTimeout,
    StoreBusy,
    StoreClosed,
    StoreUnavailable,
    Unauthorized,
    Unreachable,
)
from tests.client.clients import connect, servers, shared_server
from tests.support.canned_server import CannedServer
from tests.support.serving import serving

__all__ = ["connect", "servers", "shared_server"]

MANY = 100
"""Retries enough for a server to start, however busy the machine is."""


SENT = (201, b'{"messages":[{"message_id":1}]}')
BUSY = (503, b'{"error":{"code":"store_busy","message":"The file is locked."}}', ("Retry-After", "0"))


def test_a_server_that_is_not_there_is_unreachable(connect):
    q = connect("http://127.0.0.1:1", retries=1)

    with pytest.raises(Unreachable, match=r"There is no server at http://127\.0\.0\.1:1"):
        q.info("orders")


def test_a_server_without_https_is_told_from_one_that_is_not_there(connect, shared_server):
    q = connect(shared_server.url.replace("http:", "https:"), retries=0)

    with pytest.raises(Unreachable, match="There is no safe connection"):
        q.info("orders")


def test_a_request_waits_for_a_server_that_is_being_restarted(connect, tmp_path, monkeypatch):
    refused = threading.Event()
    pause = Patience.pause

    def noticed(*given):
        refused.set()
        return pause(*given)

    monkeypatch.setattr(Patience, "pause", noticed)
    with serving(tmp_path) as server:
        q = connect(server.url, retries=MANY)
        q.create("orders")
        port = str(server.port)
        server.stop()

    done = threading.Event()

    def restart():
        refused.wait()
        with serving(tmp_path, "--port", port, db=server.db):
            done.wait()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        id = q.enqueue("orders", 1)
        message = q.claim("orders")
    finally:
        done.set()
        restarting.join()

    assert message.id == id


@pytest.mark.parametrize(
    ("ask", "route"),
    [
        (lambda q: q.enqueue("orders", 1, key="k"), "POST /queues/orders/messages"),
        (lambda q: q.claim("orders"), "POST /queues/orders/poll"),
        (lambda q: q.info("orders"), "GET /queues/orders"),
        (lambda q: q.create("orders"), "POST /queues"),
    ],
)
def test_what_does_no_harm_is_asked_again_when_no_answer_came(connect, ask, route):
    with CannedServer(None) as server:
        with pytest.raises(NoAnswer):
            ask(connect(server.url, retries=2))

        assert server.asked == [route] * 3


@pytest.mark.parametrize(
    ("ask", "route"),
    [
        (lambda q: q.enqueue("orders", 1), "POST /queues/orders/messages"),
        (lambda q: q.ack(1, "w", queue="orders"), "POST /queues/orders/ack"),
        (lambda q: q.purge("orders"), "POST /queues/orders/purge"),
        (lambda q: q.delete("orders"), "DELETE /queues/orders"),
    ],
)
def test_what_may_have_been_done_is_not_asked_for_twice(connect, ask, route):
    with CannedServer(None) as server:
        with pytest.raises(NoAnswer, match="may have done what was asked or not"):
            ask(connect(server.url, retries=2))

        assert server.asked == [route]


def test_what_the_server_could_not_do_just_now_is_asked_for_again(connect):
    with CannedServer(BUSY, BUSY, SENT) as server:
        id = connect(server.url).enqueue("orders", 1)

        assert (id, len(server.asked)) == (1, 3)


def test_what_a_server_refused_that_an_upgrade_has_overtaken_is_asked_of_the_next(connect):
    overtaken = (503, b'{"error":{"code":"store_too_new","message":"It is about to end."}}', ("Retry-After", "0"))
    with CannedServer(overtaken, SENT) as server:
        id = connect(server.url).enqueue("orders", 1)

        assert (id, len(server.asked)) == (1, 2)


UNKNOWN = (503, b'{"error":{"code":"outcome_unknown","message":"Nobody knows."}}')


@pytest.mark.parametrize(("first", "known"), [(UNKNOWN, OutcomeUnknown), (None, NoAnswer)])
def test_a_send_that_may_have_been_done_was_said_not_to_be_after_it_was_repeated(connect, first, known):
    with CannedServer(first, BUSY) as server:
        q = connect(server.url, retries=2)

        with pytest.raises(known):
            q.enqueue("orders", 1, key="k")

        assert len(server.asked) == 3


def test_who_only_looks_is_told_what_the_last_look_met(connect):
    with CannedServer(UNKNOWN, BUSY) as server, pytest.raises(StoreBusy):
        connect(server.url, retries=2).info("orders")


def test_what_was_certainly_not_done_in_any_try_is_told_as_the_last_one_met_it(connect):
    away = (503, b'{"error":{"code":"store_unavailable","message":"It is away."}}', ("Retry-After", "0"))
    with CannedServer(BUSY, away) as server, pytest.raises(StoreUnavailable):
        connect(server.url, retries=2).enqueue("orders", 1, key="k")


def test_a_server_that_stays_busy_is_told_of_in_the_end(connect):
    with CannedServer(BUSY) as server:
        with pytest.raises(StoreBusy, match="The file is locked"):
            connect(server.url, retries=1).enqueue("orders", 1)

        assert len(server.asked) == 2


@pytest.mark.parametrize(
    "answer", [(200, b"<html>"), (404, b"not found"), (404, b'{"error": "gone"}'), (302, b""), (200, b"[1]")]
)
def test_an_answer_of_another_kind_is_not_from_a_sqew_server(connect, answer):
    with CannedServer(answer) as server:
        with pytest.raises(NotSqew, match="does not answer as a Sqew server does"):
            connect(server.url).info("orders")

        assert len(server.asked) == 1


def test_an_error_of_a_newer_server_keeps_its_code(connect):
    with CannedServer((418, b'{"error":{"code":"teapot","message":"Make tea."}}')) as server:
        with pytest.raises(Exception, match="Make tea") as refused:
            connect(server.url).info("orders")

        assert refused.value.code == "teapot"


def test_an_export_that_is_cut_off_says_so(connect):
    with CannedServer((200, b'{"body":1}\n{"bo')) as server:
        lines = connect(server.url).export("orders")

        assert next(lines) == b'{"body":1}\n'
        with pytest.raises(NoAnswer, match="in the middle of a line"):
            next(lines)


def test_a_server_that_does_not_answer_is_given_up_in_time(connect):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        q = connect(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_seconds=0.1, retries=0)

        with pytest.raises(RequestTimeout, match="did not answer in time"):
            q.info("orders")


def connections(listening):
    """Return the number of connections that were made."""
    listening.setblocking(False)
    count = 0
    while True:
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


@pytest.mark.parametrize(
    ("ask", "times"), [(lambda q: q.info("orders"), 2), (lambda q: q.enqueue("orders", 1), 1)], ids=["info", "enqueue"]
)
def test_a_request_that_timed_out_was_not_tried_again_though_it_did_no_harm(connect, ask, times):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        q = connect(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_seconds=0.1, retries=1)

        with pytest.raises(RequestTimeout):
            ask(q)

        assert connections(silent) == times


def test_the_pause_before_the_thousandth_try_overflowed():
    pause = Patience(5_000).pause(calls.health(), Unreachable("no server"), 4_999)

    assert 0 < pause <= 2


@pytest.mark.parametrize("status", [200, 502])
def test_an_answer_that_could_not_be_unpacked_was_an_error_of_the_http_library(connect, status):
    with CannedServer((status, b"abc", ("Content-Encoding", "gzip"))) as server, pytest.raises(NotSqew):
        connect(server.url, retries=0).info("orders")


def test_a_retry_after_that_is_no_number_was_an_error_of_its_own(connect):
    limited = (429, b'{"error":{"code":"rate_limited","message":"Slow down."}}', ("Retry-After", "\xb2"))
    with CannedServer(limited) as server, pytest.raises(Exception, match="Slow down") as refused:
        connect(server.url, retries=0).info("orders")

    assert refused.value.code == "rate_limited"


@pytest.mark.parametrize(
    ("answer", "ask"),
    [
        (b'{"messages":[]}', lambda q: q.enqueue("orders", 1)),
        (b'{"messages":[{"message_id":1}]}', lambda q: q.enqueue_many("orders", [1, 2])),
        (b'{"results":[]}', lambda q: q.ack(1, "w", queue="orders")),
        (b'{"results":[]}', lambda q: q.ack_many([1], "w", queue="orders")),
    ],
)
def test_an_answer_with_too_few_entries_was_taken_for_success(connect, answer, ask):
    with CannedServer((200, answer)) as server, pytest.raises(NotSqew):
        ask(connect(server.url))


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_switched_a_limit_off(connect, shared_server, number):
    q = connect(shared_server.url)
    q.create("limited-by-number", exist_ok=True, rate_limit=5.0)

    with pytest.raises(BadValue, match="NaN or infinity"):
        q.update("limited-by-number", rate_limit=number)

    assert q.info("limited-by-number").policy.rate_limit == 5.0
    q.delete("limited-by-number")


@pytest.mark.parametrize(
    "options",
    [
        {"token": 7},
        {"signing_secret": None},
        {"timeout_seconds": 0},
        {"timeout_seconds": "5"},
        {"retries": -1},
        {"retries": 1.5},
        {"tls": "yes"},
    ],
)
def test_a_client_was_made_with_what_it_could_not_use(connect, options):
    with pytest.raises(BadValue):
        connect("http://127.0.0.1:1", **options)


@pytest.mark.parametrize(
    "ask",
    [
        lambda q: q.remove("orders", 5),
        lambda q: q.remove("orders", "12"),
        lambda q: q.ack_many(id for id in (1, 2)),
        lambda q: q.queues(5),
        lambda q: q.enqueue("orders", NewMessage(b"1")),
    ],
)
def test_what_the_embedded_queue_refuses_was_an_error_of_python(connect, ask):
    with pytest.raises(BadValue):
        ask(connect("http://127.0.0.1:1", retries=0))


@pytest.mark.parametrize(
    ("variable", "value"),
    [("SSL_CERT_FILE", "/nonexistent"), ("ALL_PROXY", "socks5://127.0.0.1:1"), ("HTTP_PROXY", "ftp://127.0.0.1:1")],
)
def test_a_variable_of_the_environment_that_was_wrong_was_an_error_of_the_http_library(
    connect, monkeypatch, variable, value
):
    monkeypatch.setenv(variable, value)

    with pytest.raises(BadValue, match=variable):
        connect("http://127.0.0.1:1", retries=0)


def test_a_request_of_a_client_that_was_closed_meanwhile_was_an_error_of_the_http_library(monkeypatch):
    refused = threading.Event()
    pause = Patience.pause

    def noticed(*given):
        refused.set()
        return pause(*given)

    monkeypatch.setattr(Patience, "pause", noticed)
    q = Client("http://127.0.0.1:1", retries=MANY)
    ends = []

    def ask():
        try:
            q.info("orders")
        except StoreClosed as error:
            ends.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    refused.wait()
    q.close()
    asking.join()

    assert ends == ["The client was closed. Make a new one."]


def test_a_request_of_an_async_client_that_was_closed_meanwhile_was_an_error_of_the_http_library():
    async def close_meanwhile():
        q = AsyncClient("http://127.0.0.1:1", retries=MANY)
        asking = asyncio.create_task(q.info("orders"))
        await asyncio.sleep(0)
        await q.close()
        await asking

    with pytest.raises(StoreClosed, match="The client was closed"):
        asyncio.run(close_meanwhile())


def test_a_client_that_was_closed_says_so(connect, shared_server):
    q = connect(shared_server.url)
    q.close()

    with pytest.raises(StoreClosed, match="The client was closed"):
        q.queues()


def test_the_token_and_the_url_may_come_from_the_environment(connect, tmp_path, monkeypatch):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "secret"}) as server:
        with pytest.raises(Unauthorized):
            connect(server.url).queues()

        monkeypatch.setenv("SQEW_URL", server.url)
        monkeypatch.setenv("SQEW_AUTH_TOKEN", "secret")

        assert connect(None).queues() == []


def test_a_key_opens_its_queue_alone(connect, tmp_path):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "secret"}) as server:
        q = connect(server.url, token="secret")
        q.create("orders")
        info, key, secret = q.create_key("orders", ["send"], "the shop")
        sender = connect(server.url, token=key)

        assert sender.enqueue("orders", 1) > 0
        with pytest.raises(Forbidden):
            sender.claim("orders")
        assert (q.keys("orders"), secret) == ([info], None)
        q.delete_key("orders", info.id)
        assert q.keys("orders") == []


def test_a_key_that_wants_its_requests_signed_is_used_with_its_secret(connect, tmp_path):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "secret"}) as server:
        q = connect(server.url, token="secret")
        q.create("orders")
        _, key, secret = q.create_key("orders", ["send", "receive"], signing=True)
        signer = connect(server.url, token=key, signing_secret=secret)

        signer.enqueue("orders", 1)
        signer.enqueue("orders", 1)

        assert len(signer.claim_many("orders", 2, consumer="a b", wait_seconds=1)) == 2
        with pytest.raises(Unauthorized):
            connect(server.url, token=key).enqueue("orders", 2)


def test_a_server_at_a_unix_socket_is_reached(connect, tmp_path):
    with serving(tmp_path, "--unix-socket", str(tmp_path / "s")) as server:
        q = connect(server.url)
        q.create("orders")

        assert [info.name for info in q.queues()] == ["orders", "orders-dlq"]


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://localhost:8888/", "http://localhost:8888"),
        ("localhost:8888", "http://localhost:8888"),
        ("https://queue.example.org/sqew/", "https://queue.example.org/sqew"),
        ("http://[::1]:8888", "http://[::1]:8888"),
    ],
)
def test_a_url_may_be_written_in_several_ways(given, base):
    assert address_of(given).base == base


@pytest.mark.parametrize("given", ["", " ", "ftp://x", "http://", "http://a:b", "http://a/?x=1", "unix:", None, 7])
def test_what_is_no_url_is_refused(given):
    with pytest.raises(BadValue):
        address_of(given)


@pytest.mark.parametrize("given", ["http://a..b", f"http://{'x' * 64}.org", "http://a b"])
def test_a_host_that_none_can_be_called_was_an_error_of_python(given):
    with pytest.raises(BadValue):
        address_of(given)


@pytest.mark.parametrize(
    "given", ["http://user:sEcret@host", "http://:sEcret@host", "user:sEcret@host:1", "http://u:sEcret#x@host"]
)
def test_a_password_in_a_url_was_shown(given):
    with pytest.raises(BadValue, match="no user and no password") as refused:
        address_of(given)

    assert "sEcret" not in str(refused.value)


def methods(kind):
    return {name: method for name, method in vars(kind).items() if not name.startswith("_") and callable(method)}


def test_both_clients_have_the_same_methods_with_the_same_parameters():
    ours, theirs = methods(Client), methods(AsyncClient)
    # A task is cancelled, a thread must look up by itself.
    del ours["wake_waiters"]

    def parameters(method):
        taken = inspect.signature(method).parameters.values()
        return [(p.name, p.kind, p.default) for p in taken if p.name != "stopping"]

    assert {name: parameters(method) for name, method in ours.items()} == {
        name: parameters(method) for name, method in theirs.items()
    }


def test_a_client_takes_what_the_embedded_queue_takes():
    only_on_the_file = {"open", "transaction", "backup", "check", "maintain", "redrive"}
    for name, method in methods(Queue).items():
        if name in only_on_the_file:
            continue
        taken = inspect.signature(getattr(Client, name)).parameters
        for parameter in inspect.signature(method).parameters.values():
            assert taken[parameter.name].default == parameter.default, (name, parameter.name)


def test_importing_sqew_does_not_load_the_client():
    code = "import sys, sqew; assert 'sqew.client' not in sys.modules; sqew.Client; assert 'sqew.client' in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_client_for_threads_does_not_load_the_loop():
    code = "import sys, sqew; sqew.Client('http://127.0.0.1:1').close(); assert 'asyncio' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
