"""Fast paths of the PostgreSQL store: one statement for a whole batch, with the answers of the general path."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator

import asyncpg
import pytest

from sqew.errors import BadValue, MessageNotFound, StaleLease
from sqew.model import NewMessage, Policy, Ref, Release, Settled
from sqew.operations import Ack, CreateQueue, ListArchive, Measure, Nack, Receive, Send, UpdateQueue
from sqew.stores.postgres.connection import PLANNING, SQL, PostgresConnection
from sqew.stores.postgres.watermarks import Watermarks
from tests.conformance.driver import Driver, ids, ref
from tests.support.postgres import Awaited, Reused, fetch_column, new_database, reused_database

__all__ = ["reused_database"]

BUCKET = (0, 0)
CLAIM = (
    "EXECUTE claim_plain(1, 0, 0, {now}, {due_at}, {id}, 1, sqew_catalog(), 9, "
    "'{{1}}', '{{{now}}}', '{{t}}', '{{NULL}}')"
)


@pytest.fixture
def database(reused_database: Reused) -> Reused:
    reused_database.empty()
    return reused_database


@pytest.fixture
def store(database: Reused) -> Iterator[Driver]:
    """Yield a store on which the queue ``jobs`` was used before, so that it is known."""
    driver = Driver(lambda now, random: Awaited(database.url, now, random))
    driver.create()
    driver.send()
    driver.ack(driver.take())
    yield driver
    driver.store.close()


@pytest.fixture
def neighbour(store: Driver) -> Iterator[Driver]:
    driver = store.beside()
    yield driver
    driver.store.close()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the statements that were sent, a list that grows."""
    names = {text: name for name, text in SQL.texts.items()}
    sent: list[str] = []

    def capturing(fetch: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        def note(link: PostgresConnection, statement: str, *parameters: object) -> Awaitable[object]:
            sent.append(names[statement])
            return fetch(link, statement, *parameters)

        return note

    monkeypatch.setattr(PostgresConnection, "fetch", capturing(PostgresConnection.fetch))
    monkeypatch.setattr(PostgresConnection, "fetch_alone", capturing(PostgresConnection.fetch_alone))
    return sent


def test_the_sends_of_a_flight_are_one_statement(store, statements):
    commit = store.commit(*(Send("jobs", [NewMessage(b"%d" % n)] * 3) for n in range(4)))

    sent = [entry.id for result in commit.results for entry in result]
    assert statements == ["insert_alike"]
    assert sent == sorted(set(sent))
    assert [(fact.kind, fact.id) for fact in commit.facts] == [("sent", id) for id in sent]
    assert commit.woken == {"jobs"}
    assert [m.body for m in store.receive(12)] == [b"%d" % n for n in range(4) for _ in range(3)]


def test_the_sends_of_a_flight_to_several_queues_are_one_statement(store, statements):
    store.create("other")
    store.send(queue="other")
    store.send()
    store.ack(store.take())
    statements.clear()

    commit = store.commit(
        Send("jobs", [NewMessage(b"1", headers={"a": "b"}), NewMessage(b"2", delay_ms=9)]),
        Send("other", [NewMessage(b"3", format="text", ttl_ms=5)]),
    )

    [first, second], [third] = ([entry.id for entry in result] for result in commit.results)
    assert statements == ["insert_plain"]
    assert first < second < third
    assert [(m.id, m.headers, m.available_at) for m in store.peek(2)] == [
        (first, {"a": "b"}, store.now),
        (second, {}, store.now + 9),
    ]
    _, text = store.peek(queue="other")
    assert (text.id, text.format, text.expires_at) == (third, "text", store.now + 5)


def test_messages_that_differ_by_turns_are_written_as_they_were_sent(store, statements):
    delays = [0, 9, 0, 0, 9]
    messages = [NewMessage(b"%d" % n, delay_ms=delay) for n, delay in enumerate(delays)]
    commit = store.commit(Send("jobs", messages), Send("jobs", messages[4:]), Send("jobs", messages[:1]))

    assert statements == ["insert_plain"]
    sent = [entry.id for result in commit.results for entry in result]
    stored = {m.id: (m.body, m.available_at - store.now) for m in store.peek(10)}
    given = [*enumerate(delays), (4, 9), (0, 0)]
    assert [stored[id] for id in sent] == [(b"%d" % n, delay) for n, delay in given]


def test_the_receives_of_a_flight_are_one_statement_with_a_lease_each(store, statements):
    sent = store.send_many(5)
    statements.clear()

    commit = store.commit(Receive("jobs", 2, by="a"), Receive("jobs", 3, by="b", lease_ms=7))

    first, second = (result.messages for result in commit.results)
    assert statements == ["claim_plain"]
    assert (ids(first), ids(second)) == (sent[:2], sent[2:])
    assert {(m.lease.by, m.lease.expires_at) for m in first} == {("a", store.now + 30_000)}
    assert {(m.lease.by, m.lease.expires_at) for m in second} == {("b", store.now + 7)}
    assert len({m.lease.token for m in (*first, *second)}) == 2
    assert [(fact.kind, fact.by) for fact in commit.facts] == [("received", by) for by in "aabbb"]


def test_the_acks_of_a_flight_are_one_statement(store, statements):
    store.send_many(4)
    a, b = store.receive(2), store.receive(2)
    statements.clear()

    commit = store.commit(*(Ack("jobs", list(map(ref, messages))) for messages in (a, b)))

    assert statements == ["finish_plain"]
    assert commit.results == [[Settled(m.id) for m in messages] for messages in (a, b)]
    assert {fact.kind for fact in commit.facts} == {"acked"}
    assert store.run(Measure("jobs")).total() == 0


def test_acks_by_ids_alone_are_one_statement_that_holds_up_nobody(store, statements):
    store.create("other")
    one, two = store.send(), store.send(queue="other")
    held = [store.take(), store.take(queue="other")]
    never = store.send()
    statements.clear()

    commit = store.commit(
        Ack(None, [Ref(one), Ref(two)], in_time=True), Send("jobs", [NewMessage(b"2")]), Receive("jobs")
    )

    assert statements == ["insert_alike", "finish_leased", "claim_plain"]
    assert commit.results[0] == [Settled(one), Settled(two)]
    assert [(fact.queue, fact.id) for fact in commit.facts if fact.kind == "acked"] == [("jobs", one), ("other", two)]
    assert [message.id for message in held] == [one, two]
    assert ids(commit.results[2].messages) == [never]


def test_of_acks_by_ids_alone_those_whose_leases_are_over_are_refused(store):
    late, timely = store.send(), store.send()
    store.receive(1, lease_ms=10)
    store.receive(1, lease_ms=1_000)
    store.advance(50)

    [results] = store.commit(Ack(None, [Ref(late), Ref(timely), Ref(10**15)], in_time=True)).results

    assert [type(result) for result in results] == [StaleLease, Settled, MessageNotFound]


def test_acks_of_leases_that_take_turns_each_go_by_their_own(store, statements):
    store.send_many(6)
    held = [store.take(by="ab"[n % 2]) for n in range(6)]
    refs = [Ref(m.id, m.lease.token, m.lease.by) for m in held]
    statements.clear()

    # The third names the lease of the first, and the last another holder.
    refs[2], refs[5] = Ref(held[2].id, held[0].lease.token), Ref(held[5].id, held[5].lease.token, "a")
    evens, odds = store.commit(Ack("jobs", refs[::2]), Ack("jobs", refs[1::2])).results

    assert statements[0] == "finish_plain"
    assert [type(result) for result in evens] == [Settled, StaleLease, Settled]
    assert [type(result) for result in odds] == [Settled, Settled, StaleLease]


def test_of_an_ack_the_part_that_is_refused_is_told_why(store):
    store.send_many(2)
    held, other = store.receive(2)
    gone = store.send()
    store.ack(store.take())

    refs = [ref(held), Ref(other.id, "stale"), Ref(gone)]
    [[first, second, third]] = store.commit(Ack("jobs", refs)).results

    assert first == Settled(held.id)
    assert (type(second), type(third)) == (StaleLease, MessageNotFound)
    assert store.run(Measure("jobs")).total() == 1


def test_a_message_named_by_two_acks_is_acked_once(store):
    store.send()
    message = store.take()

    commit = store.commit(Ack("jobs", [ref(message)]), Ack("jobs", [ref(message)]))

    [[first], [second]] = commit.results
    assert (first, type(second)) == (Settled(message.id), MessageNotFound)
    assert [fact.kind for fact in commit.facts] == ["acked"]


def test_an_ack_archives_after_another_server_changed_the_policy(store, neighbour):
    store.send()
    message = store.take()

    neighbour.run(UpdateQueue("jobs", {"keep": "archive"}))
    store.ack(message)

    assert [archived.message.id for archived in store.run(ListArchive("jobs")).messages] == [message.id]


def test_a_send_is_counted_after_another_server_set_a_quota(store, neighbour):
    neighbour.run(UpdateQueue("jobs", {"quota": 1}))

    first, second = store.commit(Send("jobs", [NewMessage(b"1")]), Send("jobs", [NewMessage(b"2")])).results

    assert len(first) == 1
    assert "quota" in str(second)


def test_a_receive_finds_what_another_server_sent_with_a_new_priority(store, neighbour):
    low = store.send()
    high = neighbour.send(priority=5)

    assert store.receive_ids(2) == [high, low]


def test_a_queue_that_others_have_used_meanwhile_is_known_whole(store, neighbour):
    store.run(CreateQueue("other", Policy()))
    store.send(queue="other")
    # Both add a priority, and so raise the version of what both keep in memory.
    neighbour.send(queue="other", priority=3)
    store.send(priority=4)

    assert [m.priority for m in store.receive(2, queue="other")] == [3, 0]


def test_a_damaged_message_is_buried_and_those_beside_it_are_delivered(store, database):
    damaged, sound = store.send_many(2)
    fetch_column(database.url, f"UPDATE sqew_message SET body = 'x' WHERE id = {damaged} RETURNING id")

    commit = store.commit(Receive("jobs", 2))

    assert ids(commit.results[0].messages) == [sound]
    assert {fact.kind for fact in commit.facts} == {"dead", "received"}


def test_an_exhausted_message_is_buried_by_who_comes_to_it(store):
    store.update(max_attempts=1)
    exhausted, other = store.send_many(2)
    store.receive(1, lease_ms=10)
    store.advance(20)

    commit = store.commit(Receive("jobs", 2))

    assert ids(commit.results[0].messages) == [other]
    assert [(fact.kind, fact.id) for fact in commit.facts] == [("dead", exhausted), ("received", other)]


@pytest.mark.parametrize("tick_ms", [30, 200])
def test_a_claim_whose_time_runs_out_takes_all_of_its_messages(statements, tick_ms):
    """Check that all are taken: each message looked at the clock, and those after 100 ms were left."""
    url = new_database()
    fetch_column(url, f"ALTER DATABASE {url.rpartition('/')[2]} SET search_path = public, pg_catalog")
    asyncio.run(slow_down_clock(url, tick_ms))
    slow = Driver(lambda now, random: Awaited(url, now, random))
    slow.create()
    sent = slow.send_many(10)
    fetch_column(url, "ALTER SEQUENCE ticks RESTART")
    statements.clear()

    assert slow.receive_ids(10) == sent
    assert (statements == ["claim_plain"]) == (tick_ms < 100)
    slow.store.close()


async def slow_down_clock(url: str, tick_ms: int) -> None:
    """Make the database's clock advance by so much whenever it is read."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"""
        CREATE SEQUENCE ticks;
        CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
          SELECT statement_timestamp() + nextval('ticks') * interval '{tick_ms} ms' $$;
    """)
    await connection.close()


def test_large_bodies_go_the_long_way(store):
    body = b"x" * 5_000
    store.send(body)

    message = store.take()

    assert message.body == body
    assert store.ack(message) == Settled(message.id)


def test_what_is_done_is_not_done_again_when_a_neighbour_fails(store):
    store.send()
    message = store.take()

    commit = store.commit(
        Send("jobs", [NewMessage(b"1")]), Ack("jobs", [ref(message)]), Ack("jobs", [Ref(1, "a\0b")]), Receive("jobs")
    )

    [sent], _, refused, received = commit.results
    assert isinstance(refused, BadValue)
    assert ids(received.messages) == [sent.id]
    assert [fact.kind for fact in commit.facts] == ["sent", "acked", "received"]
    assert store.run(Measure("jobs")).total() == 1


def test_operations_on_one_queue_keep_their_order(store):
    first = store.send()

    commit = store.commit(Receive("jobs"), Send("jobs", [NewMessage(b"2")]), Ack("jobs", [Ref(first)]))

    assert [fact.kind for fact in commit.facts] == ["received", "sent", "acked"]


def test_a_message_that_another_server_puts_back_is_found_within_a_second(store, neighbour):
    sent = store.send_many(4)
    store.advance(10_000)
    [back] = neighbour.receive(1)
    assert store.receive_ids(1) == sent[1:2]
    neighbour.run(Nack("jobs", [Release(ref(back), undelivered=True)]))

    soon = store.receive_ids(1)
    store.advance(1_000)
    later = store.receive_ids(1)

    assert (soon, later) == (sent[2:3], sent[:1])


@pytest.mark.parametrize("priorities", [(0, 0), (1, 0)], ids=["one priority", "two priorities"])
def test_who_looks_in_vain_is_told_when_all_is_looked_at_again(store, neighbour, priorities):
    sent = [store.send(priority=priority) for priority in priorities]
    store.advance(10_000)
    [back] = neighbour.receive(1)
    assert store.receive_ids(1) == sent[1:]
    store.run(Receive("jobs"))
    neighbour.run(Nack("jobs", [Release(ref(back), undelivered=True)]))

    store.advance(300)
    soon = store.run(Receive("jobs"))
    store.advance(700)

    assert (soon.messages, soon.next_due_at) == ([], store.now)
    assert store.receive_ids(5) == sent[:1]


def test_who_waits_for_nothing_is_not_sent_to_look_every_second(store):
    store.send()
    store.ack(store.take())
    store.advance(1_000)

    assert store.run(Receive("jobs")).next_due_at is None


def test_a_message_that_this_server_puts_back_is_the_next(store):
    sent = store.send_many(3)
    store.advance(10_000)
    first, _second = store.take(), store.take()
    store.run(Nack("jobs", [Release(ref(first), undelivered=True)]))

    assert store.receive_ids(1) == sent[:1]


def test_a_message_that_was_committed_late_is_not_passed_over():
    marks = Watermarks()
    marks.reach("jobs", BUCKET, marks.position("jobs", BUCKET, 5_000), (4_999, 7), 5_000)

    assert marks.position("jobs", BUCKET, 5_010) == (4_910, 0)
    assert marks.position("jobs", BUCKET, 5_900) == (4_999, 7)
    assert marks.position("jobs", BUCKET, 6_000) == (-1, 0)


async def plan(url: str, name: str, execute: str) -> str:
    """Return PostgreSQL's plan for a statement, with the number of pages that it read."""
    connection = await asyncpg.connect(url, server_settings=PLANNING)
    try:
        await connection.execute(f"PREPARE {name} AS {SQL[name]}")
        return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {execute}"))
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("name", "execute"),
    [
        ("claim_plain", CLAIM.format(now=2**60, due_at=-1, id=0)),
        ("finish_alike", "EXECUTE finish_alike(sqew_catalog(), '{1,2}', 1, 't')"),
        ("finish_plain", "EXECUTE finish_plain(sqew_catalog(), '{1,2}', '{1}', '{1}', '{t}', '{a}')"),
        ("ready", f"EXECUTE ready(1, 0, 0, {2**60}, -1, 0, 10)"),
    ],
    ids=["claim", "ack", "acks", "receive"],
)
def test_a_hot_statement_goes_by_index_even_where_its_plan_was_made_for_an_empty_queue(store, database, name, execute):
    found = asyncio.run(plan(database.url, name, execute))

    assert "Index Scan" in found
    assert not re.findall("Seq Scan on sqew|Sort|Bitmap|Hash", found)


def test_who_holds_an_old_snapshot_does_not_slow_down_claims(store, database):
    loop = asyncio.new_event_loop()
    holder = loop.run_until_complete(asyncpg.connect(database.url))
    loop.run_until_complete(holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM sqew_meta"))
    for _ in range(20):
        store.send_many(100)
        messages = store.receive(100)
        store.run(Ack("jobs", list(map(ref, messages))))
    store.send()

    def pages_from(due_at: int, id: int) -> int:
        found = plan(database.url, "claim_plain", CLAIM.format(now=store.now, due_at=due_at, id=id))
        return int(re.findall(r"shared hit=(\d+)", asyncio.run(found))[0])

    from_start, from_mark = pages_from(-1, 0), pages_from(store.now, messages[-1].id)
    loop.run_until_complete(holder.close())
    loop.close()

    # How many pages 2,000 dead entries take depends on what the index has been through before.
    assert from_mark * 2 < from_start
