"""Request lanes: requests that come in one tick are handled together, and are answered as if each were alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import json
import re
import socket
import struct
import time
import weakref

import apsw
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sqew.envelopes.request_signature import NewKey, new_key, signature
from sqew.errors import StoreUnavailable
from sqew.ids import MessageUuids
from sqew.model import KeyScope, NewMessage, Policy
from sqew.observe.log import logging_to_stderr
from sqew.operations import Ack, CreateQueue, DeleteKey, Receive, Send
from tests.http.one_tick import (
    AWS_SEND,
    LOOPS,
    SEND,
    UUIDS,
    Place,
    Sent,
    ack,
    answer_on,
    aws_plain,
    both,
    held,
    native,
    native_delete,
    place,
    plain,
    run,
    sizes,
)
from tests.support.postgres import new_database


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


# They are one operation, and every answer belongs to its request


@pytest.mark.parametrize("loop", LOOPS)
def test_sends_of_one_tick_are_one_operation_and_each_is_told_its_own_message(tmp_path, loop):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            answers = await here.at_once([plain({"from": number}) for number in range(50)])
            assert sizes(here) == [(Send, 50)]
            return answers, {id: json.loads(body) for id, body, *_ in await here.stored()}

    answers, stored = run(story, loop)

    assert [answer.status for answer in answers] == [201] * 50
    assert [stored[answer.json["message_id"]] for answer in answers] == [{"from": number} for number in range(50)]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 50


@pytest.mark.parametrize("loop", LOOPS)
def test_messages_sent_by_sqs_in_one_tick_have_their_own_checksums_and_ids(tmp_path, loop):
    texts = [f"from {number}" for number in range(50)]

    async def story():
        async with place(tmp_path / "queue.db") as here:
            answers = await here.at_once([aws_plain(text) for text in texts])
            assert sizes(here) == [(Send, 50)]
            return answers, {UUIDS.text(id): body.decode() for id, body, *_ in await here.stored()}

    answers, stored = run(story, loop)

    assert [answer.status for answer in answers] == [200] * 50
    assert [stored[answer.json["MessageId"]] for answer in answers] == texts
    assert [answer.json["MD5OfMessageBody"] for answer in answers] == [md5(text) for text in texts]
    assert [answer.headers["x-amzn-requestid"] for answer in answers] == [
        answer.headers["x-request-id"] for answer in answers
    ]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 50


@pytest.mark.parametrize("loop", LOOPS)
def test_acks_of_one_tick_are_one_operation_and_each_is_told_of_its_own_message(tmp_path, loop):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            mine = await held(here, 20)
            answers = await here.at_once([ack(id, token if id % 3 else "stale") for id, token in mine])
            assert sizes(here) == [(Ack, 20)]
            return mine, answers, {id for id, *_ in await here.stored()}

    mine, answers, left = run(story, loop)

    assert [answer.status for answer in answers] == [200 if id % 3 else 409 for id, _ in mine]
    assert [answer.json["id"] for answer in answers if answer.status == 200] == [id for id, _ in mine if id % 3]
    assert left == {id for id, _ in mine if not id % 3}


@pytest.mark.parametrize("loop", LOOPS)
def test_deletes_of_one_tick_are_one_operation_and_each_is_told_of_its_own_message(tmp_path, loop):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            mine = [id for id, _ in await held(here, 20)]
            [(other, _)] = await held(here, 1, "others")
            answers = await here.at_once([native_delete(id) for id in [*mine, 1 << 40, other]])
            assert sizes(here) == [(Ack, 22)]
            twice = await here.at_once([native_delete(other, queue="others")] * 2)
            return answers, twice, await here.stored(), await here.stored("others"), len(here.server.known_heads)

    answers, twice, left, left_elsewhere, known = run(story, loop)

    assert [(answer.status, answer.body) for answer in answers[:20]] == [(204, b"")] * 20
    assert [answer.headers["x-sqew-error"] for answer in answers[20:]] == ["message_not_found"] * 2
    assert len({answer.headers["x-request-id"] for answer in answers}) == 22
    assert sorted(answer.status for answer in twice) == [204, 404]
    assert (left, left_elsewhere) == ([], [])
    # Heads that come once would have others be forgotten.
    assert known == 0


def test_deletes_from_a_fifo_queue_by_its_bare_name_go_by_themselves_in_the_end(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            await here.broker.run(CreateQueue("line.fifo", Policy(fifo=True)))
            await here.broker.send("line.fifo", [NewMessage(b"%d" % number, group="g") for number in range(3)])
            ids = [message[0] for message in await here.stored("line.fifo")]
            answers = await here.at_once([native_delete(id, queue="line") for id in ids])
            return answers, await here.stored("line.fifo")

    answers, left = run(story)

    assert [answer.status for answer in answers] == [204] * 3
    assert left == []


def test_sends_and_acks_of_one_tick_to_several_queues_are_one_transaction(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            mine = await held(here, 3)
            sends = [plain(number, queue) for queue in ("orders", "others") for number in range(3)]
            answers = await here.at_once([*sends, *(ack(*one) for one in mine)])
            assert sorted(sizes(here), key=str) == [(Ack, 3), (Send, 3), (Send, 3)]
            assert here.transactions == 1
            return answers, await here.stored("orders"), await here.stored("others")

    answers, orders, others = run(story)

    assert [answer.status for answer in answers] == [201] * 6 + [200] * 3
    assert [id for id, *_ in orders] == [answer.json["message_id"] for answer in answers[:3]]
    assert [id for id, *_ in others] == [answer.json["message_id"] for answer in answers[3:6]]


def test_more_than_go_together_are_all_answered(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", max_batch=7) as here:
            answers = await here.at_once([plain(number) for number in range(40)])
            assert (Send, 7) in sizes(here)
            return answers, {id: json.loads(body) for id, body, *_ in await here.stored()}

    answers, stored = run(story)

    assert [stored[answer.json["message_id"]] for answer in answers] == list(range(40))


# Nothing differs


@pytest.mark.parametrize(
    "policy",
    [
        Policy(quota=5),
        Policy(max_body_bytes=1),
        Policy(deduplicate="content"),
        Policy(deduplicate="content", quota=5),
        Policy(lanes={"slow": 1, "quick": 2}, delay_ms=500, ttl_ms=60_000),
        Policy(keep="archive"),
    ],
)
def test_whatever_the_policy_is_sends_are_answered_as_one_by_one(tmp_path, policy):
    requests = [plain(number // 2) for number in range(24)]

    answers = run(lambda: both(tmp_path, requests, policy))

    assert 201 in {answer.status for answer in answers}


@pytest.mark.parametrize("policy", [Policy(), Policy(delay_ms=60_000)])
@pytest.mark.parametrize(
    ("more", "together"),
    [
        ({"delay": 0, "headers": None}, True),
        ({"delay": None, "headers": None}, True),
        ({"delay": 0}, True),
        ({"delay": 0.5}, False),
        ({"headers": {"a": 1}}, False),
        ({"group_id": None}, False),
    ],
    ids=str,
)
def test_sends_that_say_there_is_no_more_to_say_go_together(tmp_path, policy, more, together):
    async def story():
        async with place(tmp_path / "queue.db", policy) as here:
            answers = await here.at_once([native(number, **more) for number in range(9)])
            done = sizes(here)
            return answers, done, (await here.broker.stats("orders")).depths.total("delayed")

    answers, done, delayed = run(story)

    assert [answer.status for answer in answers] == [201] * 9
    assert done == ([(Send, 9)] if together else [(Send, 1)] * 9)
    # What is said of the delay goes before the policy's.
    assert delayed == (9 if more.get("delay") is None and policy.delay_ms else 9 if more.get("delay") else 0)


def test_sends_some_of_which_have_no_delay_are_answered_as_one_by_one(tmp_path):
    requests = [native(number, **({"delay": 0} if number % 2 else {})) for number in range(12)]

    answers = run(lambda: both(tmp_path, requests, Policy(delay_ms=60_000)))

    assert [answer.status for answer in answers] == [201] * 12


def test_messages_to_a_fifo_queue_stand_in_the_order_in_which_they_came(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            await here.broker.run(CreateQueue("line.fifo", Policy(fifo=True)))
            answers = await here.at_once([plain(number, "line.fifo") for number in range(20)])
            received = await here.broker.receive(Receive("line.fifo", 20))
            return answers, [(message.id, json.loads(message.body)) for message in received.messages]

    answers, received = run(story)

    assert received == [(answer.json["message_id"], number) for number, answer in enumerate(answers)]
    assert [id for id, _ in received] == sorted(id for id, _ in received)


# What was found to differ


def test_a_field_that_stands_twice_is_refused_even_beside_one_with_an_escaped_name(tmp_path):
    requests = [Sent(SEND, b'{"payload":1,"payload":2}'), Sent(SEND, b'{"p\\u0061yload":3}')]

    answers = run(lambda: both(tmp_path, requests))

    assert [answer.status for answer in answers] == [400, 201]


@pytest.mark.parametrize("send", [plain, native, aws_plain])
def test_a_burst_of_single_sends_is_no_batch_for_a_rate_limit(tmp_path, send):
    async def story():
        async with place(tmp_path / "queue.db", Policy(rate_limit=4)) as here:
            return await here.at_once([send(number) for number in range(20)]), await here.stored()

    answers, stored = run(story)

    assert [answer.headers.get("x-sqew-error") for answer in answers] == [None] * 4 + ["rate_limited"] * 16
    assert len(stored) == 4


@pytest.mark.parametrize("send", [plain, native, aws_plain])
def test_of_a_burst_of_sends_no_more_are_let_in_than_max_pending_says(tmp_path, send):
    async def story():
        async with place(tmp_path / "queue.db", max_pending=5) as here:
            burst = await here.at_once([send(number) for number in range(20)])
            few = await here.at_once([send(number) for number in range(6)])
            assert sizes(here) == [(Send, 6)]
            return burst, few

    burst, few = run(story)

    assert [answer.headers.get("x-sqew-error") for answer in burst] == [None] * 6 + ["overloaded"] * 14
    assert [answer.headers.get("x-sqew-error") for answer in few] == [None] * 6


def test_one_damaged_row_among_those_that_are_acked_is_mended(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            mine = await held(here, 4)
            with contextlib.closing(apsw.Connection(str(tmp_path / "queue.db"))) as other:
                spoil = "UPDATE sqew_message SET leased_by = CAST(x'ff61' AS TEXT) WHERE id = ?"
                other.execute(spoil, (mine[1][0],))
            return await here.at_once([ack(*one) for one in mine]), await here.stored()

    answers, stored = run(story)

    assert [answer.status for answer in answers] == [200, 200, 200, 200]
    assert not stored


def test_where_not_all_fit_into_the_file_those_that_do_are_kept(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            connection = here.engine.store.connection
            connection.pragma("max_page_count", connection.pragma("page_count") + 10)
            answers = await here.at_once([plain("x" * 3_500) for _ in range(40)])
            return answers, await here.stored()

    answers, stored = run(story)

    assert {answer.status for answer in answers} == {201, 507}
    assert len(stored) == sum(answer.status == 201 for answer in answers) < 40


def test_a_server_that_has_known_heads_can_be_freed(tmp_path):
    async def use():
        async with place(tmp_path / "queue.db") as here:
            await here.at_once([plain(number) for number in range(3)])
            return weakref.ref(here.server)

    async def story():
        server = await use()
        await asyncio.sleep(0)
        gc.collect()
        return server()

    assert run(story) is None


# What may come in between


def test_a_store_that_is_busy_refuses_them_all_and_keeps_none(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", busy_timeout_ms=20) as here:
            await here.know([plain(1)])
            with contextlib.closing(apsw.Connection(str(tmp_path / "queue.db"))) as other:
                other.execute("BEGIN IMMEDIATE")
                refused = await here.at_once([plain(number) for number in range(5)])
            taken = await here.at_once([plain(number) for number in range(5)])
            return refused, taken, await here.stored()

    refused, taken, stored = run(story)

    assert [answer.headers.get("x-sqew-error") for answer in refused] == ["store_busy"] * 5
    assert [id for id, *_ in stored] == [answer.json["message_id"] for answer in taken]


def test_where_nobody_knows_whether_they_were_stored_none_is_sent_a_second_time(tmp_path, monkeypatch):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            await here.know([plain(1)])
            store = here.engine.store
            commit = store.run

            def commit_unheard(operations, now):
                commit(operations, now)
                monkeypatch.undo()
                raise StoreUnavailable("The connection was lost during the commit.")

            monkeypatch.setattr(store, "run", commit_unheard)
            return await here.at_once([plain(number) for number in range(5)]), await here.stored()

    answers, stored = run(story)

    assert [answer.headers.get("x-sqew-error") for answer in answers] == ["store_unavailable"] * 5
    assert len(stored) == 5


class Forgetful(MessageUuids):
    """Ids that fail when an answer is made, after the commit."""

    def text(self, id: int) -> str:
        raise ZeroDivisionError(id)


def test_a_mistake_in_the_making_of_answers_is_told_to_each(tmp_path, caplog):
    async def story():
        async with place(tmp_path / "queue.db", uuids=Forgetful(0)) as here:
            requests = [aws_plain(number) for number in range(3)]
            answers = await here.at_once(requests)
            assert sizes(here) == [(Send, 3)]
            return answers, await here.stored()

    answers, stored = run(story)

    assert [answer.status for answer in answers] == [500] * 3
    assert all(answer.headers["x-request-id"] in answer.json["message"] for answer in answers)
    assert len(stored) == 3
    assert len([record for record in caplog.records if record.message.endswith("failed")]) == 3


@pytest.mark.parametrize("leave", ["reset", "close", "half-close"])
def test_a_client_that_leaves_in_mid_tick_takes_nobody_with_it(tmp_path, leave):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            requests = [plain(number) for number in range(4)]
            await here.know(requests)
            here.say(requests)
            leaver = here.client(1)
            if leave == "half-close":
                leaver.shutdown(socket.SHUT_WR)
            else:
                if leave == "reset":
                    leaver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                leaver.close()
            stay = [number for number in range(4) if number != 1 or leave == "half-close"]
            return stay, [await answer_on(here.client(number)) for number in stay], await here.stored()

    stay, answers, stored = run(story)
    bodies = {id: json.loads(body) for id, body, *_ in stored}

    assert [bodies[answer.json["message_id"]] for answer in answers] == stay


def test_what_is_pipelined_behind_a_request_is_answered_after_it(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            requests = [plain(number) for number in range(3)]
            await here.know(requests)
            here.say(requests)
            await asyncio.sleep(0)
            here.client(0).sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            received = b""
            while chunk := await asyncio.get_running_loop().sock_recv(here.client(0), 65_536):
                received += chunk
            return received

    statuses = re.findall(rb"HTTP/1\.1 (\d+)", run(story))

    assert statuses == [b"201", b"200"]


@pytest.mark.parametrize("end", ["drain", "close"])
def test_those_that_wait_when_the_server_ends_are_answered_and_kept(tmp_path, end):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            requests = [plain(number) for number in range(5)]
            await here.know(requests)
            here.say(requests)
            while not here.broker.backlog:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0)
            await (here.broker.close() if end == "close" else here.server.drain(5))
            return await here.hear(5)

    async def look():
        async with place(tmp_path / "queue.db") as here:
            return {id: json.loads(body) for id, body, *_ in await here.stored()}

    answers, stored = run(story), run(look)

    assert [answer.status for answer in answers] == [201] * 5
    assert [stored[answer.json["message_id"]] for answer in answers] == list(range(5))


def test_after_the_broker_was_closed_each_is_refused(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            requests = [plain(number) for number in range(5)]
            await here.know(requests)
            await here.broker.close()
            here.say(requests)
            return await here.hear(5)

    assert [answer.headers.get("x-sqew-error") for answer in run(story)] == ["store_closed"] * 5


# Polls, of which a head says everything


POLL = Sent("/queues/orders/poll?batch=1", b"")


def test_polls_of_one_tick_get_messages_of_their_own_and_the_later_ones_none(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            # Before there is anything to take: a poll can't be made known without being one.
            await here.know([POLL] * 7)
            await here.at_once([plain(number) for number in range(5)])
            return await here.at_once([POLL] * 7)

    found = [answer.json["messages"] for answer in run(story)]

    assert [len(messages) for messages in found] == [1] * 5 + [0] * 2
    assert [messages[0]["payload"] for messages in found[:5]] == list(range(5))
    assert len({messages[0]["token"] for messages in found[:5]}) == 5


def test_a_poll_is_remembered_with_all_that_its_url_says(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            two = Sent("/queues/orders/poll?batch=2&visibility_ms=60000&consumer=me", b"")
            bad = Sent("/queues/orders/poll?batch=0", b"")
            elsewhere = Sent("/queues/others/poll?batch=1", b"")
            nowhere = Sent("/queues/nowhere/poll?batch=1", b"")
            polls = [POLL, two, bad, elsewhere, nowhere]
            await here.know(polls)
            await here.at_once([plain(number) for number in range(6)])
            return [await here.at_once(polls) for _ in range(2)]

    for answers in run(story):
        assert [answer.status for answer in answers] == [200, 200, 400, 200, 404]
        assert [len(answers[place].json["messages"]) for place in (0, 1, 3)] == [1, 2, 0]


def test_a_poll_is_refused_as_soon_as_its_key_is_deleted(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", auth_token="token") as here:
            key = await key_of_orders(here, "receive")
            polls = [with_headers(POLL, Authorization=f"Bearer {key.key}")] * 3
            before = await here.at_once(polls)
            await here.broker.run(DeleteKey("orders", key.creation.id))
            await here.guard.keep_up()
            return before, await here.at_once(polls)

    before, after = run(story)

    assert [answer.status for answer in before] == [200] * 3
    assert [answer.status for answer in after] == [401] * 3


def test_after_the_broker_was_closed_polls_are_refused(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            await here.at_once([POLL] * 3)
            await here.broker.close()
            here.say([POLL] * 3)
            return await here.hear(3)

    assert [answer.headers.get("x-sqew-error") for answer in run(story)] == ["store_closed"] * 3


# Who may, and who wants to be told of each


def with_headers(request: Sent, **headers: str) -> Sent:
    more = ((name.replace("_", "-"), value) for name, value in headers.items())
    return request._replace(headers=(*request.headers, *more))


async def key_of_orders(here: Place, *scopes: KeyScope, signing: bool = False) -> NewKey:
    made = new_key("orders", scopes, signing=signing)
    await here.broker.run(made.creation)
    await here.guard.keep_up()
    return made


def test_who_has_a_key_goes_together_with_those_who_have_the_same_until_it_is_deleted(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", auth_token="token") as here:
            one, other = await key_of_orders(here, "send"), await key_of_orders(here, "send")
            opened = [
                with_headers(plain(number), Authorization=f"Bearer {key}")
                for key in ("token", one.key, other.key)
                for number in range(3)
            ]
            before = await here.at_once(opened)
            assert sizes(here) == [(Send, 3)] * 3
            await here.broker.run(DeleteKey("orders", one.creation.id))
            await here.guard.keep_up()
            return before, await here.at_once(opened), await here.stored()

    before, after, stored = run(story)

    assert [answer.status for answer in before] == [201] * 9
    assert [answer.status for answer in after] == [201] * 3 + [401] * 3 + [201] * 3
    assert len(stored) == 15


def test_a_key_that_does_not_allow_it_or_is_of_another_queue_or_none_at_all_opens_nothing(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", auth_token="token") as here:
            sender, receiver = await key_of_orders(here, "send"), await key_of_orders(here, "receive")
            requests = [
                with_headers(plain(1), Authorization=f"Bearer {sender.key}"),
                with_headers(plain(2), Authorization=f"Bearer {receiver.key}"),
                with_headers(plain(3, "others"), Authorization=f"Bearer {sender.key}"),
                with_headers(plain(4), Authorization="Bearer somebody"),
                plain(5),
            ]
            return await here.at_once(requests * 2), await here.stored()

    answers, stored = run(story)

    assert [answer.status for answer in answers] == [201, 403, 403, 401, 401] * 2
    assert [body for _, body, *_ in stored] == [b"1", b"1"]


def test_of_signed_requests_that_are_the_same_one_is_taken(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", auth_token="token") as here:
            made = await key_of_orders(here, "send", signing=True)
            request = plain(1)
            proof = signature(made.secret or "", time.time(), "POST", request.path, request.body)
            signed = with_headers(request, Authorization=f"Bearer {made.key}", X_Sqew_Signature=proof)
            return await here.at_once([signed] * 4), await here.stored()

    answers, stored = run(story)

    assert sorted(answer.status for answer in answers) == [201, 401, 401, 401]
    assert len(stored) == 1


def test_signatures_of_aws_are_checked_with_every_body(tmp_path):
    good, forged = aws_plain("good").body, aws_plain("evil").body
    kinds = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": AWS_SEND}
    signed = AWSRequest("POST", "http://localhost/", data=good, headers=kinds)
    SigV4Auth(Credentials("me", "secret"), "sqs", "us-east-1").add_auth(signed)
    head = tuple(signed.headers.items())

    async def story():
        async with place(tmp_path / "queue.db", aws_credentials="me:secret") as here:
            return await here.at_once([Sent("/", body, head) for body in (good, forged, good)]), await here.stored()

    answers, stored = run(story)

    assert [answer.status for answer in answers] == [200, 403, 200]
    assert [body for _, body, *_ in stored] == [b"good", b"good"]


@pytest.mark.parametrize(
    "requests",
    [
        [with_headers(plain(number), X_Request_Id=f"mine-{number}") for number in range(4)],
        [with_headers(plain(number), Idempotency_Key=f"{number // 2}") for number in range(4)],
        [with_headers(plain(number), Content_Type="text/plain") for number in range(4)],
        [with_headers(plain(number), Content_Type="application/vnd.mine+json; v=1") for number in range(4)],
        [with_headers(plain(number), Origin="https://elsewhere.example") for number in range(4)],
        [plain(number)._replace(path=f"{SEND}?lane=none") for number in range(4)],
        [plain(number)._replace(path="/queues/%6frders/messages") for number in range(4)],
    ],
    ids=["request id", "idempotency", "not JSON", "other JSON", "origin", "query", "escaped path"],
)
def test_whatever_their_heads_say_they_are_answered_as_one_by_one(tmp_path, requests):
    answers = run(lambda: both(tmp_path, requests))

    given = [dict(request.headers).get("X-Request-Id") for request in requests]
    assert all(id in (None, answer.headers["x-request-id"]) for id, answer in zip(given, answers, strict=True))


def test_where_origins_are_allowed_every_answer_says_so(tmp_path):
    origin = "https://console.example"
    requests = [with_headers(plain(number), Origin=origin) for number in range(4)]

    answers = run(lambda: both(tmp_path, requests, cors_origins=origin))

    assert [answer.headers["access-control-allow-origin"] for answer in answers] == [origin] * 4


@pytest.mark.parametrize("changes", [{"slow_ms": 0}, {"access_log": "all"}], ids=["slow", "all"])
def test_the_log_has_a_line_of_each(tmp_path, capfd, changes):
    async def story():
        async with place(tmp_path / "queue.db", **changes) as here:
            mine = await held(here, 2)
            return await here.at_once([*(ack(*one) for one in mine), plain(1), plain(22)])

    with logging_to_stderr("info", "json"):
        answers = run(story)
    lines = {
        line["request_id"]: line for line in map(json.loads, capfd.readouterr().err.splitlines()) if "route" in line
    }
    logged = [lines[answer.headers["x-request-id"]] for answer in answers]

    assert [line["route"] for line in logged] == ["/queues/{queue}/ack"] * 2 + ["/queues/{queue}/messages"] * 2
    assert [line["rows"] for line in logged] == [1] * 4
    assert [line["status"] for line in logged] == [200, 200, 201, 201]
    assert [line["bytes_out"] for line in logged] == [len(answer.body) for answer in answers]
    assert [line["bytes_in"] for line in logged[2:]] == [len(plain(1).body), len(plain(22).body)]


# On a database


def test_on_a_database_they_are_one_operation_and_each_is_told_its_own(tmp_path):
    async def story():
        async with place(tmp_path / "unused.db", database_url=url) as here:
            sends = [*(plain(number) for number in range(20)), *(aws_plain(number) for number in range(20))]
            sent = await here.at_once(sends)
            assert sizes(here) == [(Send, 20)] * 2
            stored = {id: body for id, body, *_ in await here.stored()}
            mine = await held(here, 10, "others")
            acked = await here.at_once([ack(id, token, "others") for id, token in [*mine, mine[0]]])
            assert sizes(here) == [(Ack, 11)]
            theirs = [id for id, _ in await held(here, 10, "others")]
            acked += await here.at_once([native_delete(id, queue="others") for id in theirs])
            assert sizes(here) == [(Ack, 10)]
            return sent, stored, acked, await here.stored("others")

    url = new_database()
    sent, stored, acked, left = run(story)

    assert [stored[answer.json["message_id"]] for answer in sent[:20]] == [b"%d" % number for number in range(20)]
    by_uuid = {UUIDS.text(id): body for id, body in stored.items()}
    assert [by_uuid[answer.json["MessageId"]] for answer in sent[20:]] == [b"%d" % number for number in range(20)]
    assert [answer.status for answer in acked] == [200] * 10 + [404] + [204] * 10
    assert left == []


@pytest.mark.parametrize(
    ("policy", "taken"), [(Policy(rate_limit=4), 4), (Policy(quota=4), 4), (Policy(deduplicate="content"), 20)]
)
def test_on_a_database_the_policy_holds_for_each_of_them(tmp_path, policy, taken):
    async def story():
        async with place(tmp_path / "unused.db", policy, database_url=url) as here:
            return await here.at_once([plain(number // 2) for number in range(20)]), await here.stored()

    url = new_database()
    answers, stored = run(story)

    accepted = [answer.json for answer in answers if answer.status == 201]
    assert len(accepted) == taken
    assert {answer["message_id"] for answer in accepted} == {id for id, *_ in stored}
