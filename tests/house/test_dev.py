"""The task runner: the set-up that it remembers, and its errors when it can't go on."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

DEV = Path(__file__).parents[2] / "dev"


@pytest.fixture
def dev(tmp_path, monkeypatch):
    """Return the script as a module, with an empty folder as its root; it records commands instead of running them."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("dev", str(DEV))
    spec = spec_from_loader("dev", loader)
    module = module_from_spec(spec)
    loader.exec_module(module)

    def quietly(command, trouble):
        module.ran.append([str(part) for part in command])
        (tmp_path / ".venv").mkdir(exist_ok=True)

    module.ran = []
    module.quietly = quietly
    module.ROOT = tmp_path
    module.STAMP = tmp_path / ".venv" / "stamp"
    (tmp_path / "pyproject.toml").write_text("[project]")
    return module


def installed(dev):
    return [command[-1] for command in dev.ran if "install" in command]


def start(*arguments, **options):
    return subprocess.run([sys.executable, str(DEV), *arguments], capture_output=True, text=True, **options)


def test_without_a_task_it_lists_them_from_any_folder(tmp_path):
    done = start(cwd=tmp_path)

    assert done.returncode == 0
    assert all(f"\n  {task} " in done.stdout for task in ("demo", "test", "check", "soak", "bench", "docs"))


def test_an_unknown_task_is_refused_without_setting_anything_up():
    done = start("tset")

    assert done.returncode == 2
    assert done.stderr.startswith("dev: there is no task 'tset'")


def test_a_second_run_sets_nothing_up(dev):
    dev.set_up(["dev"])
    assert installed(dev) == [".[dev]"]
    dev.ran.clear()

    dev.set_up(["dev"])
    dev.set_up([])

    assert dev.ran == []


def test_another_extra_is_added_to_those_that_are_there(dev):
    dev.set_up([])
    dev.set_up(["dev"])
    dev.set_up(["bench"])

    assert installed(dev) == [".", ".[dev]", ".[bench,dev]"]
    assert sum("venv" in command for command in dev.ran) == 1


def test_a_changed_pyproject_is_installed_again_into_the_same_environment(dev):
    dev.set_up(["dev"])
    dev.ran.clear()

    (dev.ROOT / "pyproject.toml").write_text("[project]\n# changed")
    dev.set_up([])

    assert installed(dev) == [".[dev]"]
    assert not any("venv" in command for command in dev.ran)


def test_another_python_gets_a_new_environment(dev, monkeypatch):
    dev.set_up(["dev"])
    dev.ran.clear()

    monkeypatch.setattr(sys, "version", "3.99.0")
    dev.set_up([])

    assert any("venv" in command for command in dev.ran)
    assert installed(dev) == ["."]


def test_a_set_up_that_failed_is_not_remembered(dev):
    note = dev.quietly

    def fail_to_install(command, trouble):
        note(command, trouble)
        if "install" in command:
            sys.exit(trouble)

    dev.quietly = fail_to_install
    with pytest.raises(SystemExit, match="could not install"):
        dev.set_up([])
    dev.quietly = note
    dev.ran.clear()

    dev.set_up([])

    assert installed(dev) == ["."]


def test_a_python_that_is_too_old_is_told_in_one_sentence(dev, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setenv("PATH", str(dev.ROOT))

    with pytest.raises(SystemExit, match=r"^dev: Sqew needs Python 3\.11 or newer and this is 3\.9; install one\.$"):
        dev.use_a_new_enough_python()


def test_a_newer_python_on_the_path_is_used_but_not_a_shim_that_leads_nowhere(dev, monkeypatch):
    shim, real = dev.ROOT / "python3.13", dev.ROOT / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    real.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    real.chmod(0o755)
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(sys, "argv", ["dev", "test", "-k", "lanes"])
    monkeypatch.setenv("PATH", str(dev.ROOT))
    started = []

    def execv(program, arguments):
        started.append((program, arguments[1:]))
        raise SystemExit

    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(SystemExit):
        dev.use_a_new_enough_python()

    assert started == [(str(real), [str(DEV), "test", "-k", "lanes"])]


def test_a_debian_python_without_ensurepip_is_told_the_package_to_install(dev, monkeypatch):
    monkeypatch.setenv("PATH", str(dev.ROOT))  # no apt-get here

    with pytest.raises(SystemExit, match=r"sudo apt-get install python3\.11-venv"):
        dev.install_ensurepip("python3.11-venv")


def test_the_benchmark_of_the_server_without_wrk_says_how_to_install_it(dev, monkeypatch):
    monkeypatch.setenv("PATH", str(dev.ROOT))  # neither wrk nor apt-get here

    with pytest.raises(SystemExit, match=r"needs wrk; install it \(Debian: sudo apt-get install wrk\)"):
        dev.bench(["http", "--quick"])


@pytest.mark.parametrize(
    ("option", "place", "told"),
    [
        ("--folder", "missing", "there is no folder {}/missing"),
        ("--folder", "file", "there is no folder {}/file"),
        ("--json", "missing/figures.json", "there is no folder {}/missing"),
        ("--plot", ".", "{} is a folder"),
        ("--update", "missing.md", "there is no file {}/missing.md"),
        ("--update", "file", "{}/file has no place for results"),
    ],
)
def test_a_place_that_a_benchmark_can_not_write_to_ended_in_a_traceback(tmp_path, option, place, told):
    (tmp_path / "file").write_text("no place here")
    measure = (
        "import bench.command as c; "
        "c.run(c.Benchmark('bench', '', {'quick': '', 'full': ''}, {'default': None}, {}, [], None))"
    )

    done = subprocess.run(
        [sys.executable, "-c", measure, option, str(tmp_path / place)], cwd=DEV.parent, capture_output=True, text=True
    )

    assert done.returncode in (1, 2)
    assert told.format(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def npm(dev, monkeypatch):
    """Put Node.js and npm on the path, and packages that tests require; npm itself is not run."""
    tests = dev.ROOT / "tests"
    folders = [tests / "envelopes" / "sns_validator", tests / "http" / "dialects" / "aws" / "clients"]
    for asked in folders:
        asked.mkdir(parents=True)
        (asked / "package.json").write_text("{}")
        (asked / "package-lock.json").write_text("{}")
    for command in ("node", "npm"):
        (dev.ROOT / command).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(dev.ROOT))
    return folders[0]


def test_what_the_tests_need_of_npm_is_installed_once(dev, npm):
    dev.need_node()
    dev.need_node()

    homes = [dev.ROOT / ".node", dev.ROOT / ".node" / "aws"]
    assert [command[1:4] for command in dev.ran] == [["ci", "--prefix", str(home)] for home in homes]


def test_what_the_tests_need_of_npm_is_installed_again_when_it_changes(dev, npm):
    dev.need_node()
    (npm / "package-lock.json").write_text('{"packages": {}}')

    dev.need_node()

    assert len(dev.ran) == 3
    assert (dev.ROOT / ".node" / "package-lock.json").read_text() == '{"packages": {}}'


def test_what_npm_failed_to_install_is_not_remembered(dev, npm, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr(dev, "quietly", lambda command, trouble: sys.exit(trouble))
        with pytest.raises(SystemExit, match="npm could not install"):
            dev.need_node()

    dev.need_node()

    assert len(dev.ran) == 2


def test_the_tests_without_node_say_how_to_install_it(dev, monkeypatch):
    monkeypatch.setenv("PATH", str(dev.ROOT))  # neither Node.js nor apt-get here

    with pytest.raises(SystemExit, match=r"need Node\.js; install it \(Debian: sudo apt-get install nodejs npm\)"):
        dev.test([])


def test_the_tests_without_postgresql_say_how_to_install_it(dev, npm, monkeypatch):
    monkeypatch.setattr(dev, "POSTGRES", dev.ROOT)  # no PostgreSQL here, and no apt-get

    with pytest.raises(SystemExit, match=r"need its server; install it \(Debian: sudo apt-get install postgresql\)"):
        dev.test([])


def test_the_tests_without_other_queues_say_how_to_install_them(dev, monkeypatch):
    monkeypatch.setenv("PATH", str(dev.ROOT))  # neither Redis nor apt-get here
    dev.RABBITMQ = dev.ROOT / "rabbitmq-server"

    sentence = r"need other queues; install them \(Debian: sudo apt-get install redis-server rabbitmq-server\)"
    with pytest.raises(SystemExit, match=sentence):
        dev.need_other_queues()


def test_only_what_is_missing_of_other_queues_is_asked_for(dev, monkeypatch):
    monkeypatch.setenv("PATH", str(dev.ROOT))
    dev.RABBITMQ = dev.ROOT / "rabbitmq-server"
    dev.RABBITMQ.touch()

    with pytest.raises(SystemExit, match=r"apt-get install redis-server\)"):
        dev.need_other_queues()


def test_the_tests_without_chromium_say_how_to_install_it(dev, monkeypatch):
    monkeypatch.setenv("PATH", str(dev.ROOT))  # neither Chromium nor apt-get here

    with pytest.raises(SystemExit, match=r"need Chromium; install it \(Debian: sudo apt-get install chromium\)"):
        dev.need_browser()


def test_a_postgresql_that_is_off_the_path_as_debian_has_it_is_found(dev, npm, monkeypatch):
    (dev.ROOT / "15" / "bin").mkdir(parents=True)
    (dev.ROOT / "15" / "bin" / "postgres").touch(mode=0o755)
    monkeypatch.setattr(dev, "POSTGRES", dev.ROOT)

    dev.need_postgres()

    assert dev.ran == []


@pytest.mark.parametrize("task", ["test", "soak"])
def test_the_tests_without_pgbouncer_say_how_to_install_it(dev, npm, monkeypatch, task):
    (dev.ROOT / "postgres").touch(mode=0o755)
    monkeypatch.setattr(dev, "PGBOUNCER", dev.ROOT / "pgbouncer")  # not here, and no apt-get

    with pytest.raises(SystemExit, match=r"need PgBouncer; install it \(Debian: sudo apt-get install pgbouncer\)"):
        getattr(dev, task)([])


def test_a_task_that_fails_does_not_hide_the_ones_after_it(dev, capfd):
    def command(code):
        return [sys.executable, "-c", code]

    failed = dev.run_all({"first": command("exit(3)"), "second": command("print('ran')"), "third": command("exit(1)")})

    out, err = capfd.readouterr()
    assert failed == 1
    assert out == "ran\n"
    assert err.endswith("dev: failed: first, third\n")


def test_a_task_runs_each_command_once(dev, capfd):
    failing = [sys.executable, "-m", "pytest", "test_some.py"]
    (dev.ROOT / "pyproject.toml").write_text("[tool.pytest.ini_options]")
    (dev.ROOT / "test_some.py").write_text("def test_first(): assert False\ndef test_second(): pass\n")

    assert dev.run_all({"pytest": failing}) == 1

    out, err = capfd.readouterr()
    assert out.count("1 failed, 1 passed") == out.count("test session starts") == 1
    assert err.endswith("dev: failed: pytest\n")


# Signals


@pytest.fixture
def begin():
    """Yield a function that starts processes and reads their stderr; kill all that are left, with their children."""
    processes = []

    def heed_signals():
        # What runs under nohup ignores SIGHUP, and its children with it.
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)

    def start(*command, **options):
        options.update(stderr=subprocess.PIPE, text=True, start_new_session=True)
        process = subprocess.Popen(command, preexec_fn=heed_signals, **options)  # noqa: PLW1509 (there are no threads)
        processes.append(process)
        return process

    yield start
    for process in processes:
        # The whole session: where a signal was not passed on, there is a child.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def home(tmp_path):
    """Return a folder with the script and an environment that is set up already."""
    shutil.copy(DEV, tmp_path / "dev")
    (tmp_path / "pyproject.toml").write_text("[project]")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "sqew"):
        (tmp_path / ".venv" / "bin" / name).symlink_to(Path(sys.executable).parent / name)
    stamp = {"python": sys.version, "root": str(tmp_path), "pyproject": hashlib.sha256(b"[project]").hexdigest()}
    (tmp_path / ".venv" / "sqew-set-up.json").write_text(json.dumps({**stamp, "extras": []}))
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_script_left_its_server_running(home, begin, number):
    process = begin(sys.executable, str(home / "dev"), "serve", "--port", "0")
    port = next(int(found[1]) for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:(\d+)", line)))
    socket.create_connection(("127.0.0.1", port)).close()

    process.send_signal(number)

    # Standard error ends when the last process that has it does.
    process.communicate(timeout=30)
    assert process.returncode == (-signal.SIGHUP if number == signal.SIGHUP else 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


TWO_COMMANDS = """
import sys
from importlib.machinery import SourceFileLoader
sys.dont_write_bytecode = True
dev = SourceFileLoader("dev", sys.argv[1]).load_module()
child = "import sys, time; print('began', file=sys.stderr, flush=True); time.sleep(60)"
sys.exit(dev.run_all({"first": [sys.executable, "-c", child], "second": [sys.executable, "-c", child]}))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_command_at_work_and_those_after_it_are_not_begun(begin, number, code):
    process = begin(sys.executable, "-W", "ignore", "-c", TWO_COMMANDS, str(DEV))
    assert any(line == "began\n" for line in process.stderr)

    process.send_signal(number)

    _, rest = process.communicate(timeout=30)
    assert process.returncode == code
    assert "began" not in rest


INSTALLING = """
import sys
from importlib.machinery import SourceFileLoader
sys.dont_write_bytecode = True
dev = SourceFileLoader("dev", sys.argv[1]).load_module()
child = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(60)"
dev.quietly([sys.executable, "-c", child, sys.argv[2]], "it could not be installed")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_to_the_script_left_what_was_installing_at_work(begin, tmp_path, number, code):
    process = begin(sys.executable, "-W", "ignore", "-c", INSTALLING, str(DEV), str(tmp_path / "began"))
    while not (tmp_path / "began").exists():
        assert process.poll() is None

    process.send_signal(number)

    # Not its end of standard error, which the child does not have: there is no process left in the session.
    process.communicate(timeout=30)
    assert process.returncode == code
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_the_exit_code_of_a_server_that_can_not_start_is_the_scripts(home, begin):
    process = begin(sys.executable, str(home / "dev"), "serve", "--port", "none")

    _, error = process.communicate(timeout=30)

    assert process.returncode == 2
    assert "port can't be 'none'" in error
