"""Settings as flags, in the environment and in a file; options before and after the command."""

import pytest

from sqew.settings import DEFINITIONS


def setting(done, name):
    return next(entry for entry in done.json["settings"] if entry["name"] == name)


@pytest.mark.parametrize("command", ["--db a.db {}", "queue --db a.db list", "{} --db a.db", "{} --db=a.db"])
def test_the_file_may_be_named_anywhere(sqew, command):
    sqew("queue add --name orders --db a.db")

    done = sqew("--json " + command.format("queue list"))

    assert [queue["name"] for queue in done.json["queues"]] == ["orders", "orders-dlq"]


def test_what_stands_nearer_to_the_command_wins(sqew):
    done = sqew("--db a.db config show --db b.db --json")

    assert setting(done, "db")["value"] == "b.db"


@pytest.mark.parametrize(
    "command", ["config show --json --max-batch 1 --max-batch 2", "--max-batch 1 --max-batch 2 config show --json"]
)
def test_of_a_setting_the_last_counts(sqew, command):
    assert setting(sqew(command), "max_batch")["value"] == 2


TWICE = {
    "message enqueue --queue orders --payload 5 --payload 6": ("--payload", "several messages go as lines of JSON"),
    "message enqueue --queue orders --text a --text=b": ("--text", "several messages go as lines of JSON"),
    "message enqueue --queue orders --file a --file b": ("--file", "cat FILES | sqew … --file -"),
    "import --queue orders --file a --file b": ("--file", "cat FILES | sqew … --file -"),
    "message ack --queue orders --ids 1 --ids 2": ("--ids/--id", "with commas between them, 1,2,3"),
    "message remove --queue orders --id 1 --ids 2": ("--ids/--id", "with commas between them, 1,2,3"),
    "event publish --key a --body 1 --payload 2": ("--body/--payload", "Give it once."),
    "message enqueue --queue orders --payload 1 --sync-commit --no-sync-commit": (
        "--sync-commit/--no-sync-commit", "Give it once.",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("command", TWICE)
def test_of_an_option_that_was_given_twice_only_the_last_was_kept(sqew, command):
    option, instead = TWICE[command]
    sqew("message enqueue --queue orders --payload 1")

    done = sqew(command)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"sqew: {option} takes one value and was given 2 times. Give it once")
    assert instead in done.err
    depths = sqew("stats --queue orders --json").json["depths"]["lanes"]["normal"]
    assert (depths["ready"], depths["leased"]) == (1, 0)


@pytest.mark.usefixtures("orders")
def test_what_may_be_given_several_times_still_may(sqew):
    sent = sqew("message enqueue --queue orders --payload 1 --header a=1 --header b=2 --json --json")

    assert sent.json == {"queue": "orders", "id": 1, "duplicate": False}
    assert sqew("message peek --queue orders --id 1 --json").json["headers"] == {"a": "1", "b": "2"}


def test_the_help_is_shown_whatever_else_is_on_the_line(sqew):
    assert sqew("message enqueue --payload 1 --payload 2 --help").code == 0


EXAMPLES = {"url": "https://queue.example.com", "database": "postgresql://queue.example.com/sqew"}


@pytest.mark.parametrize("name", list(DEFINITIONS))
def test_every_setting_is_a_flag_a_variable_and_a_key(sqew, folder, monkeypatch, name):
    definition = DEFINITIONS[name]
    monkeypatch.delenv(definition.variable, raising=False)
    text = str(definition.default) or EXAMPLES.get(definition.form, "some.log")
    key = f'{name} = "{text}"\n'
    (folder / "settings.toml").write_text(key)

    before = setting(sqew([definition.flag, text, "--json", "config", "show"]), name)
    after = setting(sqew(["config", "show", "--json", definition.flag, text]), name)
    from_file = setting(sqew("config show --json --config settings.toml"), name)
    monkeypatch.setenv(definition.variable, text)
    from_environment = setting(sqew("config show --json"), name)

    assert before["source"] == after["source"] == f"flag {definition.flag}"
    assert from_file["source"] == f"file settings.toml: {name}"
    assert from_environment["source"] == f"environment {definition.variable}"
    is_hidden = definition.secret and definition.form != "database"
    assert str(before["value"]) == ("***" if is_hidden else text)


@pytest.mark.parametrize(
    ("command", "is_on"),
    [
        ("config show --json --aws-strict", True),
        ("config show --aws-strict --json", True),
        ("config show --json --aws-strict off", False),
        ("config show --json --aws-strict=no", False),
        ("--aws-strict config show --json", True),
        ("--aws-strict --json config show", True),
        ("--aws-strict off config show --json", False),
        ("config --aws-strict show --json", True),
    ],
)
def test_a_switch_alone_asked_for_an_argument(sqew, command, is_on):
    aws_strict = setting(sqew(command), "aws_strict")

    assert (aws_strict["value"], aws_strict["source"]) == (is_on, "flag --aws-strict")


def test_what_follows_a_switch_and_is_no_option_is_what_it_is_switched_to(sqew):
    done = sqew("config show --aws-strict perhaps")

    assert done.code == 2
    assert "aws_strict can't be 'perhaps'" in done.err


def test_a_setting_that_is_no_switch_needs_a_value(sqew):
    done = sqew("config show --max-batch")

    assert done.code == 2
    assert "requires an argument" in done.err


@pytest.mark.parametrize(
    "flag", ["--account-id", "--base-url", "--aws-credentials", "--aws-strict", "--delivery-allow"]
)
def test_the_help_of_serve_left_out_what_sqs_and_sns_need(sqew, flag):
    assert flag in sqew("serve --help").out


def test_the_help_of_serve_says_where_the_other_settings_are(sqew):
    assert "sqew --help-settings" in sqew("serve --help").out


def test_the_help_lists_every_setting(sqew):
    shown = sqew("--help-settings").out

    assert all(definition.flag in shown for definition in DEFINITIONS.values())


def test_an_unknown_variable_is_an_error_that_suggests_the_nearest(process):
    done = process("queue list", SQEW_DURABILTY="fast")

    assert done.code == 2
    assert "SQEW_DURABILITY" in done.err


def test_a_misspelt_name_pointed_to_a_command_that_failed_of_it_too(process, folder):
    (folder / "misspelt.toml").write_text('durabilty = "fast"\n')
    for line, env in ((" ", {"SQEW_DURABILTY": "fast"}), ("--config misspelt.toml ", {})):
        refused = process(line + "config show", **env)
        shown = process(line + "--help-settings", **env)

        assert refused.code == 2
        assert "see `sqew --help-settings` for the names" in refused.err
        assert (shown.code, shown.err) == (0, "")
        assert "--durability" in shown.out


def test_an_unknown_flag_suggests_the_nearest_setting(sqew):
    done = sqew("queue list --durabilty fast")

    assert done.code == 2
    assert "'--durability'" in done.err


def test_a_file_in_the_folder_is_read(sqew, folder):
    (folder / "sqew.yaml").write_text("durability: fast\n")

    assert setting(sqew("config show --json"), "durability")["value"] == "fast"


def test_help_is_there_at_every_level(sqew):
    for command in ("-h", "--help", "queue -h", "queue add --help", "message enqueue -h"):
        done = sqew(command)
        assert done.code == 0
        assert done.out.startswith("Usage: sqew")


def test_without_a_command_the_help_is_shown(sqew):
    done = sqew("")

    assert done.code == 2
    assert "Commands:" in done.err


def test_the_version_is_the_packages(sqew):
    from sqew import __version__

    assert sqew("--version").out == f"sqew, version {__version__}\n"
