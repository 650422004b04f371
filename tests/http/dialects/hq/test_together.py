"""Jobs sent and completed in one tick: they become one operation, with the same answers as one by one."""

import pytest

from sqew.ids import MessageUuids
from sqew.model import Policy, Ref
from sqew.operations import Ack, Nack, Send
from tests.http.one_tick import LOOPS, UUIDS, Sent, both, held, place, run, sizes

ACCEPTED = [Sent("/queues/orders/enqueue", b"[%d]" % number) for number in range(10, 30)]


def enqueue(body: bytes) -> Sent:
    return Sent("/queues/orders/enqueue", body)


def complete(id: int, act: str = "complete") -> Sent:
    return Sent(f"/messages/{UUIDS.text(id)}/{act}", b"", method="PUT")


def bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("Authorization", f"Bearer {token}"),)


@pytest.mark.parametrize("loop", LOOPS)
def test_jobs_sent_in_one_tick_are_one_operation_and_each_is_told_its_own_id(tmp_path, loop):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            answers = await here.at_once(ACCEPTED)
            assert sizes(here) == [(Send, 20)]
            return answers, {UUIDS.text(id): body for id, body, *_ in await here.stored()}

    answers, stored = run(story, loop)

    assert [answer.status for answer in answers] == [200] * 20
    assert [stored[answer.json["message_id"]] for answer in answers] == [request.body for request in ACCEPTED]


def test_a_job_that_is_no_json_is_refused_and_those_beside_it_are_sent(tmp_path):
    async def story():
        return await both(tmp_path, [enqueue(b"[1]"), enqueue(b"[2}"), enqueue(b"[3]")])

    assert [answer.status for answer in run(story)] == [200, 400, 200]


@pytest.mark.parametrize("keep", ["delete", "archive"])
@pytest.mark.parametrize("loop", LOOPS)
def test_jobs_completed_in_one_tick_are_one_operation_wherever_they_are(tmp_path, loop, keep):
    async def story():
        async with place(tmp_path / "queue.db", Policy(keep=keep)) as here:
            mine = [id for queue in ("orders", "others") for id, _ in await held(here, 4, queue)]
            here.numbers = iter(range(100))
            not_received = (await here.at_once([enqueue(b"[99]")]))[0].json["message_id"]
            await here.know(ACCEPTED[:12])

            ids = [*mine, mine[0], 10**9]
            here.say([*map(complete, ids), Sent(f"/messages/{not_received}/complete", b"", method="PUT")])
            answers = await here.hear(len(ids) + 1)

            acks = [op for op in here.operations if type(op) is Ack]
            return answers, acks, [*await here.stored("orders"), *await here.stored("others")]

    answers, acks, left = run(story, loop)

    assert [(answer.status, answer.body) for answer in answers] == [(200, b"")] * len(answers)
    assert sum(len(op.refs) for op in acks) <= len(answers)
    assert len(acks) < len(answers)
    assert [body for _, body, *_ in left] == [b"[99]"]


def test_a_key_completes_the_jobs_of_its_own_queue_only_when_they_come_together(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", auth_token="secret") as here:
            [made] = await here.one_by_one([Sent("/queues/orders/keys", b'{"scopes": ["receive"]}', bearer("secret"))])
            mine, foreign = [id for id, _ in await held(here, 3)], [id for id, _ in await held(here, 3, "others")]
            requests = [complete(id)._replace(headers=bearer(made.json["key"])) for id in (*mine, *foreign)]
            await here.know(requests)
            here.say(requests)
            answers = await here.hear(len(requests))
            return answers, sizes(here), await here.stored("orders"), await here.stored("others")

    answers, done, orders, others = run(story)

    assert [answer.status for answer in answers] == [200] * 6
    assert done == [(Ack, 6)]
    assert (len(orders), len(others)) == (0, 3)


def test_a_job_of_a_fifo_queue_lets_the_next_of_its_group_go(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            for request in (b"[1]", b"[2]"):
                await here.at_once([Sent("/queues?name=w.fifo&max_attempts=5&visibility_timeout_seconds=30", b"")])
                await here.at_once([Sent("/queues/w.fifo/enqueue", request)])
            first, second = [id for id, *_ in await here.stored("w.fifo")]
            await here.at_once([Sent("/queues/w.fifo/receive", b"", method="GET")])
            here.say([complete(first)])
            await here.hear(1)
            [received] = await here.at_once([Sent("/queues/w.fifo/receive", b"", method="GET")])
            return received.json["id"], second

    received, second = run(story)

    assert received == UUIDS.text(second)


def test_what_is_no_uuid_fails_alone(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            mine = [id for id, _ in await held(here, 3)]
            await here.know(ACCEPTED[:4])
            here.say([*map(complete, mine), Sent("/messages/123/complete", b"", method="PUT")])
            answers = await here.hear(4)
            return answers, await here.stored()

    answers, left = run(story)

    assert [answer.status for answer in answers] == [200, 200, 200, 400]
    assert left == []


def test_a_job_is_failed_by_one_operation_that_names_no_queue(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db", Policy(max_attempts=5)) as here:
            [(id, _)] = await held(here, 1)
            here.operations.clear()
            here.say([complete(id, "fail")])
            await here.hear(1)
            return list(here.operations), id, await here.stored()

    operations, id, left = run(story)

    assert [(type(op), op.queue, op.releases[0].ref) for op in operations] == [(Nack, None, Ref(id))]
    assert left == []


def test_paths_of_completed_jobs_are_not_remembered(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            mine = [id for id, _ in await held(here, 5)]
            await here.know(ACCEPTED[:1])
            known = len(here.server.known_heads)
            for id in mine:
                here.say([complete(id)])
                await here.hear(1)
            return known, len(here.server.known_heads)

    before, after = run(story)

    assert before == after


def test_a_head_that_is_known_but_for_its_path_means_what_it_says(tmp_path):
    async def story():
        async with place(tmp_path / "queue.db") as here:
            mine = [id for id, _ in await held(here, 3)]
            others = [
                "/queues/orders",
                "/nowhere/at/all",
                "/messages/123/complete",
                "/queues/o%72ders",
                "/queues/orders/",
            ]
            before = []
            for request in (complete(mine[0]), *(Sent(path, b"", method="PUT") for path in others)):
                here.say([request])
                before += await here.hear(1)
            assert len(here.server.known_tails) == 1
            after = []
            for request in (complete(mine[2]), *(Sent(path, b"", method="PUT") for path in others)):
                here.say([request])
                after += await here.hear(1)
            return before, after, await here.stored()

    before, after, left = run(story)

    assert [answer.status for answer in before] == [200, 200, 404, 400, 200, 404]
    assert [answer.alike for answer in after] == [answer.alike for answer in before]
    assert len(left) == 1


def test_a_uuid_is_read_however_it_is_written():
    uuids = MessageUuids(4711)
    text = uuids.text(42)

    assert [uuids.id_in(way) for way in (text, text.upper(), text.replace("-", ""), f"{{{text}}}")] == [42] * 4
    with pytest.raises(ValueError, match="base 16"):
        uuids.id_in("z" + text[1:])
