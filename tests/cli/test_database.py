"""The command line on a PostgreSQL database: the same commands, the same answers."""

import pytest

from tests.cli.test_seed_commands import LINES
from tests.stores.test_sync_commit import NOTED
from tests.support.postgres import fetch_column, new_database

LINES_OF_A_DATABASE = [line for line in LINES if not line.startswith("queue compact")]


@pytest.fixture
def database(reused_database, monkeypatch):
    """Return the URL of an empty database, which the environment names."""
    reused_database.empty()
    monkeypatch.setenv("SQEW_DATABASE_URL", reused_database.url)
    return reused_database.url


@pytest.fixture
def filled(database, sqew, folder):
    """Fill orders with two messages that were received once, two more, and one dead letter."""
    assert sqew("queue add --name orders").code == 0
    (folder / "lines.ndjson").write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n{"n": 4}\n')
    assert sqew("message enqueue --queue orders --file lines.ndjson").code == 0
    assert sqew("message enqueue --queue orders --priority 9 --text dead").code == 0
    assert sqew("message poll --queue orders").code == 0
    assert sqew("message nack --queue orders --ids 5 --dead").code == 0
    assert sqew("message poll --queue orders --batch 2 --lease-ms 1h").code == 0


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("line", LINES_OF_A_DATABASE)
def test_a_line_of_the_seed_works_on_a_database(sqew, line):
    done = sqew(line)

    assert (done.code, done.err) == (0, "")
    assert done.out


def test_a_flag_names_the_database(database, process):
    assert process(f"--database-url {database} queue add --name orders", SQEW_URL="http://127.0.0.1:9").code == 0

    listed = process(f"queue list --json --database-url {database}", SQEW_URL="http://127.0.0.1:9")

    assert [queue["name"] for queue in listed.json["queues"]] == ["orders", "orders-dlq"]


def test_a_file_that_a_flag_names_is_meant_whatever_is_set(database, sqew, folder):
    assert sqew("queue add --name elsewhere --db own.db").code == 0

    assert (folder / "own.db").exists()
    assert sqew("queue list --json").json["queues"] == []


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--db own.db --database-url postgresql://h/n", "--db names a file and --database-url a database."),
        ("--url http://h --database-url postgresql://h/n", "--database-url a database and --url a server."),
    ],
)
def test_two_places_are_one_too_many(sqew, flags, sentence):
    done = sqew(f"queue list {flags}")

    assert (done.code, done.err) == (2, f"sqew: {sentence} Give one of the two.\n")


@pytest.mark.parametrize(
    ("line", "instead"),
    [("backup copy.db", "pg_dump"), ("check", "pg_amcheck"), ("queue compact --name orders", "autovacuum")],
)
def test_what_is_postgresqls_business_is_left_to_it(database, sqew, line, instead):
    done = sqew(line)

    assert done.code == 2
    assert instead in done.err
    assert done.err.count("\n") == 1


def test_health_names_the_database(database, sqew):
    sqew("queue add --name orders")

    assert sqew("health --json").json == {"status": "ok", "database": database, "queues": 2}


def test_keys_and_certificates_are_kept(database, sqew):
    sqew("queue add --name orders")

    assert sqew("key add --queue orders --scope send --label shop").code == 0
    assert sqew("key list --queue orders --json").json["keys"][0]["label"] == "shop"
    assert sqew("certificate show").out.startswith("-----BEGIN CERTIFICATE-----")


def test_what_was_exported_is_imported_again(database, sqew, folder):
    sqew("queue add --name orders")
    (folder / "lines.ndjson").write_text("1\n2\n3\n")
    sqew("message enqueue --queue orders --file lines.ndjson")

    assert sqew("export --queue orders --output all.ndjson").code == 0
    assert sqew("import --queue orders --file all.ndjson").code == 0

    assert sqew("queue show --name orders --json").code == 0
    assert sqew("stats --queue orders --json").json["depths"]["lanes"]["normal"]["ready"] == 6


def test_to_look_into_a_database_without_queues_makes_none(sqew, monkeypatch):
    monkeypatch.setenv("SQEW_DATABASE_URL", new_database("template0"))

    for _ in range(2):
        done = sqew("queue list")
        assert done.code == 5
        assert "holds no queues" in done.err


def test_a_database_that_is_not_there_is_told_without_its_password(database, sqew, monkeypatch):
    monkeypatch.setenv("SQEW_DATABASE_URL", database.rpartition("/")[0].replace("@", ":s3cret@") + "/nowhere")

    done = sqew("queue list")

    assert done.code == 5
    assert "createdb -O sqew nowhere" in done.err
    assert "s3cret" not in done.err


def test_health_in_json_is_json_when_the_database_is_away_too(sqew):
    done = sqew("health --json --database-url postgresql://sqew:s3cret@127.0.0.1:1/queues")

    assert done.code == 5
    assert (done.json["status"], done.json["error"]["code"]) == ("degraded", "store_unavailable")
    assert "s3cret" not in done.out + done.err


def test_the_settings_show_the_database_without_its_password(sqew):
    url = "postgresql://sqew:s3cret@/queues?host=/run/postgresql&password=s3cret&port=5433"

    shown = sqew(["config", "show", "--database-url", url])

    assert "postgresql://sqew@/queues?host=/run/postgresql&port=5433" in shown.out
    assert "s3cret" not in shown.out


@pytest.mark.parametrize("command", ["--help", "serve --help"])
def test_the_help_tells_of_databases(sqew, command):
    assert "--database-url URL" in sqew(command).out


@pytest.mark.parametrize(("flag", "setting"), [("", "on"), ("--sync-commit", "on"), ("--no-sync-commit", "off")])
def test_a_send_chooses_whether_to_wait_for_the_disk(sqew, monkeypatch, folder, flag, setting):
    url = new_database()
    fetch_column(url, NOTED)
    monkeypatch.setenv("SQEW_DATABASE_URL", url)
    (folder / "lines.ndjson").write_text("1\n2\n")
    sqew("queue add --name orders")

    sqew(f"message enqueue --queue orders --payload 1 {flag}")
    sqew(f"message enqueue --queue orders --file lines.ndjson {flag}")

    assert set(fetch_column(url, "SELECT setting FROM waited")) == {setting}


def test_on_a_terminal_a_complaint_breaks_between_words(terminal):
    shown = terminal("queue list --database-url postgresql://sqew@127.0.0.1:1/queues", COLUMNS="60").out

    lines = shown.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
    assert " ".join(lines).endswith("Check host and port, and whether it runs.")
