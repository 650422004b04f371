"""Checks of the queue that a configuration names, as far as they can be made before a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from plainbench.config.model import Config, Network
from plainbench.drivers import DRIVERS, driver_class
from plainbench.drivers.base import Driver
from sqew.errors import BadValue, StoreUnusable, nearest

Mistake = tuple[str, str]
"""The key, as in ``topics[0].name``, and the sentence."""


def check_target(config: Config, folder: Path) -> Iterator[Mistake]:
    """Yield mistakes in ``target``, and in keys that need another target. Relative paths start in ``folder``."""
    name = config.target.driver
    if name not in DRIVERS and ":" not in name:
        known = ", ".join(DRIVERS)
        yield (
            "target.driver",
            f"there is no driver '{name}'{nearest(name, DRIVERS)}. There are: {known}; or module:Class of your own.",
        )
        return
    yield from _network(config)
    try:
        kind = driver_class(name, folder)
    except BadValue as error:
        yield "target.driver", f"target.driver: {error}"
    except StoreUnusable:
        # A package is missing. Whoever opens the queue is told so; the configuration is right.
        return
    else:
        yield from _abilities(config, kind)


def _network(config: Config) -> Iterator[Mistake]:
    target = config.target
    if config.faults.network == Network() or target.driver == "sqew-http":
        return
    name = url_option(target.driver)
    if name not in target.options:
        yield "faults.network", f"faults.network is for a server that has a URL: give target.options.{name}."


def url_option(driver: str) -> str:
    """Return the name of the option that holds the server's address."""
    # SQS's clients have another name for it.
    return "endpoint_url" if driver == "sqs" else "url"


def _abilities(config: Config, kind: type[Driver]) -> Iterator[Mistake]:
    for option in config.target.options:
        if option not in kind.options:
            known = ", ".join(kind.options) or "none"
            missing = f"the driver {kind.name} has no option '{option}'{nearest(option, kind.options)}"
            yield f"target.options.{option}", f"target.options: {missing}. It has: {known}."
    if config.mode == "virtual" and not kind.runs_in_virtual_time:
        yield "mode", f"the driver {config.target.driver} can't run in virtual time. Use mode: real."
