"""The life of a message, through a server."""

import threading
import time

import pytest

from sqew import Client, MessageNotFound, NewMessage, Queue, QueueExists, QueueNotFound, StaleLease
from sqew.errors import BadBody, BadValue, QuotaExceeded, RateLimited, TooLarge, UnknownLane
from sqew.model import Finished
from tests.client.clients import connect, q, queue, servers, shared_server
from tests.support.serving import serving

__all__ = ["connect", "q", "queue", "servers", "shared_server"]


@pytest.fixture(autouse=True)
def made(q, queue):
    q.create(queue, max_attempts=3, base_backoff_ms=0, lanes={"fast": 3, "slow": 1})


def test_a_message_is_sent_claimed_and_acked(q, queue):
    id = q.enqueue(queue, {"sku": 7})
    message = q.claim(queue, consumer="w1", lease_seconds=60)
    q.ack(message)

    assert (message.id, message.value, message.attempts, message.lease.by) == (id, {"sku": 7}, 1, "w1")
    with pytest.raises(MessageNotFound):
        q.get(queue, id)


def test_all_that_is_said_of_a_message_arrives(q, queue):
    q.enqueue(queue, "text é", lane="slow", priority=7, headers={"h": [1]}, key="k", ttl_seconds=60)

    message = q.claim(queue)

    assert (message.value, message.format, message.queue) == ("text é", "text", queue)
    assert (message.lane, message.priority, message.headers, message.key) == ("slow", 7, {"h": [1]}, "k")
    assert message.expires_at - message.created_at == 60_000


def test_a_delayed_message_is_not_there_yet(q, queue):
    id = q.enqueue(queue, 1, delay_seconds=60)

    assert q.claim(queue) is None
    assert q.get(queue, id).state == "delayed"


def test_json_is_kept_byte_for_byte(q, queue):
    body = b'{"b": 1.50,\n "a": "\\u00e9"}'
    q.enqueue_many(queue, [NewMessage(body)])

    assert q.claim(queue).body == body


def test_a_client_sees_what_the_embedded_queue_sees(q, queue, shared_server):
    q.enqueue(queue, {"a": [1, None]}, headers={"x": "y"})
    q.enqueue(queue, "text", lane="slow")

    with Queue.open(shared_server.db, create=False) as embedded:
        assert q.peek(queue) == embedded.peek(queue)
        assert q.info(queue) == embedded.info(queue)
        assert q.stats(queue).depths == embedded.stats(queue).depths


def test_what_is_not_json_is_refused_before_it_is_sent(q, queue):
    with pytest.raises(BadBody):
        q.enqueue_many(queue, [NewMessage(b'1},{"payload":2')])

    assert q.peek(queue) == []


def test_a_key_that_was_used_answers_with_the_first_id(q, queue):
    first = q.enqueue(queue, 1, key="k")

    assert q.enqueue(queue, 2, key="k") == first
    assert [message.value for message in q.peek(queue)] == [1]


def test_batches_are_sent_claimed_and_acked(q, queue):
    ids = q.enqueue_many(queue, range(5))
    messages = q.claim_many(queue, 10)

    assert [message.id for message in messages] == ids
    assert q.ack_many(messages) == [None] * 5


def test_nothing_to_send_is_no_request(q, queue):
    assert q.enqueue_many(queue, []) == []


def test_a_batch_tells_of_each_message_what_became_of_it(q, queue):
    q.enqueue_many(queue, range(2))
    first, second = q.claim_many(queue, 2)
    q.ack(first)

    gone, nothing = q.ack_many([first, second])

    assert isinstance(gone, MessageNotFound)
    assert (gone.id, nothing) == (first.id, None)


def test_messages_of_several_queues_are_settled_together(q, queue):
    q.create(queue + "-b")
    q.enqueue(queue, 1)
    q.enqueue(queue + "-b", 2)
    messages = [q.claim(queue), q.claim(queue + "-b")]

    assert q.ack_many(messages) == [None, None]
    assert q.stats(queue + "-b").depths.total() == 0


def test_a_batch_with_a_bad_entry_settled_those_of_other_queues_before_it_was_refused(q, queue):
    q.enqueue(queue, 1)
    message = q.claim(queue)

    with pytest.raises(BadValue, match="in which queue"):
        q.ack_many([message, message.id + 1], "w1")

    assert q.stats(queue).depths.total() == 1


def test_what_was_settled_is_told_although_a_queue_of_others_is_gone(q, queue):
    q.create(queue + "-gone")
    q.enqueue(queue, 1)
    q.enqueue(queue + "-gone", 2)
    messages = [q.claim(queue), q.claim(queue + "-gone")]
    q.delete(queue + "-gone")

    done, refused = q.ack_many(messages)

    assert done is None
    assert isinstance(refused, QueueNotFound)


def test_a_nacked_message_comes_back(q, queue):
    q.enqueue(queue, 1)
    q.nack(q.claim(queue), delay_seconds=0)

    assert q.claim(queue).attempts == 2


def test_a_batch_is_nacked_and_extended(q, queue):
    q.enqueue_many(queue, range(2))
    messages = q.claim_many(queue, 2, lease_seconds=1)

    assert q.extend_many(messages, 600) == [None, None]
    assert q.get(queue, messages[0].id).lease.expires_at > messages[0].lease.expires_at + 500_000
    assert q.nack_many(messages, delay_seconds=0) == [None, None]
    assert len(q.claim_many(queue, 2)) == 2


def test_a_batch_is_nacked_for_a_reason(q, queue):
    q.update(queue, max_attempts=1)
    q.enqueue_many(queue, range(2))

    assert q.nack_many(q.claim_many(queue, 2), reason="no stock") == [None, None]

    assert [message.death.reason for message in q.dead_letters(queue)] == ["no stock"] * 2


def test_a_life_of_no_millisecond_is_refused_in_seconds(q, queue):
    with pytest.raises(BadValue, match=r"^ttl_seconds can't be 0: it must be a number of seconds from 0\.001 "):
        q.enqueue(queue, 1, ttl_seconds=0)


def test_a_stale_lease_changes_nothing_and_says_so(q, queue):
    id = q.enqueue(queue, 1)
    message = q.claim(queue)
    q.nack(message, delay_seconds=0)
    q.claim(queue)

    with pytest.raises(StaleLease) as refused:
        q.ack(message)

    assert refused.value.id == id
    assert q.get(queue, id).state == "leased"


def test_a_message_can_be_settled_by_its_id_and_its_holder(q, queue):
    id = q.enqueue(queue, 1)
    q.claim(queue, consumer="w1")

    with pytest.raises(StaleLease):
        q.ack(id, "w2", queue=queue)
    q.ack(id, "w1", queue=queue)

    assert q.stats(queue).depths.total() == 0


def test_an_id_alone_does_not_say_where_the_message_is(q, queue):
    with pytest.raises(BadValue, match="in which queue"):
        q.ack(q.enqueue(queue, 1), "w1")


@pytest.mark.parametrize(
    "act",
    [
        lambda q, id, queue: q.ack(id, queue=queue),
        lambda q, id, queue: q.ack_many([id], queue=queue),
        lambda q, id, queue: q.nack(id, queue=queue),
        lambda q, id, queue: q.dead_letter(id, queue=queue),
        lambda q, id, queue: q.extend_lease(id, 60, queue=queue),
    ],
)
def test_an_id_alone_settles_nothing(q, queue, act):
    id = q.enqueue(queue, 1)

    with pytest.raises(BadValue, match=f"Message {id} is named by its id alone"):
        act(q, id, queue)

    assert q.claim(queue).attempts == 1


def test_a_message_that_was_looked_at_can_not_be_settled(q, queue):
    q.enqueue(queue, 1)

    with pytest.raises(BadValue, match="looked at, not claimed"):
        q.ack(q.peek(queue)[0])


def test_the_dead_are_listed_brought_back_and_deleted(q, queue):
    ids = q.enqueue_many(queue, range(3))
    for message in q.claim_many(queue, 3):
        q.dead_letter(message, reason="no such customer")

    dead = q.dead_letters(queue)

    assert [message.death.reason for message in dead] == ["no such customer"] * 3
    assert {message.queue for message in dead} == {queue + "-dlq"}
    assert q.requeue(queue, [ids[0]]) == 1
    assert q.purge_dead(queue) == 2
    assert [message.attempts for message in q.peek(queue)] == [0]


def test_a_claim_waits_for_a_message(q, queue, shared_server):
    def send():
        with Client(shared_server.url) as other:
            other.enqueue(queue, "late")

    timer = threading.Timer(0.2, send)
    timer.start()
    began = time.monotonic()
    message = q.claim(queue, wait_seconds=20)
    timer.join()

    assert message.value == "late"
    assert time.monotonic() - began < 15


def test_a_claim_waits_longer_than_the_server_does_at_a_time(connect, tmp_path):
    with serving(tmp_path, "--max-wait-ms", "20") as server:
        q = connect(server.url)
        q.create("orders")
        q.enqueue("orders", 1, delay_seconds=0.3)

        assert q.claim("orders", wait_seconds=20).value == 1


def test_a_claim_gives_up_in_time(q, queue):
    began = time.monotonic()

    assert q.claim(queue, wait_seconds=0.1) is None
    assert 0.1 <= time.monotonic() - began < 5


def test_messages_are_looked_at_and_removed(q, queue):
    ids = q.enqueue_many(queue, range(3))

    assert [message.id for message in q.peek(queue, 2)] == ids[:2]
    assert q.remove(queue, [ids[0], ids[0]]) == [True, False]
    assert q.purge(queue) == 2


def test_a_bad_id_was_refused_after_the_messages_before_it_were_removed(q, queue):
    id = q.enqueue(queue, 1)

    with pytest.raises(BadValue, match="A message id can't be None"):
        q.remove(queue, [id, None])

    assert q.peek(queue)[0].id == id


def test_queues_are_listed_changed_and_deleted(q, queue):
    assert q.update(queue, max_attempts=9, dead_letter=None).policy.max_attempts == 9
    assert [info.name for info in q.queues(queue)] == [queue, queue + "-dlq"]

    q.delete(queue)

    with pytest.raises(QueueNotFound) as refused:
        q.info(queue)
    assert refused.value.queue == queue


def test_a_queue_that_exists_may_be_taken_as_it_is(q, queue):
    with pytest.raises(QueueExists):
        q.create(queue, max_attempts=7)

    assert q.create(queue, exist_ok=True, max_attempts=7).policy.max_attempts == 3


def test_a_fifo_queue_keeps_the_order_of_a_group(q, queue):
    q.create(queue + ".fifo", fifo=True)
    q.enqueue(queue + ".fifo", 1, group="g")
    q.enqueue(queue + ".fifo", 2, group="g")

    first = q.claim(queue + ".fifo")
    blocked = q.claim(queue + ".fifo")
    q.ack(first)

    assert (first.value, first.group, blocked) == (1, "g", None)
    assert q.claim(queue + ".fifo").value == 2


def test_finished_messages_are_in_the_archive(q, queue):
    q.update(queue, keep="archive")
    q.enqueue(queue, "text", headers={"a": 1})
    q.ack(q.claim(queue))

    (archived,) = q.archive(queue, outcome="done")

    assert (archived.message.value, archived.message.headers, archived.outcome) == ("text", {"a": 1}, "done")
    assert q.archive(queue, outcome="dead") == []


def test_lists_of_large_messages_are_whole_though_a_page_of_the_server_is_not(q, queue):
    q.update(queue, keep="archive", dead_letter=None)
    body = "x" * 1_000_000
    sent = [q.enqueue(queue, body) for _ in range(24)]
    for _ in range(12):
        q.ack(q.claim(queue))
    for _ in range(12):
        q.dead_letter(q.claim(queue))

    assert [one.message.id for one in q.archive(queue, 1000)] == sent
    assert [one.message.id for one in q.archive(queue, 11, after=sent[1])] == sent[2:13]
    assert [one.id for one in q.dead_letters(queue, 1000)] == sent[12:]
    assert len(q.dead_letters(queue, 10)) == 10


def test_finished_messages_are_deleted_from_the_archive(q, queue):
    q.update(queue, keep="archive")
    for body in ("kept", "deleted"):
        q.enqueue(queue, body)
        q.ack(q.claim(queue))
    kept, deleted = q.archive(queue)

    count = q.delete_archived(
        queue, [Finished(kept.message.id, kept.finished_at + 1), Finished(deleted.message.id, deleted.finished_at)]
    )

    assert count == 1
    assert q.archive(queue) == [kept]


def test_an_export_is_imported_as_it_was(q, queue):
    q.create(queue + "-b")
    q.enqueue_many(queue, [NewMessage(b"%d" % n, priority=n % 3, lane="slow") for n in range(900)])
    q.enqueue_many(queue, ["text"] * 900)
    q.update(queue + "-b", lanes={"fast": 3, "slow": 1})

    lines = list(q.export(queue))
    counts = list(q.import_lines(queue + "-b", lines))

    assert (len(lines), sum(counts)) == (1_800, 1_800)
    seen = [(m.value, m.priority, m.lane) for m in q.peek(queue + "-b", 1_000)]
    assert seen == [(m.value, m.priority, m.lane) for m in q.peek(queue, 1_000)]


def test_a_bad_line_is_named_and_those_before_it_are_sent(q, queue):
    lines = [b'{"body": 1}\n', b'{"body": 2}\n', b"{nonsense\n"]

    with pytest.raises(BadBody, match=r"[Ll]ine 3"):
        list(q.import_lines(queue, lines))

    assert [message.value for message in q.peek(queue)] == [1, 2]


def test_an_export_of_a_queue_that_is_not_there_says_so(q):
    with pytest.raises(QueueNotFound):
        list(q.export("no-such-queue"))


def test_a_queue_is_compacted(q, queue):
    assert q.compact(queue).bytes_after > 0


def test_the_server_says_how_it_is(q):
    assert q.health()["status"] == "ok"


def test_the_server_has_metrics(q):
    assert "# TYPE http_requests_total counter" in q.metrics()


@pytest.mark.parametrize(
    ("policy", "count", "kind"), [({"quota": 1}, 2, QuotaExceeded), ({"rate_limit": 1}, 3, RateLimited)]
)
def test_a_limit_of_the_queue_is_told_by_its_class(q, queue, policy, count, kind):
    q.update(queue, **policy)

    with pytest.raises(kind) as refused:
        [q.enqueue(queue, n) for n in range(count)]

    assert refused.value.queue == queue
    assert refused.value.retry_after_ms >= 1_000


def test_a_limit_of_the_server_is_told_by_its_class(q, queue):
    with pytest.raises(TooLarge):
        q.enqueue(queue, "x" * 1_100_000)


def test_a_lane_that_is_not_there_is_told_by_its_class(q, queue):
    with pytest.raises(UnknownLane, match="Its lanes are: fast, slow"):
        q.enqueue(queue, 1, lane="middle")


def test_a_policy_that_is_misspelt_says_what_was_meant(q, queue):
    with pytest.raises(BadValue, match="did you mean 'max_attempts'"):
        q.update(queue, max_attemps=3)


def test_a_name_can_not_lead_to_another_route(q):
    with pytest.raises(QueueNotFound, match="'orders/dlq' does not exist"):
        q.purge("orders/dlq")


def test_a_dead_letter_queue_that_a_policy_names_is_made(q, queue):
    q.create(f"{queue}-a", dead_letter=f"{queue}-b")
    q.update(f"{queue}-a", dead_letter=f"{queue}-c")

    assert [q.info(f"{queue}-{letter}").policy.max_attempts for letter in "bc"] == [None, None]


def test_a_queue_that_does_not_exist_is_told_where_the_server_answers_null(q, queue):
    with pytest.raises(QueueNotFound, match=f"Queue '{queue}-nope' does not exist"):
        q.info(f"{queue}-nope")


def test_the_nearest_name_was_not_told_where_the_server_answers_null(q, queue):
    with pytest.raises(QueueNotFound, match=f"did you mean '{queue}'"):
        q.info(f"{queue}x")
