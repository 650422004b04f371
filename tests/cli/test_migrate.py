"""`sqew migrate`: a file's queues, copied to PostgreSQL."""

import asyncio
import contextlib
import shutil
import signal
import subprocess
import time
from contextlib import closing

import apsw
import asyncpg
import pytest

from sqew import Queue
from sqew import operations as ops
from sqew.errors import StoreUnavailable, StoreUnusable
from sqew.stores.transfer import copy
from sqew.stores.transfer.tables import NAMES
from tests.cli.conftest import SCRIPT, environment
from tests.support import full_store
from tests.support.postgres import new_database

HERE = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
"""Condition on locks for this test's own database: other tests wait for the same lock number in theirs."""
BLOCKED = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4242 AND NOT granted AND {HERE}"
CUT_OFF = f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE objid = 4242 AND NOT granted AND {HERE}"
STOP_AT_TOPICS = """
CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock(4242); RETURN NEW; END $$;
CREATE TRIGGER wait_here BEFORE INSERT ON sqew_topic FOR EACH ROW EXECUTE FUNCTION wait_here();
SELECT pg_advisory_lock(4242);
"""


@pytest.fixture(scope="module")
def full_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "queue.db"
    full_store.fill(path)
    return path


@pytest.fixture
def file(full_file, folder):
    """Return a file that has some of everything."""
    return shutil.copy(full_file, folder / "queue.db")


@pytest.fixture
def database():
    """Return the URL of an empty database."""
    return new_database("template0")


@pytest.fixture
def moved(file, database, process):
    """Return the URL of the database that the file was copied to."""
    done = process(f"migrate --from {file} --to {database} --json")
    assert (done.code, done.err) == (0, "")
    return database


def opened(place):
    return Queue.open(place, **full_store.OPTIONS)


def answers(place):
    with opened(place) as q:
        return full_store.seen(q)


def sql(url, statement):
    async def run():
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetch(statement)
        finally:
            await connection.close()

    return asyncio.run(run())


def rows_of(path):
    with closing(apsw.Connection(str(path))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'sqew%'")
        return {name: connection.execute(f"SELECT count(*) FROM {name}").get for (name,) in tables.fetchall()}


def test_the_file_has_some_of_everything(file):
    assert [name for name, count in rows_of(file).items() if count == 0] == []


@pytest.mark.parametrize("what", list(full_store.VIEWS))
def test_what_was_in_the_file_is_in_the_database(moved_once, what):
    before, after = moved_once

    assert after[what] == before[what]


@pytest.fixture(scope="module")
def moved_once(full_file, tmp_path_factory):
    """Return the answers of a file, and those of the database that it was copied to."""
    path, url = shutil.copy(full_file, tmp_path_factory.mktemp("once")), new_database("template0")
    copying = [SCRIPT, "migrate", "--from", path, "--to", url]
    subprocess.run(copying, check=True, env=environment(), capture_output=True)
    return answers(path), answers(url)


def test_all_rows_are_counted(file, database, process):
    rows = {name: count for name, count in rows_of(file).items() if name not in ("sqew_meta", "sqew_migration")}

    said = process(f"migrate --from {file} --to {database} --json").json

    assert said["tables"] == {NAMES[name]: {"file": count, "database": count} for name, count in rows.items()}
    assert (said["ok"], said["resumed"], said["rows"]) == (True, False, sum(rows.values()))


def test_people_get_a_table_and_a_verdict(file, database, process):
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("DELETE FROM sqew_api_key")

    shown = process(f"migrate --to {database}").out

    title, *lines, verdict, hint = shown.splitlines()
    assert title.split(maxsplit=1) == ["WHAT", "IN THE FILE  IN THE DATABASE"]
    names = [line.rsplit(maxsplit=2)[0] for line in lines]
    assert {"queues", "messages", "idempotency keys", "archived messages", "bodies of deliveries"} <= set(names)
    assert "api keys" not in names
    assert verdict.endswith("rows, none missing.")
    assert hint == (
        f"To compare them queue by queue: sqew stats --db queue.db, and sqew stats --database-url {database}"
    )


def test_the_file_is_left_as_it_was(file, database, process):
    before = answers(file)

    process(f"migrate --from {file} --to {database}")

    assert answers(file) == before


def test_new_ids_come_after_all_that_the_file_ever_gave_out(file, moved):
    with opened(file) as q:
        last_message = q.enqueue("orders", "newest", lane="fast")
        last_subscription = q.events.subscribe("new", queue="orders").id

    with opened(moved) as q:
        assert q.enqueue("orders", "newest", lane="fast") >= last_message
        assert q.events.subscribe("new", queue="orders").id >= last_subscription


def test_who_held_a_message_settles_it_in_the_database(file, moved):
    with opened(moved) as q:
        held = next(one for one in q.run(ops.Scan("orders", 0, 1_000, 1_000)).messages if one.state == "leased")

        q.ack(held.id, "w1")

        assert held.id in [archived.message.id for archived in q.archive("orders")]


def test_a_key_that_was_used_is_known(file, moved):
    with opened(file) as q:
        first = q.enqueue("orders", full_store.LARGE, lane="slow", key="large one")

    with opened(moved) as q:
        assert q.enqueue("orders", full_store.LARGE, lane="slow", key="large one") == first


def test_a_repeated_receive_gets_the_same_messages(file, moved):
    again = ops.Receive("steps.fifo", 2, attempt_id="the-first")
    with opened(file) as q:
        first = [message.id for message in q.receive(again).messages]

    with opened(moved) as q:
        assert [message.id for message in q.receive(again).messages] == first


async def _kill_when_blocked(file, url):
    connection = await asyncpg.connect(url)
    await connection.execute(STOP_AT_TOPICS)
    child = await asyncio.create_subprocess_exec(SCRIPT, "migrate", "--from", file, "--to", url, env=environment())
    deadline = time.monotonic() + 30
    while not await connection.fetchval(BLOCKED):
        assert child.returncode is None
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    child.kill()
    await child.wait()
    # Before the trigger can go, the database must have noticed that nobody is there any more.
    await connection.execute("SELECT pg_advisory_unlock(4242)")
    await connection.execute("DROP TRIGGER wait_here ON sqew_topic")
    await connection.close()


@pytest.fixture
def interrupted(file, database):
    """Return the URL of a database that a killed move has copied a part of the file to."""
    with opened(database):
        pass
    asyncio.run(_kill_when_blocked(file, database))
    return database


def test_a_move_that_was_killed_goes_on_where_it_was(full_file, file, interrupted, process):
    copied = sql(interrupted, "SELECT count(*) FROM sqew_message")[0][0]
    assert copied == rows_of(file)["sqew_message"]
    # To ask the file itself would change it: what is asked for is swept first.
    before = answers(shutil.copy(full_file, "same.db"))

    done = process(f"migrate --from {file} --to {interrupted} --json")

    assert (done.code, done.json["ok"], done.json["resumed"]) == (0, True, True)
    assert answers(interrupted) == before


def test_a_row_that_is_missing_is_noticed_and_nothing_is_found_then(file, interrupted, process):
    sql(interrupted, "DELETE FROM sqew_message WHERE id = (SELECT min(id) FROM sqew_message)")

    done = process(f"migrate --from {file} --to {interrupted} --json")

    counts = done.json["tables"]["messages"]
    assert (done.code, done.json["ok"], counts["file"] - counts["database"]) == (6, False, 1)
    assert "Begin anew with --restart." in done.err
    assert sql(interrupted, "SELECT name FROM sqew_queue") == []


def test_a_database_that_is_not_all_there_is_not_served(interrupted, process):
    done = process(f"serve --port 0 --database-url {interrupted}")

    assert done.code == 5
    assert "was not finished" in done.err
    assert "run `sqew migrate` again" in done.err


def test_a_database_that_is_not_all_there_is_not_opened(interrupted):
    with pytest.raises(StoreUnusable, match="run `sqew migrate` again"):
        opened(interrupted)


def refusal(q):
    with pytest.raises(StoreUnavailable) as refused:
        q.create("mine")
    return str(refused.value)


def test_a_server_that_ran_before_the_move_does_not_go_on_before_it_is_finished(file, database, process):
    with opened(database) as q:
        assert q.queues() == []
        asyncio.run(_kill_when_blocked(file, database))

        # Its connections were ended before: it may hear of that first.
        until(lambda: "was not finished" in refusal(q))
        assert process(f"migrate --from {file} --to {database}").code == 0
        until(lambda: "orders" in answered(q))

    # It may have begun to sweep away what is left of a queue that was deleted.
    alive = "SELECT count(*) FROM sqew_message WHERE queue_id IN (SELECT id FROM sqew_queue WHERE name IS NOT NULL)"
    with closing(apsw.Connection(str(file))) as connection:
        assert sql(database, alive)[0][0] == connection.execute(alive).get


def answered(q):
    """Return the names of the queues, or none while the database is unavailable."""
    with contextlib.suppress(StoreUnavailable):
        return [queue.name for queue in q.queues()]
    return []


def until(happened):
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_was_not_copied_is_not_deleted_to_begin_anew(file, interrupted, process):
    sql(interrupted, "INSERT INTO sqew_body (id, body) VALUES (999999, 'mine')")

    done = process(f"migrate --from {file} --to {interrupted} --restart")

    assert done.code == 4
    assert "has large bodies that were not copied: 1 of" in done.err
    assert sql(interrupted, "SELECT body FROM sqew_body WHERE id = 999999")[0][0] == b"mine"


def test_a_statement_of_a_move_takes_as_long_as_it_takes(monkeypatch):
    monkeypatch.setattr("sqew.stores.postgres.store._NO_ANSWER_S", -29)  # of 30 s, so that it is over in one

    async def sleep():
        async with copy._database(url) as connection:
            return await connection.fetchval("SELECT 1 FROM pg_sleep(1.2)")

    url = new_database()
    assert asyncio.run(sleep()) == 1


def test_a_file_that_was_used_meanwhile_is_not_gone_on_with(file, interrupted, process):
    with opened(file) as q:
        q.remove("orders", [q.peek("orders")[0].id])

    done = process(f"migrate --from {file} --to {interrupted}")

    assert done.code == 4
    assert "was used since the move was interrupted" in done.err


def test_a_move_can_be_begun_anew(file, interrupted, process):
    with opened(file) as q:
        q.remove("orders", [q.peek("orders")[0].id])
    before = answers(file)

    done = process(f"migrate --from {file} --to {interrupted} --restart --json")

    assert (done.code, done.json["resumed"]) == (0, False)
    assert answers(interrupted) == before


def test_another_files_move_is_not_gone_on_with(folder, interrupted, process):
    full_store.fill(folder / "other.db")

    done = process(f"migrate --from other.db --to {interrupted}")

    assert done.code == 4
    assert "Another file's move" in done.err


def test_a_database_that_is_in_use_is_refused(file, database, process):
    with opened(database) as q:
        q.create("theirs")

    done = process(f"migrate --from {file} --to {database}")

    assert done.code == 4
    assert "is in use already" in done.err
    with opened(database) as q:
        assert [info.name for info in q.queues()] == ["theirs", "theirs-dlq"]


def test_a_second_move_is_refused(file, moved, process):
    done = process(f"migrate --from {file} --to {moved}")

    assert done.code == 4
    assert "was moved into on" in done.err


def test_a_file_that_somebody_has_open_is_refused(file, database, process):
    with opened(file):
        done = process(f"migrate --from {file} --to {database}")

    assert done.code == 5
    assert "Stop the servers and workers that use it" in done.err


def test_what_postgresql_cant_store_is_named(file, database, process):
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute("UPDATE sqew_key SET key = 'a' || char(0) WHERE key = 'large one'")

    done = process(f"migrate --from {file} --to {database}")

    assert done.code == 2
    assert "Idempotency key 'a\\x00' of 'orders' in" in done.err
    assert "has the character NUL in its key" in done.err


def test_a_message_that_postgresql_cant_store_is_named_as_people_know_it(file, database, process):
    with closing(apsw.Connection(str(file))) as connection:
        marking = "UPDATE sqew_message SET leased_by = 'a' || char(0) WHERE queue_id = ? RETURNING id"
        orders = connection.execute("SELECT id FROM sqew_queue WHERE name = 'orders'").get
        ids = [id for (id,) in connection.execute(marking, (orders,)).fetchall()]

    done = process(f"migrate --from {file} --to {database}")

    assert done.code == 2
    assert done.err.startswith(f"sqew: Message {min(ids)} of 'orders' in")
    assert "has the character NUL in its consumer" in done.err


async def _interrupt_when_blocked(file, url):
    connection = await asyncpg.connect(url)
    await connection.execute(STOP_AT_TOPICS)
    child = await asyncio.create_subprocess_exec(
        SCRIPT, "migrate", "--from", file, "--to", url, env=environment(), stderr=asyncio.subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while not await connection.fetchval(BLOCKED):
        assert child.returncode is None
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = await child.communicate()
    copied = await connection.fetchval(
        "SELECT sum((value ->> 'rows')::int) FROM sqew_moving_in, json_each(progress::json)"
    )
    await connection.close()
    return child.returncode, said.decode(), copied


def test_who_interrupts_it_is_told_how_far_it_is_and_how_to_go_on(file, database):
    with opened(database):
        pass

    code, said, copied = asyncio.run(_interrupt_when_blocked(file, database))

    total = sum(count for name, count in rows_of(file).items() if name not in ("sqew_meta", "sqew_migration"))
    assert code == 130
    assert said == (
        f"sqew: Interrupted. {copied} of {total} rows are copied, and the file is as it was: "
        "run the same command again to go on from there.\n"
    )


def test_who_goes_on_sees_that_what_was_copied_is_checked(file, interrupted, monkeypatch):
    monkeypatch.setattr(copy, "_ROWS_AT_A_TIME", 1)
    reached = []

    asyncio.run(copy.move_in(str(file), interrupted, lambda *given: reached.append(given)))

    checking = [(done, total) for doing, done, total in reached if doing == "checking what was copied"]
    assert checking[-1][0] == checking[-1][1] == len(checking)
    assert reached[-1][0] == "copying rows"


async def _cut_off_when_blocked(file, url):
    """Start a move, and have the database end its connection while it runs."""
    async with contextlib.AsyncExitStack() as stack:
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        await connection.execute(STOP_AT_TOPICS)
        child = await asyncio.create_subprocess_exec(
            SCRIPT, "migrate", "--from", file, "--to", url, env=environment(), stderr=subprocess.PIPE
        )
        while not await connection.fetchval(BLOCKED):
            assert child.returncode is None
            await asyncio.sleep(0.01)
        await connection.execute(CUT_OFF)
        _, said = await child.communicate()
        return child.returncode, said.decode()


def test_a_move_whose_connection_is_ended_says_so_and_how_to_go_on(file, database):
    with opened(database):
        pass

    code, said = asyncio.run(_cut_off_when_blocked(file, database))

    assert code == 5
    assert "has ended the connection: " in said
    assert "Transaction" not in said
    assert "run the same command again to go on from there" in said


def test_without_a_place_to_go_to_it_asks_for_one(file, process):
    done = process("migrate")

    assert (done.code, done.err) == (2, "sqew: Say where to: --to postgresql://user@host/name, or SQEW_DATABASE_URL.\n")


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("other.db", "'other.db'"),
        ("mysql://app:s3cret@h/n", "'mysql://app:***@h/n'"),
        ("postgresql://app:s3/cret@h/n", "'postgresql://app:***@h/n'"),
    ],
)
def test_what_is_no_database_is_named_as_it_was_given_without_the_password(file, process, target, shown):
    done = process(f"migrate --to {target}")

    assert done.code == 2
    assert f"--to can't be {shown}: it must be a URL such as" in done.err
    assert "cret" not in done.err


def test_a_server_cant_be_moved(file, database, process):
    done = process(f"migrate --url http://127.0.0.1:9 --to {database}")

    assert done.code == 2
    assert "without --url" in done.err


def test_its_help_names_no_place_that_it_does_not_copy_from(process):
    shown = process("migrate --help").out

    assert "--from FILE" in shown
    assert "--db" not in shown
    assert "--url" not in shown


def test_a_file_that_is_not_there_is_refused(database, process):
    done = process(f"migrate --from nowhere.db --to {database}")

    assert done.code == 5
    assert "nowhere.db does not exist" in done.err


def test_a_database_that_is_not_there_is_refused_without_its_password(file, database, process):
    nowhere = database.rpartition("/")[0].replace("@", ":s3cret@") + "/nowhere"

    done = process(f"migrate --from {file} --to {nowhere}")

    assert done.code == 5
    assert "does not exist" in done.err
    assert "s3cret" not in done.err + done.out
