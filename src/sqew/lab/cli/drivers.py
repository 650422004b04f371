"""`plainbench drivers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqew.cli.output import Column, Table
from sqew.cli.session import Session
from sqew.lab.cli.command import Command

if TYPE_CHECKING:
    from sqew.lab.drivers.base import Driver


@click.command(cls=Command)
@click.argument("name", required=False)
@click.pass_obj
def drivers(session: Session, name: str | None) -> None:
    """List the queues that can be measured; of one, NAME, with the options that target.options may hold."""
    from sqew.lab.drivers import DRIVERS

    known = [_described(each) for each in ([name] if name else DRIVERS)]
    table = Table(
        [Column("Driver"), Column("Measures"), Column("Installed"), Column("Virtual time")],
        [(row["name"], row["does"], _installed(row), row["virtual_time"]) for row in known],
    )
    if name is None:
        session.show(known, table, "Options of one: plainbench drivers NAME. Yours: driver: file.py:Class.")
        return
    options = known[0]["options"]
    assert isinstance(options, dict)
    session.show(
        known[0], table, Table([Column("Option"), Column("Meaning")], [*options.items()], "It has no options.")
    )


def _described(name: str) -> dict[str, object]:
    kind, missing = _class(name)
    if kind is None:
        return {
            "name": name, "does": "", "needs": [missing], "missing": [missing], "options": {}, "virtual_time": None,
        }  # fmt: skip
    return {
        "name": name,
        "does": kind.does,
        "needs": list(kind.needs),
        "missing": [package for package in kind.needs if not _is_installed(package)],
        "options": dict(kind.options),
        "virtual_time": kind.runs_in_virtual_time,
    }


def _class(name: str) -> tuple[type[Driver] | None, str]:
    """The driver; or the package without which it can't be loaded."""
    from sqew.errors import StoreUnusable
    from sqew.lab.drivers import driver_class

    try:
        return driver_class(name, Path.cwd()), ""
    except StoreUnusable as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name is not None and not cause.name.startswith("sqew"):
            return None, cause.name
        raise


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _installed(row: dict[str, object]) -> str:
    missing = row["missing"]
    assert isinstance(missing, list)
    return "yes" if not missing else f"no: pip install {' '.join(missing)}"
