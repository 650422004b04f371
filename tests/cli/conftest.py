"""`sqew` run as a process, as a process on a terminal, and in this process where many cases are run."""

import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqew.cli.main import sqew as root
from tests.support.postgres import reused_database

__all__ = ["reused_database"]

SCRIPT = Path(sys.executable).with_name("sqew")
FOREIGN = ("SQEW_", "DB_PATH", "DATABASE", "LOG_LEVEL", "QUEUE_DEFAULT", "NO_COLOR", "FORCE_COLOR", "COLUMNS")


@dataclass
class Done:
    """The outcome of a run."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


NO_SERVER = {"SQEW_PORT": "1"}
"""Settings under which commands find no local server: the developer may have one at the usual port."""


def environment(**extra):
    own = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
    return own | NO_SERVER | {"TERM": "xterm-256color"} | extra


def bound_by_rights(*words, cwd):
    """Run a command that file permissions bind: root gives up its privileges for that."""
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can't give up its rights without setpriv")
        words = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", *words)
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return an empty current folder; the environment sets nothing and lets no server be found."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    for name, value in NO_SERVER.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def process(folder):
    """Run the real script: ``process("queue list --json")``."""

    def run(command, *, input=None, **env):
        words = shlex.split(command) if isinstance(command, str) else command
        done = subprocess.run(
            [SCRIPT, *words], input=input, capture_output=True, env=environment(**env), cwd=folder, timeout=60
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def terminal(folder):
    """Run the real script on a terminal with typed input; return its output and exit code."""

    def run(command, typed="", **env):
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            [SCRIPT, *shlex.split(command)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**env),
            cwd=folder,
        )
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux says EIO when the other side is closed
                break
            if not chunk:
                break
            shown += chunk
        os.close(ours)
        return Done(child.wait(timeout=60), shown.decode(), "")

    return run


@pytest.fixture
def sqew(folder):
    """Run a command in this process, which is quicker: ``sqew("queue list")``."""

    def run(command, *, input=None):
        words = shlex.split(command) if isinstance(command, str) else command
        done = CliRunner().invoke(root, words, input=input)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "Traceback" not in done.stderr
        return Done(done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture
def orders(sqew):
    """Create the queue orders, which allows two attempts and retries at once."""
    assert sqew("queue add --name orders --max-attempts 2 --backoff-base-ms 0 --backoff-jitter-ms 0").code == 0
