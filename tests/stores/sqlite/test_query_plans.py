"""Plans of SQLite's queries: rows are found by the index meant for them, without reading a table whole or sorting.

The plans are read from a file with a lopsided backlog, once with statistics and once without: a plan that depends on
them is one that fails in production.
"""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from sqew.model import DeliveryOutcome, NewEvent, NewMessage, Ref, Release, Schedule
from sqew.operations import ClaimDeliveries, Nack, Publish, Receive, SaveSchedule, SettleDeliveries, Subscribe
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import SQL
from tests.stores.sqlite.backlog import NOW, create, fill, lease, open_store, run

ROW = "the row's own key"
WALK = "a walk along the ids, other queues' rows and all"
DUE = "sqew_message_due"
GROUP = "sqew_message_group"
GROUP_LEASE = "sqew_message_group_lease"
ORIGIN = "sqew_message_origin"
NAMES = "sqlite_autoindex_sqew_queue_1"
TURN = "sqew_delivery_turn"
EXHAUSTED = "sqew_delivery_exhausted"
EXHAUSTED_OF = "sqew_delivery_exhausted_of"
SCHEDULES = "sqlite_autoindex_sqew_schedule_1"
STAGINGS = "sqlite_autoindex_sqew_staging_1"
PARTS = "sqlite_autoindex_sqew_part_1"
CHUNKS = "sqew_chunk_part"
CONSUMERS = "sqlite_autoindex_sqew_consumer_1"
CLAIM_CHUNKS = "sqlite_autoindex_sqew_claim_chunk_1"
NOTHING: set[str] = set()

HOT = {
    # Receiving.
    "ready": {DUE},
    "lease": {ROW},
    "claim_head": {DUE, ROW},
    "unclaim": {ROW},
    "take_head": {DUE, ROW},
    "lease_many": {ROW},
    "next_due": {DUE},
    "next_death": {"sqew_message_dies"},
    "large_body": {ROW},
    "read_turns": {ROW},
    "save_turns": {ROW},
    # Sending.
    "insert_message": NOTHING,
    "insert_small": NOTHING,
    "insert_plain": {ROW},
    "insert_body": NOTHING,
    "insert_bucket": NOTHING,
    "key_owner": {ROW},
    "claim_key": NOTHING,
    "group_exists": {GROUP},
    # Staging.
    "read_writer": {ROW},
    "writer_to_promote": {ROW},
    "writers_of": {ROW},
    "writers_near": {ROW},
    "insert_writer": NOTHING,
    "decide": NOTHING,
    "count_promoted": {ROW},
    "remember_writer": {ROW},
    "forget_writer": {ROW, STAGINGS},
    "forget_writers": {"sqew_writer_expires", ROW},
    "delete_writers_of": {ROW},
    "open_staging": {STAGINGS},
    "insert_staging": NOTHING,
    "keep_staging": {ROW},
    "find_staging": {STAGINGS},
    "stagings_of": {STAGINGS},
    "stagings_in": {STAGINGS},
    "next_promotion": {"sqew_staging_due"},
    "due_promotion": {"sqew_staging_due", STAGINGS},
    "decided_staging": {STAGINGS},
    "decided_stagings": {STAGINGS},
    "promote_staging": {ROW},
    "end_staging": {ROW},
    "end_stagings_until": {STAGINGS},
    "end_stagings_of": {STAGINGS},
    "ended_staging": {"sqew_staging_ends"},
    "delete_staging": {ROW},
    "open_part": NOTHING,
    "parts_of": {PARTS},
    "count_staged": {PARTS},
    "count_turns": {"sqew_part_turn"},
    "give_turn": {ROW},
    "next_part": {"sqew_part_turn"},
    "change_part": {ROW},
    "delete_part": {ROW},
    "delete_parts_of": {PARTS},
    "insert_chunk": NOTHING,
    "insert_staged": NOTHING,
    "insert_copies": NOTHING,
    "next_chunk": {CHUNKS},
    "delete_chunk": {ROW},
    "delete_chunks_of": {CHUNKS, ROW},
    "next_id": {ROW},
    "salt": {ROW},
    "reserve_ids": {ROW},
    "count_claimable": {DUE},
    # Settling.
    "finish": {ROW},
    "finish_plain": {ROW},
    "finish_many": {ROW},
    "find_held": {ROW},
    "whereabouts": {ROW},
    "homes": {ROW},
    "release": {ROW},
    "undeliver": {ROW},
    "extend_lease": {ROW},
    "postpone": {ROW},
    "delete_message": {ROW},
    "delete_body": {ROW},
    "retire_key": {ROW},
    "archive_message": {ROW},
    "move_to_dead_letter": {ROW},
    # FIFO groups.
    "group_head": {GROUP},
    "group_busy_until": {GROUP_LEASE},
    "next_follower": {GROUP},
    "lease_follower": {ROW},
    "set_due": {ROW},
    "demote_second": {GROUP},
    # Looking.
    "get_message": {ROW},
    "last_id": {ROW},
    "scan_end": {WALK},
    "scan": {WALK},
    "export_end": {WALK, ROW},
    "export_messages": {WALK},
    "export_bodies": {WALK},
    "export_plain": {WALK},
    "bounds_of_bucket": {DUE},
    "bounds_of_blocked": {GROUP},
    "archive_bounds": {"sqew_archive_queue"},
    "archive_end": {"sqew_archive_queue"},
    "export_archived": {"sqew_archive_queue"},
    "peek_ready": {DUE},
    "peek_waiting": {DUE},
    "peek_blocked": {GROUP},
    "count_ready": {DUE},
    "count_waiting": {DUE},
    "ends_of_bucket": {DUE},
    "ends_of_groups": {GROUP},
    "created_at": {ROW},
    "count_dead_letters": {ORIGIN},
    "count_archived": {"sqew_archive_queue"},
    "list_archive": {"sqew_archive_queue"},
    "activity": {ROW},
    # Consumers.
    "find_consumer": {CONSUMERS},
    "consumer_by_id": {ROW},
    "look_at_consumer": {CONSUMERS},
    "consumers_of": {CONSUMERS},
    "consumers_near": {CONSUMERS},
    "insert_consumer": NOTHING,
    "open_consumer": {ROW},
    "keep_consumer": {ROW},
    "close_consumer": {ROW},
    "delete_consumer": {ROW},
    "spend_claims": {ROW},
    "set_last_claim": {ROW},
    "find_claim": {ROW},
    "claims_of": {ROW},
    "first_claim": {ROW},
    "expired_claims": {"sqew_claim_lease"},
    "add_to_claim": NOTHING,
    "seal_claim": {ROW},
    "renew_claims": {ROW},
    "give_claim_back": {ROW},
    "give_claims_back": {ROW},
    "delete_claim": {ROW},
    "delete_claims_of": {ROW},
    "find_claim_chunk": {CLAIM_CHUNKS},
    "first_claim_chunk": {CLAIM_CHUNKS},
    "claim_chunks": {CLAIM_CHUNKS},
    "insert_claim_chunk": NOTHING,
    "shorten_claim_chunk": {CLAIM_CHUNKS},
    "delete_claim_chunk": {CLAIM_CHUNKS},
    "delete_claim_chunks_of": {CLAIM_CHUNKS},
    "archive_claimed": {ROW},
    "end_leases": {ROW},
    "export_claimed": {ROW},
    "claimed_messages": {ROW},
    # The dead.
    "dead_letters": {ORIGIN},
    "dead_in_archive": {"sqew_archive_queue"},
    "count_attempts": {ROW},
    "find_dead_letter": {ROW, GROUP_LEASE},
    "find_dead_in_archive": {ROW},
    "returnable": {ORIGIN, GROUP_LEASE},
    "letters_after": {"sqew_message_letter", GROUP_LEASE},
    "first_letter": {GROUP},
    "residents": {DUE},
    "bring_back": {ROW},
    "delete_archived": {ROW},
    # Upkeep.
    "expired": {"sqew_message_expires"},
    "exhausted": {"sqew_message_dies"},
    "spare": {ROW},
    "next_sweep": {
        "sqew_staging_ends",
        "sqew_writer_expires",
        "sqew_claim_lease",
        "sqew_message_expires",
        "sqew_message_dies",
        "sqew_key_expires",
        "sqew_archive_purge",
        "sqew_subscription_ends",
        "sqew_attempt_expires",
    },
    "forget_keys": {"sqew_key_expires", ROW},
    "seem_over_in_archive": {"sqew_archive_purge"},
    "begin_redating": NOTHING,
    "former_lifetimes": {ROW},
    "redating_reached": {ROW},
    "end_redating": {ROW},
    "end_redatings_of": {ROW},
    "archive_to_redate": {"sqew_archive_queue"},
    "redate_archived": {ROW},
    "keys_end": {ROW},
    "forget_key": {ROW},
    "forget_keys_between": {ROW},
    "redate_keys": {ROW},
    "redate_messages": {WALK},
    "purgeable_claimable": {DUE},
    "purgeable_grouped": {GROUP},
    "deleted_queue": {NAMES},
    "any_deleted_queue": {NAMES},
    "delete_finished": {ROW},
    "delete_archive_of": {"sqew_archive_queue", ROW},
    "delete_keys_of": {ROW},
    "delete_activity_of": {ROW},
    "delete_buckets_of": {ROW},
    "delete_lanes_of": {ROW},
    "delete_queue": {ROW},
    "add_activity": NOTHING,
    "fold_activity": {ROW},
    # Queues.
    "catalog_version": {ROW},
    "bump_catalog": {ROW},
    "queue_by_name": {NAMES},
    "queues_near": {NAMES},
    "queue_by_id": {ROW},
    "list_queues": {NAMES},
    "dead_letter_sources": {"sqew_queue_dead_letter"},
    "update_policy": {ROW},
    "forget_queue": {ROW},
    "insert_queue": NOTHING,
    "keys_version": {ROW},
    "bump_keys": {ROW},
    "insert_api_key": NOTHING,
    "count_api_keys": {ROW},
    "api_keys_of": {ROW},
    "delete_api_key": {ROW},
    "delete_api_keys_of": {ROW},
    "lanes": {ROW},
    "insert_lane": NOTHING,
    "delete_lane": {ROW},
    "delete_bucket": {ROW},
    "export_bucket": {DUE},
    "export_blocked": {GROUP},
    "export_archive": {"sqew_archive_queue"},
    # Subscriptions.
    "subscriptions_version": {ROW},
    "bump_subscriptions": {ROW},
    "insert_subscription": NOTHING,
    "subscription_to": {"sqlite_autoindex_sqew_subscription_1"},
    "subscription_by_id": {ROW},
    "subscription_taking": {ROW},
    "subscriptions_ended": {"sqew_subscription_ends"},
    "subscription_by_uuid": {"sqew_subscription_uuid"},
    "update_subscription": {ROW},
    "delete_subscription": {ROW},
    "subscriptions_after": {WALK},
    "log_unsubscription": NOTHING,
    "forget_unsubscriptions": {WALK},
    "unsubscriptions_since": {WALK},
    "list_subscriptions": {WALK},
    "subscriptions_to_pattern": {"sqew_subscription_pattern"},
    "subscriptions_of_queue": {"sqew_subscription_queue"},
    # Topics.
    "insert_topic": NOTHING,
    "topic": {ROW},
    "topic_exists": {ROW},
    "list_topics": {ROW},
    "update_topic": {ROW},
    "delete_topic": {ROW},
    "delete_subscriptions_to_topic": {"sqew_subscription_pattern"},
    "resign_subscriptions_to_topic": {"sqew_subscription_pattern"},
    "count_filters_of_topic": {"sqew_subscription_filtered"},
    # Deliveries.
    "insert_payload": NOTHING,
    "insert_delivery": NOTHING,
    "subscriptions_due": {"sqew_delivery_due"},
    "turns": {TURN, ROW},
    "due_deliveries": {TURN},
    "payload": {ROW},
    "claim_delivery": {ROW},
    "renew_delivery": {ROW},
    "first_delivery_due": {"sqew_delivery_due"},
    "next_delivery_due": {"sqew_delivery_due"},
    "unsubscribed_deliveries": {TURN},
    "delete_delivery": {ROW},
    "release_payload": {ROW},
    "delete_payload": {ROW},
    "postpone_delivery": {ROW},
    "unclaim_delivery": {ROW},
    "payload_with_details": {ROW},
    "get_delivery": {ROW},
    "list_deliveries": {WALK},
    "list_exhausted": {EXHAUSTED},
    "list_exhausted_of": {EXHAUSTED_OF},
    "exhausted_deliveries": {EXHAUSTED},
    "exhausted_deliveries_of": {EXHAUSTED_OF},
    "revive_delivery": {ROW},
    "forgettable_deliveries": {"sqew_delivery_given_up"},
    "insert_signing_key": NOTHING,
    # Tasks that move dead letters, and receives that may be repeated.
    "insert_move": NOTHING,
    "move_running": {"sqew_move_task_running"},
    "find_move": {"sqlite_autoindex_sqew_move_task_1"},
    "moves_of": {"sqew_move_task_queue"},
    "next_move": {"sqew_move_task_due"},
    "due_move": {"sqew_move_task_due"},
    "move_on": {"sqlite_autoindex_sqew_move_task_1"},
    "end_move": {"sqlite_autoindex_sqew_move_task_1"},
    "delete_moves_of": {"sqew_move_task_queue"},
    "find_attempt": {ROW},
    "save_attempt": NOTHING,
    "forget_attempts": {"sqew_attempt_expires", ROW},
    "held_in_attempt": {ROW},
    "renew_lease": {ROW},
    # Schedules.
    "schedule_by_name": {SCHEDULES},
    "insert_schedule": NOTHING,
    "update_schedule": {SCHEDULES},
    "move_schedule": {SCHEDULES},
    "delete_schedule": {SCHEDULES},
    "list_schedules": {SCHEDULES},
    "schedules_near": {SCHEDULES},
    "due_schedules": {"sqew_schedule_due"},
    "next_schedule_due": {"sqew_schedule_due"},
}

COLD = {
    "recent_messages": "a hundred rows from the end of the ids, for a page that a person looks at",
    "recent_archived": "a hundred rows from the end of the ids, for a page that a person looks at",
    "any_redating": "the few queues whose policies have changed of late",
    "next_redating": "the first of those",
    "born_at": "when the clock was corrected, a store that is opened looks like it, or a scheduler starts",
    "newest_events": "when the clock was corrected, or a store that is opened looks like it",
    "correct_expiry": "when the clock was corrected, or a store that is opened looks like it",
    "correct_leases": "when the clock was corrected, or a store that is opened looks like it",
    "correct_letters": "when the clock was corrected, or a store that is opened looks like it",
    "correct_deaths": "when the clock was corrected, or a store that is opened looks like it",
    "correct_retries": "when the clock was corrected, or a store that is opened looks like it",
    "correct_sent": "when the clock was corrected, or a store that is opened looks like it",
    "correct_undelayed": "when the clock was corrected, or a store that is opened looks like it",
    "correct_requeued": "when the clock was corrected, or a store that is opened looks like it",
    "correct_created": "when the clock was corrected, or a store that is opened looks like it",
    "correct_first_received": "when the clock was corrected, or a store that is opened looks like it",
    "correct_keys": "when the clock was corrected, or a store that is opened looks like it",
    "correct_attempts": "when the clock was corrected, or a store that is opened looks like it",
    "correct_consumers": "when the clock was corrected, or a store that is opened looks like it",
    "correct_claims": "when the clock was corrected, or a store that is opened looks like it",
    "correct_deliveries": "when the clock was corrected, or a store that is opened looks like it",
    "correct_claimed_deliveries": "when the clock was corrected, or a store that is opened looks like it",
    "correct_tried_deliveries": "when the clock was corrected, or a store that is opened looks like it",
    "correct_delivered": "when the clock was corrected, or a store that is opened looks like it",
    "correct_promotions": "when the clock was corrected, or a store that is opened looks like it",
    "correct_moves": "when the clock was corrected, or a store that is opened looks like it",
    "correct_figures": "when the clock was corrected, or a store that is opened looks like it",
    "forget_figures": "when the clock was corrected, or a store that is opened looks like it",
    "living_queues": "when the clock was corrected, or a store that is opened looks like it",
    "groups_of": "when the clock was corrected, or a store that is opened looks like it",
    "newest_message": "along the ids, from their end, when a store is opened",
    "newest_waiting": "when a store is opened: what is due later, bucket by bucket",
    "newest_figures": "when a store is opened: the figures of an hour, by minute, queue and lane",
    "forget_old_moves": "the few tasks of one dead-letter queue, when another is started",
    "count_filters": "along the index of those, of which there are 10,000 at most",
    "count_subscriptions_to_topic": "counts the subscriptions of one topic, when its attributes are asked for",
    "all_api_keys": "reads every key, when a server starts and when one has changed",
    "buckets": "sorts the few buckets of one queue when the queue is first used",
    "count_blocked": "counts by lane: stats of a FIFO queue grow with its backlog, and are said to",
    "signing_keys": "the few keys that there have ever been",
    "lane_in_use": "when a lane is dropped",
    "check_messages": "reads everything on purpose",
    "check_archive": "reads everything on purpose",
    "check_payloads": "reads everything on purpose",
    "check_deliveries": "reads everything on purpose",
    "check_schedules": "reads everything on purpose",
    "empty_buckets": "walks the few buckets, at idle",
    "survey_queues": "metrics, beside the loop: all queues on purpose, as those below",
    "survey_lanes": "all lanes",
    "survey_ready": "along the whole due index",
    "survey_waiting": "along the whole due index",
    "survey_blocked": "along the whole group index",
    "check_chunks": "reads all that is staged, when somebody asks for a check",
    "survey_dead_letters": "along the whole index of dead letters",
    "survey_archived": "along the whole index of the archive",
    "survey_activity": "an hour of figures of all queues",
    "count_waiting_deliveries": "along the whole due index, beside the loop",
    "count_exhausted_deliveries": "along the whole index of those, beside the loop",
    "count_unsubscribed_deliveries": "along the whole index of those, beside the loop",
}


def populate(path: Path) -> None:
    """Fill a file lopsidedly: nearly all is in one queue at one priority, nearly all of another in one FIFO group."""
    store = open_store(path)
    create(store, "dead")
    create(store, "jobs", dead_letter="dead", keep="archive")
    create(store, "groups.fifo", fifo=True)
    fill(store, "jobs", 10_000)
    fill(store, "jobs", 500, delay_ms=10_000_000, priority=9)
    fill(store, "jobs", 500, ttl_ms=10_000_000)
    fill(store, "groups.fifo", 5_000, group="g")
    for n in range(200):
        fill(store, "groups.fifo", 1, group=f"g{n}", key=f"k{n}")
    lease(store, "jobs", 1000)
    run(store, Receive("jobs", 1000, finish=True))
    dead = run(store, Receive("jobs", 1000)).messages
    run(store, Nack("jobs", [Release(Ref(message.id), dead=True) for message in dead]))
    populate_endpoints(store)
    populate_timetable(store)
    store.close()


def populate_endpoints(store: SQLiteStore) -> None:
    """Give nearly all deliveries to one subscription, and exhaust some of them."""
    for n in range(200):
        run(store, Subscribe(f"few.{n}", "http", f"http://{n}.example/"))
        run(store, Subscribe("many.*", "queue" if n == 0 else "http", "jobs" if n == 0 else f"http://{n}.example/"))
    run(store, Subscribe("one.#", "http", "http://one.example/"))
    run(store, Publish([NewEvent("one.created", NewMessage(b"{}"), "m")] * 5_000))
    run(store, Publish([NewEvent(f"few.{n}", NewMessage(b"{}"), "m") for n in range(200)]))
    taken = run(store, ClaimDeliveries(500, 500, 1000)).deliveries
    run(store, SettleDeliveries([DeliveryOutcome(one.id, one.claimed_until, delivered=False) for one in taken]))


def populate_timetable(store: SQLiteStore) -> None:
    """Save many schedules of which one is due and some are paused."""
    for n in range(500):
        due_at = None if n % 10 == 0 else NOW + n - 1
        schedule = Schedule(
            f"s{n}", "queue", "jobs", "cron", "@daily", "0 0 * * *", "UTC", NewMessage(b"{}"),
            status="paused" if due_at is None else "active", next_fire_at=NOW + n, due_at=due_at,
        )  # fmt: skip
        run(store, SaveSchedule(schedule))


@pytest.fixture(scope="module", params=["with statistics", "without statistics"])
def connection(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "queue.db"
    populate(path)
    if request.param == "with statistics":
        analysed = apsw.Connection(str(path))
        analysed.execute("ANALYZE")
        analysed.close()
    # Opened afterwards: statistics are read when a file is opened.
    store = open_store(path)
    yield store.connection
    store.close()


def plan_of(connection, sql):
    parameters = len(set(re.findall(r"\?\d+", sql)))
    return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, (1,) * parameters)]


def ways_in(plan):
    """Return the index, or other access, by which each step of a plan finds its rows."""
    found = set()
    for step in plan:
        if index := re.search(r"USING (?:COVERING )?INDEX (\w+)", step):
            found.add(index[1])
        elif re.search(r"\(rowid[<>]", step):
            found.add(WALK)
        elif "PRIMARY KEY" in step or re.fullmatch(r"SEARCH sqew_\w+", step):
            found.add(ROW)
    return found


def test_every_statement_finds_its_rows_by_the_index_meant_for_it_and_sorts_nothing(connection):
    wrong = [f"{name} {fault}" for name in HOT for fault in faults(name, plan_of(connection, SQL.texts[name]))]

    assert not wrong, "\n".join(wrong)


def faults(name, plan):
    """Yield the faults in the plan of a statement."""
    found = ways_in(plan)
    # A row found by an index may lead to others by their own keys; the names of the queues that exist are few.
    if not HOT[name] <= found <= HOT[name] | {ROW, NAMES}:
        yield f"goes by {found or 'nothing'}, not by {HOT[name] or 'nothing'}"
    # Over the one row of a subquery or of the step before it, or over arrays that were given.
    arrays = "|".join(["carray", *re.findall(r"carray\(\?\d+\) AS (\w+)", SQL.texts[name])])
    subqueries = "".join(rf"|{alias}" for alias in re.findall(r"\) AS (\w+)", SQL.texts[name]))
    few = re.compile(rf"SCAN (\(subquery-\d+\){subqueries}|turn|CONSTANT ROW|({arrays}) VIRTUAL TABLE INDEX 1:)")
    for step in plan:
        if "TEMP B-TREE" in step or (step.startswith("SCAN") and not few.fullmatch(step)):
            yield f"has a step {step}"


def test_every_statement_is_guarded_or_known_to_be_cold():
    assert HOT.keys() | COLD.keys() == SQL.texts.keys()
    assert not HOT.keys() & COLD.keys()


def test_the_guard_sees_a_table_that_is_read_whole_and_an_index_that_is_not_meant(connection):
    whole = plan_of(connection, "SELECT id FROM sqew_message WHERE attempts = 1")
    other = plan_of(connection, "SELECT id FROM sqew_message WHERE id = ?1")

    assert list(faults("next_due", whole)) == [f"goes by nothing, not by {HOT['next_due']}", f"has a step {whole[0]}"]
    assert list(faults("next_due", other)) == [f"goes by {{{ROW!r}}}, not by {HOT['next_due']}"]


def test_the_file_that_is_looked_at_has_statistics_or_none(connection, request):
    analysed = connection.table_exists("main", "sqlite_stat1")

    assert analysed == ("with statistics" in request.node.name)


def test_the_backlog_that_is_looked_at_is_large(connection):
    of_jobs = "SELECT count(*) FROM sqew_message JOIN sqew_queue q ON q.id = queue_id WHERE q.name = 'jobs'"

    assert connection.execute(of_jobs).get > 8_000
