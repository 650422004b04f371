"""Output on a terminal and in a pipe."""

import re
import subprocess

import pytest

from sqew.terminal.output import byte_count, moment, relative, shown
from tests.cli.conftest import SCRIPT, environment

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def mail(sqew):
    sqew("queue add --name mail")
    for n in range(3):
        sqew(["message", "enqueue", "--queue", "mail", "--payload", f'{{"n": {n}, "text": "{"long " * 40}"}}'])


@pytest.mark.usefixtures("mail")
def test_in_a_pipe_tables_are_aligned_text(process):
    head, first, second = process("queue list").out.splitlines()

    assert head.split() == [
        "NAME",
        "READY",
        "DELAYED",
        "LEASED",
        "DEAD",
        "MAX",
        "ATTEMPTS",
        "VISIBILITY",
        "DEAD",
        "LETTERS",
    ]
    assert head.index("READY") + len("READY") == first.index("3") + 1
    assert second.startswith("mail-dlq")


@pytest.mark.usefixtures("mail")
def test_in_a_pipe_nothing_is_cut_off(process):
    assert process("queue peek --name mail").out.count("long " * 40) == 3


@pytest.mark.usefixtures("mail")
def test_on_a_terminal_a_list_has_a_line_to_each_message(terminal):
    drawn = terminal("queue peek --name mail", COLUMNS="80").out.splitlines()

    assert len(drawn) == 2 + 3
    assert all(len(ESCAPE.sub("", line)) <= 80 for line in drawn)
    assert drawn[-1].endswith("…")


@pytest.mark.usefixtures("mail")
def test_on_a_terminal_a_message_that_was_taken_is_shown_whole(terminal):
    drawn = terminal("message get --queue mail", COLUMNS="80").out

    assert len(re.findall("long", drawn)) == 40


@pytest.mark.usefixtures("mail")
def test_colours_are_for_terminals_that_want_them(terminal, process):
    assert ESCAPE.search(terminal("queue list").out)
    assert "\x1b" not in terminal("queue list", NO_COLOR="1").out
    assert "\x1b" not in terminal("queue list --no-color").out
    assert "\x1b" not in process("queue list").out


@pytest.mark.usefixtures("mail")
def test_a_terminal_that_knows_no_colours_gets_none(terminal):
    assert "\x1b" not in terminal("queue list", TERM="dumb").out


@pytest.mark.usefixtures("mail")
def test_on_a_narrow_terminal_nothing_is_lost_but_the_end_of_a_body(terminal):
    drawn = terminal("queue peek --name mail", COLUMNS="40", NO_COLOR="1").out.splitlines()

    assert [line.split() for line in drawn[:3]] == [["id", "1"], ["state", "ready"], ["lane", "normal"]]
    assert all(len(line) <= 40 for line in drawn)
    assert drawn[-1].endswith("…")


def test_in_a_pipe_wide_characters_keep_columns_in_line(process):
    process("queue add --name mail")
    for key in ("日本", "four"):
        process(["message", "enqueue", "--queue", "mail", "--idempotency-key", key, "--payload", "1"])

    _, first, second = process("queue peek --name mail").out.splitlines()

    assert first.replace("日本", "four").partition("four")[2] == second.partition("four")[2]


@pytest.mark.usefixtures("mail")
def test_a_body_cannot_command_the_terminal(terminal, process):
    process(["message", "enqueue", "--queue", "mail", "--priority", "9", "--text", "\x1b]0;owned\x07\nx\u2028y\x9b"])

    for command in ("queue peek --name mail", "message peek --queue mail --id 4", "message get --queue mail"):
        drawn = terminal(command, NO_COLOR="1").out
        assert "\x1b" not in drawn
        assert r"\x1b]0;owned\x07\nx\u2028y\x9b" in drawn


@pytest.mark.usefixtures("mail")
def test_a_terminal_gets_json_that_people_can_read(terminal, process):
    assert len(terminal("queue list --json").out.splitlines()) > 20
    assert len(process("queue list --json").out.splitlines()) == 1


@pytest.mark.usefixtures("mail")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("sqew queue list >&-", 0),
        ("sqew queue list <&- 2>&-", 0),
        ("sqew queue list >/dev/full", 1),
        ("PYTHONIOENCODING=ascii sqew queue peek --name mail", 0),
        ("set -o pipefail; sqew demo | head -n 1", 141),
    ],
)
def test_odd_outputs_end_without_a_traceback(folder, command, code):
    env = environment() | {"PATH": f"{SCRIPT.parent}:/usr/bin:/bin"}

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, env=env)

    assert done.returncode == code
    assert done.stderr == ("sqew: No space left on device.\n" if "full" in command else "")


@pytest.mark.usefixtures("mail")
def test_metrics_are_in_the_format_of_prometheus(sqew):
    lines = sqew("metrics").out.splitlines()

    assert 'queue_messages_sent_total{queue="mail"} 3' in lines
    assert 'queue_depth{queue="mail"} 3' in lines
    assert all(re.fullmatch(r"# (HELP|TYPE) .+|[a-z_]+\{[^}]*\} [0-9.]+", line) for line in lines)


@pytest.mark.usefixtures("mail")
def test_health_tells_the_facts(sqew):
    told = sqew("health --json").json

    assert (told["status"], told["file"], told["queues"]) == ("ok", "queue.db", 2)
    assert told["file_bytes"] > 0


@pytest.mark.usefixtures("mail")
def test_stats_of_one_queue_and_of_all(sqew):
    sqew("message get --queue mail")

    one = sqew("stats --queue mail --json").json
    every = sqew("stats --json").json["queues"]

    assert (one["totals"]["sent"], one["totals"]["acked"]) == (3, 1)
    assert [queue["queue"] for queue in every] == ["mail", "mail-dlq"]
    assert "ready to received" in sqew("stats --queue mail").out


def test_times_are_shown_with_how_far_away_they_are():
    noon = 1_769_860_800_000

    assert moment(noon, noon + 3_000) == "2026-01-31T12:00:00Z (3 s ago)"
    assert [relative(ms) for ms in (0, 30_000, -7_200_000, 86_400_000)] == ["now", "in 30 s", "2 h ago", "in 1 d"]


def test_cells_are_plain():
    assert [shown(value) for value in (None, True, False, 1.25, "a\tb", "\ud800")] == [
        "",
        "yes",
        "no",
        "1.2",
        r"a\tb",
        r"\ud800",
    ]
    assert [byte_count(n) for n in (0, 1023, 1536, 5 << 40)] == ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]
