"""The help of `sqew spark` without Spark: it must not wait for it."""

from __future__ import annotations

import subprocess
import sys

from sqew.cli.spark import COMMANDS, spark

HELPED = """
import sys
from click.testing import CliRunner
from sqew.cli.main import sqew as program
import sqew.spark
for words in ([], ["spark"], ["spark", "doctor"], ["spark", "ingest"], ["spark", "generate"]):
    done = CliRunner().invoke(program, [*words, "--help"])
    assert done.exit_code == 0, done.output
assert "pyspark" not in sys.modules
"""


def test_every_command_is_there_under_its_name() -> None:
    for name, (_, line) in COMMANDS.items():
        command = spark.get_command(None, name)  # type: ignore[arg-type]

        assert command is not None
        assert command.name == name
        assert (command.help or "").startswith(line.removesuffix("."))


def test_help_does_not_load_spark() -> None:
    done = subprocess.run([sys.executable, "-c", HELPED], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
