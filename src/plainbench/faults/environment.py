"""The environment of a run in real time: a server of its own, and a network with faults."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace

from plainbench.config.model import Config, Network
from plainbench.config.target import url_option
from plainbench.drivers.base import Place
from plainbench.drivers.embedded import settings_of
from plainbench.faults.proxy import proxied
from plainbench.run.context import RunContext
from sqew.errors import BadValue, StoreUnusable

_START_WITHIN_S = 20.0
_PORTS = {"https": 443, "redis": 6379, "amqp": 5672, "postgresql": 5432, "postgres": 5432}


@contextmanager
def environment(context: RunContext) -> Iterator[tuple[Config, Config]]:
    """Yield the configuration with the addresses for the lab itself, and the one with those for the actors."""
    config = context.config
    with ExitStack() as stack:
        if config.target.driver == "sqew-http" and "url" not in config.target.options:
            place = Place(config, context.folder, context.time)
            config = _with_url(config, stack.enter_context(served(place, context.run / "server.log")))
        theirs = config
        if config.faults.network != Network():
            name = url_option(config.target.driver)
            url = config.target.opened().get(name)
            if not isinstance(url, str):
                raise BadValue(f"faults.network is for a server that has a URL: give target.options.{name}.")
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 80)
            near = stack.enter_context(proxied(context, parts.hostname or "127.0.0.1", port))
            who = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
            theirs = _with_url(config, parts._replace(netloc=f"{who}127.0.0.1:{near}").geturl(), name)
        yield config, theirs


def _with_url(config: Config, url: str, name: str = "url") -> Config:
    return replace(config, target=replace(config.target, options={**config.target.options, name: url}))


@contextmanager
def served(place: Place, log: Path) -> Iterator[str]:
    """Start `sqew serve` on the queue's file, and yield its URL."""
    settings = settings_of(place)
    flags = ["--durability", settings.durability, "--busy-timeout-ms", str(settings.busy_timeout_ms)]
    environment = dict(os.environ)
    if database := place.config.target.opened().get("database_url"):
        # Not as a flag: everybody on the machine may read those.
        environment["SQEW_DATABASE_URL"] = str(database)
    serve = [sys.executable, "-m", "sqew", "--db", settings.db, "serve", "--port", "0", *flags]
    # Else it would outlive a lab that is killed.
    command = [sys.executable, "-m", "plainbench.faults.tether", *serve]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=stderr, stdout=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield _address(process, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"http://[^\s:]+:\d+", log.read_text()):
            return found[0]
        time.sleep(0.02)
    raise StoreUnusable(f"`sqew serve` could not start for this run: {log.read_text().strip()[-500:]}")
