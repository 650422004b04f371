"""Servers started like the programs whose routes they have: with their flags and their variables."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqew.cli.main import sqew as root
from tests.support.postgres import fetch_column, new_database
from tests.support.serving import launching

PAGE = Path(__file__).parents[2] / "docs" / "http.md"


def said(server, event):
    """Return the first line of the log about an event."""
    return next(
        line for line in map(json.loads, server.log.read_text().splitlines()) if line["event"].startswith(event)
    )


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_a_database_url_in_the_environment_was_ignored_and_a_new_file_made(tmp_path):
    database = new_database()

    with launching(tmp_path, "--port", "0", env={"DATABASE_URL": database}) as server:
        assert server.call("POST", "/v1/queues", {"name": "jobs"}).status == 201
        assert server.call("POST", "/v1/queues/jobs/messages", {"message": 1}).status == 201
        where = said(server, "listening")

    assert not list(tmp_path.glob("*.db*"))
    assert where["database"].endswith(database.rpartition("/")[2])
    assert "jobs" in fetch_column(database, "SELECT name FROM sqew_queue")


def test_the_variables_of_the_seed_do_what_they_say_on_a_database(tmp_path):
    database, port = new_database(), free_port()
    env = {
        "DATABASE_URL": database,
        "QUEUE_ADDRESS": f"127.0.0.1:{port}",
        "QUEUE_BASE_URL": "http://queue.example.com:9324",
        "QUEUE_DEFAULT_VISIBILITY_TIMEOUT": "7",
        "QUEUE_MAX_CONNECTIONS": "5",
        "QUEUE_LINGER_MS": "2",
        "QUEUE_SCHEDULE_PREVIEW_COUNT": "2",
        "QUEUE_SCHEDULE_LIST_MAX": "1",
        "LOG_LEVEL": "beyond_queue=debug,info",
    }
    credentials = {"Authorization": "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sqs/aws4_request"}

    def ask(server, action, **fields):
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0", **credentials}
        return server.call("POST", "/", fields, headers).json

    with launching(tmp_path, env=env) as server:
        assert server.port == port
        url = ask(server, "CreateQueue", QueueName="jobs")["QueueUrl"]
        assert url == "http://queue.example.com:9324/000000000000/jobs"
        attributes = ask(server, "GetQueueAttributes", QueueUrl=url, AttributeNames=["VisibilityTimeout"])
        assert attributes["Attributes"] == {"VisibilityTimeout": "7"}
        explicit = ask(server, "CreateQueue", QueueName="slow", Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
        attributes = ask(server, "GetQueueAttributes", QueueUrl=explicit, AttributeNames=["VisibilityTimeout"])
        assert attributes["Attributes"] == {"VisibilityTimeout": "60"}
        made = server.call("POST", "/v1/queues", {"name": "plain"}).json
        assert made["policy"]["visibility_ms"] == 7_000
        preview = server.call("POST", "/v1/previews", {"cron": "0 9 * * *"}).json
        assert len(preview["next_fires"]) == 2
        ask(server, "SendMessage", QueueUrl=url, MessageBody="m")
        sessions = fetch_column(
            database, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert len(sessions) <= 5


@pytest.mark.parametrize("form", ["postgresql+asyncpg://{}", "POSTGRES://{}", '"postgresql://{}"', " postgres://{}\n"])
def test_a_database_url_as_other_programs_write_it_made_a_new_file(tmp_path, form):
    given = form.format(new_database().removeprefix("postgresql://"))

    with launching(tmp_path, "--port", "0", env={"DATABASE_URL": given}) as server:
        assert "database" in said(server, "listening")

    assert not list(tmp_path.glob("*.db*"))


def test_a_changed_default_of_visibility_refused_to_make_the_queues_that_were_there(tmp_path):
    for seconds in ("30", "7"):
        env = {"QUEUE_DEFAULT_VISIBILITY_TIMEOUT": seconds}
        with launching(tmp_path, "--port", "0", env=env) as server:
            assert server.call("POST", "/v1/queues", {"name": "jobs"}).status == 201
            assert server.call("POST", "/queues", {"name": "orders"}).status == 201


def test_fewer_connections_than_a_server_needs_were_exceeded_without_a_word(tmp_path):
    env = {"DATABASE_URL": new_database(), "QUEUE_MAX_CONNECTIONS": "2"}

    with launching(tmp_path, "--port", "0", env=env) as server:
        assert said(server, "QUEUE_MAX_CONNECTIONS allows 2 connections, and a server needs 3")["level"] == "warning"


def test_a_misspelt_variable_is_a_warning_and_the_server_runs(tmp_path):
    with launching(tmp_path, "--port", "0", env={"QUEUE_LINGER": "5", "QUEUE_CONNECTION": "redis"}) as server:
        assert "QUEUE_LINGER_MS" in said(server, "The environment variable QUEUE_LINGER sets nothing here")["event"]
        assert said(server, "The environment variable QUEUE_CONNECTION")["level"] == "warning"
        assert server.call("GET", "/livez").status == 200


def test_a_file_that_is_named_wins_over_the_database_that_others_share_and_the_log_says_so(tmp_path):
    env = {"DATABASE_URL": "postgresql://shop:hush@db.example.com/shop", "SQEW_DB": "own.db"}

    with launching(tmp_path, "--port", "0", env=env) as server:
        assert said(server, "The queues are in own.db")["level"] == "warning"
        assert said(server, "listening")["db"] == "own.db"
        assert "hush" not in server.log.read_text()


@pytest.mark.parametrize("name", ["SQEW_LINGER_MS", "QUEUE_LINGER_MS"])
def test_a_linger_on_a_file_did_nothing(tmp_path, name):
    command = [sys.executable, "-m", "sqew", "serve", "--port", "0"]

    done = subprocess.run(command, env={name: "5"}, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert f"linger_ms can't be 5 ms here (environment {name}): the queues are in a file" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "flags", [["-p", "{port}", "-d", "hq.db", "-r", "20"], ["--port", "{port}", "--database", "hq.db"]]
)
def test_the_flags_of_hq_start_a_server(tmp_path, flags):
    port = free_port()

    with launching(tmp_path, *(flag.format(port=port) for flag in flags)) as server:
        assert server.port == port
        assert said(server, "listening")["db"] == "hq.db"
        created = "/queues?name=jobs&max_attempts=5&visibility_timeout_seconds=30"
        assert server.call("POST", created).status in (200, 201)
        assert "message_id" in server.call("POST", "/queues/jobs/enqueue", {"a": 1}).json

    assert (tmp_path / "hq.db").exists()


def test_a_request_timeout_of_hq_counts_seconds(tmp_path):
    with launching(tmp_path, "-p", "0", "-r", "0.9") as server:
        server.call("POST", "/queues", {"name": "jobs"})

        answer = server.call("POST", "/queues/jobs/poll?wait_ms=20000")

    assert answer.status in (200, 408)


@pytest.mark.parametrize("given", ["0", "3601", "soon"])
def test_a_bad_request_timeout_of_hq_was_explained_as_a_flag_that_was_not_given(given):
    done = CliRunner().invoke(root, ["serve", "-r", given])

    assert done.exit_code == 2
    assert f"'-r' / '--request-timeout': '{given}' is not a number from 0.1 to 3600." in done.stderr


def test_the_database_flag_of_hq_takes_the_url_of_a_database_too(tmp_path):
    with launching(tmp_path, "-p", "0", "-d", new_database()) as server:
        assert "database" in said(server, "listening")


def test_the_mailbox_starts_with_the_variables_of_its_seed(tmp_path):
    port = free_port()
    env = {"LISTEN_ADDR": f"127.0.0.1:{port}", "DB_PATH": "./mail.db", "AUTH_TOKEN": "t", "GET_LIMIT_DEFAULT": "2"}

    with launching(tmp_path, env=env) as server:
        bearer = {"Authorization": "Bearer t"}
        for body in ("a", "b", "c"):
            assert server.call("POST", "/v1/messages", {"body": body}, bearer).status == 201
        assert len(server.call("GET", "/v1/messages", headers=bearer).json) == 2
        assert server.call("GET", "/v1/messages").status == 401

    assert server.port == port
    assert (tmp_path / "mail.db").exists()


@pytest.mark.parametrize("given", ["127.0.0.1:{}", "localhost:{}"])
def test_a_server_listens_where_sqew_bind_says(tmp_path, given):
    port = free_port()

    with launching(tmp_path, env={"SQEW_BIND": given.format(port)}) as server:
        where = said(server, "listening")

    assert f":{port}" in json.dumps(where)


def test_sqew_bind_may_name_an_address_alone_and_flags_the_port(tmp_path):
    with launching(tmp_path, "--port", "0", env={"SQEW_BIND": "127.0.0.1"}) as server:
        assert server.call("GET", "/health").status == 200


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"SQEW_BIND": "0.0.0.0"}, "token"),
        ({"SQEW_BIND": ":8888"}, "token"),
        ({"SQEW_BIND": "::"}, "token"),
        ({"SQEW_BIND": "127.0.0.1:http"}, "port can't be 'http' (environment SQEW_BIND)"),
        ({"SQEW_BIND": "127.0.0.1:99999"}, "port can't be '99999' (environment SQEW_BIND)"),
        ({"SQEW_BINDD": "127.0.0.1"}, "did you mean 'SQEW_BIND'?"),
        ({"SQEW_BIND": "no.such.host.invalid:0"}, "no.such.host.invalid"),
    ],
)
def test_a_server_that_sqew_bind_has_nowhere_to_listen_at_says_so(tmp_path, env, told):
    run = subprocess.run(
        [sys.executable, "-m", "sqew", "serve"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert run.returncode == 2
    assert told in run.stderr


def test_sqew_bind_is_not_used_where_our_own_variables_say_something_else_and_a_warning_says_so(tmp_path):
    env = {"SQEW_BIND": "127.0.0.1:1", "SQEW_PORT": "0", "SQEW_HOST": "localhost"}

    with launching(tmp_path, env=env) as server:
        warning = "The environment variable SQEW_BIND is not used"
        log = server.log.read_text()

    assert f"{warning}: port is what environment SQEW_PORT says." in log
    assert f"{warning}: host is what environment SQEW_HOST says." in log


@pytest.mark.parametrize(
    "line", ["sqew serve -p 9999 -d hq.db", "LISTEN_ADDR=127.0.0.1:8080 AUTH_TOKEN=secret sqew serve"]
)
def test_the_page_has_the_line_that_starts_each_dialect_as_its_seed_does(line):
    assert line in PAGE.read_text()
