"""`sqew schedule …`, on a file and on a server."""

import re

import pytest

from tests.cli.places import busy_server, place

__all__ = ["busy_server", "place"]


@pytest.fixture(autouse=True)
def somewhere(place):
    """Run every test in each place."""


@pytest.fixture
def report(sqew):
    """Return a schedule that fires every weekday at 9 in Berlin."""
    words = ["--when", "every weekday at 9am", "--timezone", "Europe/Berlin", "--body", '{"kind": "daily"}']
    done = sqew(["schedule", "add", "--name", "report", "--queue", "orders", *words, "--json"])
    assert done.code == 0, done.err
    return done.json


def shown(sqew, name="report"):
    return sqew(f"schedule show --name {name} --json").json


def test_a_schedule_is_made_and_shown(sqew, report):
    assert shown(sqew) == report
    assert (report["when"], report["canonical"]) == ("every weekday at 9am", "0 9 * * 1-5")
    assert (report["target_kind"], report["target"], report["message"]) == ("queue", "orders", {"kind": "daily"})
    assert len(report["next_fires"]) == 5
    assert "T09:00:00+0" in report["next_fires"][0]["local"]


def test_people_see_when_it_fires(sqew, report):
    out = sqew("schedule show --name report").out

    assert "At 09:00 on weekdays, Europe/Berlin time" in out
    assert "given as    when: every weekday at 9am" in out
    local = r"2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d \+0[12]:00 \((in .*|.* ago|now)\)"
    assert all(re.search(f"^{name} +{local}$", out, re.MULTILINE) for name in ("next fire", "created", "changed"))
    titles = next(line for line in out.splitlines() if line.startswith("NEXT FIRES"))
    assert titles.split() == ["NEXT", "FIRES", "DAY", "UTC", "FROM", "NOW"]


def test_all_that_is_said_of_a_schedule_is_kept(sqew):
    sqew("queue update --name orders --lane fast --lane slow")

    made = sqew(
        "schedule add --name x --queue orders --every 90m --text hi --header a=b --priority 3 --lane slow --group g "
        "--delay 1s --ttl-ms 1m --catchup --catchup-limit 7 --failure-threshold none --paused --json"
    ).json

    assert (made["every"], made["message"], made["headers"], made["priority"]) == ("90m", "hi", {"a": "b"}, 3)
    assert (made["lane"], made["group"], made["delay_ms"], made["ttl_ms"]) == ("slow", "g", 1_000, 60_000)
    assert (made["catchup"], made["catchup_limit"], made["failure_threshold"]) == (True, 7, None)
    assert (made["status"], made["next_fires"]) == ("paused", [])


def test_the_body_is_kept_byte_for_byte(sqew):
    done = sqew(["schedule", "add", "--name", "x", "--queue", "orders", "--every", "5m", "--body", '{"a": 1.50}'])

    assert done.code == 0, done.err
    assert '{"a": 1.50}' in done.out


@pytest.mark.parametrize("command", ["add", "put"])
@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (["--body", "null"], "message", None),
        (["--body", '{"a": null}'], "message", {"a": None}),
        (["--body", "1", "--failure-threshold", "none"], "failure_threshold", None),
    ],
)
def test_a_null_in_a_schedule_ended_in_a_traceback(sqew, command, options, field, value):
    done = sqew(["schedule", command, "--name", "x", "--queue", "orders", "--every", "5m", *options, "--json"])

    assert done.code == 0, done.err
    assert shown(sqew, "x")[field] == value


@pytest.mark.parametrize("command", ["add", "put"])
def test_the_text_of_a_schedule_became_a_json_string_on_its_way_through_a_server(sqew, command):
    made = sqew(f"schedule {command} --name x --queue orders --every 5m --text hi --json").json
    sqew("schedule run --name x")

    (message,) = sqew("queue peek --name orders --json").json["messages"]
    assert (made["message"], made["format"]) == ("hi", "text")
    assert (message["payload"], message["format"]) == ("hi", "text")


def test_a_name_is_taken_once(sqew, report):
    done = sqew("schedule add --name report --queue orders --every 5m --body 1")

    assert done.code == 4
    assert done.err == "sqew: Schedule 'report' exists. Choose another name, or change the one that is there.\n"


def test_putting_the_same_again_changes_nothing(sqew):
    command = "schedule put --name tick --topic orders.tick --every 5m --body 1 --json"
    first = sqew(command).json

    assert sqew(command).json == first
    assert (first["target_kind"], first["target"]) == ("topic", "orders.tick")


def test_putting_replaces_the_whole(sqew, report):
    done = sqew("schedule put --name report --queue orders --cron @daily --body 1 --paused --json")

    assert (done.json["cron"], done.json["timezone"], done.json["status"]) == ("@daily", "UTC", "paused")
    assert "when" not in done.json


def test_schedules_are_listed(sqew, report):
    sqew("schedule add --name tick --topic orders.tick --every 5m --body 1 --paused")

    title, first, second = sqew("schedule list").out.splitlines()

    assert title.split() == ["NAME", "STATUS", "TO", "FIRES", "NEXT", "FIRE", "FIRED"]
    assert first.split()[:4] == ["report", "active", "queue", "orders"]
    assert " 09:00:00 +0" in first
    assert second.split()[:4] == ["tick", "paused", "topic", "orders.tick"]


def test_schedules_are_listed_by_what_they_are(sqew, report):
    sqew("schedule add --name tick --topic orders.tick --every 5m --body 1 --paused")

    def names(options):
        return [one["name"] for one in sqew(f"schedule list --json {options}").json["schedules"]]

    assert names("--status paused") == ["tick"]
    assert names("--target-kind queue") == ["report"]
    assert names("--prefix ti") == ["tick"]
    assert names("--limit 1") == ["report"]
    assert names("--after report") == ["tick"]


def test_there_may_be_none(sqew):
    done = sqew("schedule list")

    assert (done.code, done.out) == (0, "")
    assert "There are no schedules" in done.err


@pytest.mark.parametrize("options", ["--status paused", "--target-kind topic", "--prefix x", "--after z"])
def test_a_list_that_matches_nothing_said_that_there_are_no_schedules(sqew, report, options):
    done = sqew(f"schedule list {options}")

    assert (done.code, done.out, done.err) == (0, "", "No schedule is like that.\n")


def test_a_schedule_is_paused_and_resumed(sqew, report):
    assert sqew("schedule pause --name report").out == "Paused schedule 'report'.\n"
    assert shown(sqew)["status"] == "paused"

    assert "NEXT FIRES" in sqew("schedule resume --name report").out
    assert shown(sqew)["status"] == "active"


def test_an_edit_leaves_the_rest_as_it_is(sqew, report):
    done = sqew("schedule edit --name report --priority 5 --cron '0 8 * * *' --json")

    assert (done.json["priority"], done.json["cron"], done.json["timezone"]) == (5, "0 8 * * *", "Europe/Berlin")
    assert done.json["message"] == {"kind": "daily"}


def test_a_schedule_is_deleted(sqew, report):
    assert sqew("schedule rm --name report --yes").out == "Deleted schedule 'report'.\n"

    assert sqew("schedule rm --name report --yes").code == 3


def test_a_run_sends_at_once(sqew, report):
    done = sqew("schedule run --name report")

    assert done.out == "Fired schedule 'report': sent 1 message.\n"
    (message,) = sqew("queue peek --name orders --json").json["messages"]
    assert message["headers"]["_schedule"]["out_of_band"] is True


def test_a_run_tells_how_many_will_be_posted(sqew):
    sqew("subscription add --pattern orders.* --endpoint http://127.0.0.1:9/")
    sqew("schedule add --name tick --topic orders.tick --every 1d --body 1")

    assert sqew("schedule run --name tick").out == "Fired schedule 'tick': sent 0 messages, and 1 to post.\n"


def test_a_run_tells_machines_what_it_sent(sqew, report):
    fired = sqew("schedule run --name report --json").json

    (message,) = sqew("queue peek --name orders --json").json["messages"]
    assert (fired["schedule"], fired["msg_ids"], fired["deliveries"]) == ("report", [message["id"]], 0)


def test_a_queue_that_does_not_exist_yet_is_told(sqew):
    made = sqew("schedule add --name x --queue order --every 5m --body 1 --jitter-secs 30")

    assert (made.code, "did you mean 'orders'" in made.out) == (0, True)
    assert re.search(r"jitter +up to 30 s", made.out)
    shown = sqew("schedule show --name x --json").json
    assert shown["problem"].startswith("Queue 'order' does not exist")
    assert shown["jitter_secs"] == 30


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("add --name x --every 5m --body 1", 2, "--queue or --topic"),
        ("add --name x --queue orders --body 1", 2, "--cron, --every, --when or --fire-at"),
        ("add --name x --queue orders --every 5m", 2, "--body or --text"),
        ("add --name x --queue orders --topic a --every 5m --body 1", 2, "--queue and --topic contradict"),
        (
            "add --name x --queue orders --every 5m --cron @daily --body 1",
            2,
            "--cron and --every contradict",
        ),
        ("edit --name x --when today --fire-at 2020-01-01T00:00", 2, "one of --cron, --every, --when, --fire-at"),
        ("add --name x --queue orders --cron '0 25 * * *' --body 1", 2, "position 3"),
        ("add --name x --queue orders --when 'evry day' --body 1", 2, "Nearest forms"),
        ("add --name x --queue orders --fire-at 2020-01-01T00:00 --body 1", 2, "in the past"),
        ("add --name x --queue orders --every 5m --body 1 --timezone Europe/Berlni", 2, "Europe/Berlin"),
        ("add --name 'a b' --queue orders --every 5m --body 1", 2, "can't be a schedule's name"),
        ("add --name x --queue orders --every 5m --body oops", 2, "Quote it for the shell"),
        ("add --name x --queue orders --every 5m --body 1 --lane fast", 2, "no lane 'fast'"),
        ("add --name x --queue orders --every 5m --body 1 --failure-threshold x", 2, "or none"),
        ("show --name nowhere", 3, "There is no schedule 'nowhere'"),
        ("pause --name nowhere", 3, "There is no schedule 'nowhere'"),
        ("run --name nowhere", 3, "There is no schedule 'nowhere'"),
        ("edit --name nowhere --priority 1", 3, "There is no schedule 'nowhere'"),
        ("edit --name nowhere", 2, "Say what to change"),
    ],
)
def test_a_mistake_is_told(sqew, command, code, words):
    done = sqew(f"schedule {command}")

    assert done.code == code
    assert words in done.err
    assert sqew("schedule list --json").json == {"schedules": []}


def test_deleting_needed_a_yes_where_nobody_can_be_asked(sqew, report):
    done = sqew("schedule rm --name report")

    assert done.out == "Deleted schedule 'report'.\n"
    assert sqew("schedule list --json").json == {"schedules": []}
