"""Startup of `sqew --help`, which is quick: it loads nothing that it does not need."""

import subprocess
import sys

HEAVY = (
    "apsw",
    "msgspec",
    "yaml",
    "cryptography",
    "zoneinfo",
    "asyncio",
    "sqew.client",
    "sqew.embedded",
    "sqew.settings",
    "sqew.model",
)

TELLING = """
import sys
from sqew.cli.main import main
try:
    main()
except SystemExit:
    print("\\n".join(sys.modules), file=sys.stderr)
"""


def loaded_by(*words):
    done = subprocess.run([sys.executable, "-c", TELLING, *words], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_loads_nothing_heavy():
    assert not loaded_by("--help").intersection(HEAVY)


def test_the_version_loads_nothing_heavy():
    assert not loaded_by("--version").intersection(HEAVY)


def test_a_command_on_a_file_does_not_load_the_client(process):
    process("queue add --name orders")

    assert "sqew.client" not in loaded_by("queue", "list")


def test_a_command_on_queues_loads_nothing_of_events_and_schedules(process):
    process("queue add --name orders")

    assert not loaded_by("queue", "list").intersection(
        {"cryptography", "zoneinfo", "sqew.schedules", "sqew.background.webhooks"}
    )


def test_a_preview_loads_neither_the_store_nor_the_client():
    assert not loaded_by("preview", "@daily").intersection({"apsw", "sqew.client", "asyncio", "cryptography"})


def test_the_list_of_commands_says_what_the_commands_say():
    from sqew.cli.main import COMMANDS, sqew

    for name, (_, line) in COMMANDS.items():
        command = sqew.get_command(None, name)
        assert command.name == name
        assert command.help.partition("\n")[0] == line
