"""`plainbench` as it is typed: init, topic, ingest, stats, drivers, and its answers to mistakes."""

import json
import re
import signal
import sqlite3
import subprocess
import sys

import pytest

from plainbench.cli.main import COMMANDS
from plainbench.config.load import load
from sqew.embedded import Queue
from sqew.installing import pip_install
from tests.plainbench.conftest import environment_of_children


@pytest.fixture
def begun(plainbench):
    """Run `plainbench init` in an empty folder."""
    assert plainbench("init").code == 0
    return plainbench


def shorten(folder):
    """Make the workload of `plainbench init` end after two seconds."""
    path = folder / "plainbench.yaml"
    text = path.read_text()
    assert "for_s: 10 " in text
    path.write_text(text.replace("for_s: 10 ", "for_s: 2 "))


def lines(path, *bodies):
    path.write_text("".join(f"{json.dumps(body)}\n" for body in bodies))


def test_help_lists_every_command_without_loading_any(plainbench):
    done = plainbench("--help")

    assert done.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.out


def test_a_command_that_does_not_exist_is_told_with_the_nearest(plainbench):
    done = plainbench("ingset")

    assert done.code == 2
    assert done.err == ("plainbench: There is no command 'ingset' (did you mean 'ingest'?). See `plainbench --help`.\n")


def test_a_setting_of_the_server_is_no_option_here(plainbench):
    assert plainbench("init --port 1").code == 2
    assert plainbench("--durability fast init").code == 2


def test_of_an_option_that_was_given_twice_only_the_last_was_kept(plainbench):
    done = plainbench("run --config a.yaml --config b.yaml")

    assert done.code == 2
    assert done.err.startswith("plainbench: --config takes one value and was given 2 times. Give it once.")


def test_init_writes_a_configuration_that_can_be_read(begun, tmp_path):
    assert load(tmp_path / "plainbench.yaml").topics[0].name == "orders"


def test_init_does_not_write_over_what_is_there(begun, tmp_path):
    (tmp_path / "plainbench.yaml").write_text("mine")

    done = begun("init")

    assert done.code == 4
    assert "--force" in done.err
    assert (tmp_path / "plainbench.yaml").read_text() == "mine"


def test_init_writes_over_what_is_there_by_force(begun, tmp_path):
    (tmp_path / "plainbench.yaml").write_text("mine")

    assert begun("init --force").code == 0
    assert load(tmp_path / "plainbench.yaml").topics


def test_init_may_name_another_file_or_folder(plainbench, tmp_path):
    done = plainbench("init bench/mine.yaml")

    assert done.out == "Wrote bench/mine.yaml. Run it: plainbench run --config bench/mine.yaml\n"
    assert plainbench("init bench").code == 0
    assert load(tmp_path / "bench" / "mine.yaml") == load(tmp_path / "bench" / "plainbench.yaml")


def test_commands_without_a_configuration_say_how_to_get_one(plainbench):
    done = plainbench("stats")

    assert done.code == 3
    assert done.err == (
        "plainbench: There is no plainbench.yaml. Write one by `plainbench init`, or name yours by --config.\n"
    )


def test_a_bad_configuration_is_told_with_its_line(plainbench, tmp_path):
    (tmp_path / "plainbench.yaml").write_text("topics:\n  - name: orders\n    lanse: []\n")

    done = plainbench("stats")

    assert done.code == 2
    assert done.err.startswith(
        "plainbench: plainbench.yaml, line 3: topics[0] has no key 'lanse' (did you mean 'lanes'?)"
    )


def test_a_topic_that_the_configuration_has_is_made_in_the_queue(begun, tmp_path):
    done = begun("topic create orders --lanes priority,normal")

    assert done.code == 0
    with Queue.open(tmp_path / "queue.db") as queue:
        assert queue.info("orders").policy.lanes == {"priority": 3, "normal": 1}


def test_a_new_topic_is_added_to_the_configuration_and_the_rest_stays(begun, tmp_path):
    before = (tmp_path / "plainbench.yaml").read_text()

    done = begun("topic create bulk --lanes fast=4,slow --max-attempts 2 --base-backoff-ms 10 --json")

    assert done.json["added"]
    after = (tmp_path / "plainbench.yaml").read_text()
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert [line.strip() for line in added] == [
        "- name: bulk", "lanes:", "- name: fast", "weight: 4", "- name: slow", "max_attempts: 2", "base_backoff_ms: 10",
    ]  # fmt: skip
    topics = load(tmp_path / "plainbench.yaml").topics
    assert [topic.name for topic in topics] == ["orders", "bulk"]
    assert [(lane.name, lane.weight) for lane in topics[1].lanes] == [("fast", 4), ("slow", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "topics:\n- name: orders\n",
        "topics:\n    - {name: orders}\n# end",
        "seed: 1\ntopics:\n  - name: orders\nmode: real",
    ],
)
def test_a_topic_is_added_in_the_form_of_the_others(plainbench, tmp_path, text):
    (tmp_path / "plainbench.yaml").write_text(text)

    assert plainbench("topic create 'no'").code == 0

    assert [topic.name for topic in load(tmp_path / "plainbench.yaml").topics] == ["orders", "no"]
    for line in text.splitlines():
        assert line in (tmp_path / "plainbench.yaml").read_text()


def test_topics_in_a_form_that_can_t_be_added_to_are_left_alone(plainbench, tmp_path):
    (tmp_path / "plainbench.yaml").write_text("topics: [{name: orders}]\n")

    done = plainbench("topic create bulk")

    assert done.code == 2
    assert "Write 'bulk' into it" in done.err
    assert (tmp_path / "plainbench.yaml").read_text() == "topics: [{name: orders}]\n"


def test_a_topic_that_the_configuration_has_otherwise_is_refused(begun):
    done = begun("topic create orders --lanes fast,slow")

    assert done.code == 4
    assert "with other lanes" in done.err


def test_a_name_that_no_queue_may_have_leaves_the_configuration_as_it_was(begun, tmp_path):
    before = (tmp_path / "plainbench.yaml").read_text()

    done = begun("topic create 'a b'")

    assert done.code == 2
    assert "can't be a queue's name" in done.err
    assert (tmp_path / "plainbench.yaml").read_text() == before


@pytest.mark.parametrize("lanes", ["a,,b", "a=0", "a=x", "=1", ""])
def test_lanes_that_make_no_sense_are_refused(begun, lanes):
    done = begun(["topic", "create", "x", f"--lanes={lanes}"])

    assert done.code == 2
    assert "as in priority=3,normal=1" in done.err


def test_the_lines_of_files_are_put_into_a_lane(begun, tmp_path):
    (tmp_path / "fixtures").mkdir()
    lines(tmp_path / "fixtures" / "a.jsonl", {"id": 1}, {"id": 2})
    lines(tmp_path / "fixtures" / "b.jsonl", {"id": 3})

    done = begun("ingest jsonl fixtures/*.jsonl --topic orders --lane normal")

    assert done.code == 0
    assert done.out.startswith("Sent 3 messages (")
    assert "durable: synchronous=FULL" in done.out
    stats = begun("stats --topic orders --json").json
    assert stats["topics"]["orders"]["normal"]["ready"] == 3


def test_rows_of_csv_are_put_into_a_topic(begun, tmp_path):
    (tmp_path / "a.csv").write_text("id|name\n1|x\n2\n")

    done = begun("ingest csv a.csv --topic orders --delimiter '|' --json")

    assert (done.json["sent"], done.json["rejected"]) == (1, 1)
    [reject] = map(json.loads, (tmp_path / "ingest" / "rejects" / "orders.jsonl").read_text().splitlines())
    assert reject["line"] == 3


def test_ctrl_c_ends_an_ingest_and_the_same_command_goes_on(begun, tmp_path):
    lines(tmp_path / "a.jsonl", *range(100_000))
    command = ["ingest", "jsonl", "a.jsonl", "--topic", "orders", "--lane", "normal"]
    child = subprocess.Popen(
        [sys.executable, "-m", "plainbench.cli.main", *command],
        cwd=tmp_path, env=environment_of_children(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "ingest" / "orders.progress.json").exists():
        assert child.poll() is None

    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    again = begun(command)

    assert child.returncode == 130
    assert "The same command goes on from there." in said
    assert again.err.startswith("Going on after the ")
    assert begun("stats --json").json["topics"]["orders"]["normal"]["ready"] == 100_000


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("none.jsonl --topic orders", 2, "There is no file"),
        ("a.jsonl --topic order", 3, "There is no topic 'order' (did you mean 'orders'?)"),
        ("a.jsonl --topic orders --lane nrmal", 2, "has no lane 'nrmal' (did you mean 'normal'?)"),
        ("a.jsonl", 2, "--topic"),
    ],
)
def test_an_ingest_that_can_t_be_is_told_why(begun, tmp_path, arguments, code, said):
    lines(tmp_path / "a.jsonl", 1)

    done = begun(f"ingest jsonl {arguments}")

    assert done.code == code
    assert said in done.err


def test_a_fifo_topic_is_filled_by_group(begun, tmp_path):
    lines(tmp_path / "a.jsonl", {"customer": "x"}, {"customer": "y"})
    assert begun("topic create jobs.fifo --fifo").code == 0

    assert "--group-by" in begun("ingest jsonl a.jsonl --topic jobs.fifo").err
    assert begun("ingest jsonl a.jsonl --topic jobs.fifo --group-by customer").code == 0

    with Queue.open(tmp_path / "queue.db") as queue:
        assert [message.group for message in queue.peek("jobs.fifo", limit=5)] == ["x", "y"]


def test_stats_make_no_queue_where_there_is_none(begun, tmp_path):
    done = begun("stats")

    assert done.code == 0
    assert done.err == "Nothing was put into the topics yet.\n"
    assert not (tmp_path / "queue.db").exists()


def test_stats_show_depths_and_what_the_last_run_measured(begun, tmp_path):
    shorten(tmp_path)
    assert begun("run --mode virtual").code == 0
    lines(tmp_path / "a.jsonl", 1, 2)
    begun("ingest jsonl a.jsonl --topic orders --lane priority")

    shown, document = begun("stats --topic orders").out, begun("stats --json").json

    assert "in virtual time" in shown
    assert document["topics"]["orders"]["priority"]["ready"] == 2
    figures = document["last_run"]["figures"]
    assert [(figure["topic"], figure["lane"]) for figure in figures] == [
        ("orders", ""), ("orders", "normal"), ("orders", "priority"),
    ]  # fmt: skip
    assert figures[0]["to_ack"]["p99"] > 0
    run = tmp_path / "runs" / document["last_run"]["run"]
    assert begun(f"stats --json --run {run}").json == document["last_run"]


def test_drivers_are_listed_with_what_they_need(plainbench):
    done = plainbench("drivers --json")

    found = {driver["name"]: driver for driver in done.json}
    assert set(found) == {"sqew", "sqew-http", "sqs", "redis", "rabbitmq", "pgqueuer"}
    assert found["sqew"]["virtual_time"]
    assert found["sqew"]["missing"] == []
    assert "boto3" in found["sqs"]["needs"]


def test_a_driver_without_its_package_says_how_to_install_it(tmp_path):
    hidden = "import sys; sys.modules['redis'] = None; from plainbench.cli.main import main; main()"
    (tmp_path / "plainbench.yaml").write_text("target: {driver: redis}\ntopics: [{name: orders}]")

    def plainbench(*words):
        environment = environment_of_children()
        return subprocess.run(
            [sys.executable, "-c", hidden, *words], capture_output=True, text=True, cwd=tmp_path, env=environment
        )

    listed = plainbench("drivers").stdout
    # By the sentence of `run`: a bare pip may be another Python's.
    assert f"no: {pip_install('redis')}" in listed
    assert re.search(r"redis +Redis\b", listed)
    assert "redis://" in plainbench("drivers", "redis").stdout
    refused = plainbench("run")
    assert "This driver needs the package redis: " in refused.stderr
    assert f"{pip_install('redis')}." in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_driver_of_sqews_that_is_not_there_is_no_package_to_install(plainbench):
    done = plainbench("drivers plainbench.drivers.sqz:SqsDriver")

    assert done.code == 2
    assert "there is no module plainbench.drivers.sqz" in done.err
    assert "pip install" not in done.err


def test_a_driver_is_shown_with_its_options(plainbench):
    done = plainbench("drivers sqew-http")

    assert done.code == 0
    assert "url" in done.out


def test_a_driver_that_does_not_exist_is_told_with_the_nearest(plainbench):
    done = plainbench("drivers rabitmq")

    assert done.code == 2
    assert "Did you mean rabbitmq?" in done.err


def test_the_command_line_of_the_seed_works_as_it_stands(plainbench, tmp_path):
    (tmp_path / "fixtures" / "orders").mkdir(parents=True)
    lines(tmp_path / "fixtures" / "orders" / "1.jsonl", *({"id": number} for number in range(50)))

    assert plainbench("init").code == 0
    shorten(tmp_path)
    for command in (
        "topic create orders --lanes priority,normal",
        "ingest jsonl fixtures/orders/*.jsonl --topic orders --lane normal",
        "run --config plainbench.yaml",
        "stats --topic orders",
    ):
        done = plainbench(command)
        assert done.code == 0, (command, done)
    [manifest] = (tmp_path / "runs").glob("*/manifest.json")
    done = plainbench(["replay", "--from", str(manifest)])

    assert done.code == 0, done
    with sqlite3.connect(tmp_path / "queue.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
