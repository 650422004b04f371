"""`plainbench drivers`."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from plainbench.cli.command import Command
from sqew.installing import pip_install
from sqew.terminal.output import Column, Table
from sqew.terminal.session import TerminalSession

_FACTS = ("does", "needs", "options", "runs_in_virtual_time")


@click.command(cls=Command)
@click.argument("name", required=False)
@click.pass_obj
def drivers(session: TerminalSession, name: str | None) -> None:
    """List the queues that can be measured; for NAME alone, also the options that target.options may hold."""
    from plainbench.drivers import DRIVERS

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
    facts, lacking = _facts(name)
    missing = [package for package in facts["needs"] if not _is_installed(package)]
    return {
        "name": name,
        "does": facts["does"],
        "needs": list(facts["needs"]),
        "missing": missing or lacking,
        "options": dict(facts["options"]),
        "virtual_time": facts["runs_in_virtual_time"],
    }


def _facts(name: str) -> tuple[dict[str, Any], list[str]]:
    """Return a driver's facts, and the packages without which it can't be loaded."""
    from plainbench.drivers import DRIVERS, driver_class
    from sqew.errors import StoreUnusable

    try:
        kind = driver_class(name, Path.cwd())
    except StoreUnusable as error:
        cause = error.__cause__
        if name in DRIVERS and isinstance(cause, ModuleNotFoundError) and cause.name is not None:
            return _as_written(DRIVERS[name]), [cause.name]
        raise
    return {fact: getattr(kind, fact) for fact in _FACTS}, []


def _as_written(reference: str) -> dict[str, Any]:
    """Read a driver's facts from the source of a class that can't be loaded."""
    module, _, kind = reference.partition(":")
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    (written,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind]
    return {
        node.target.id: ast.literal_eval(node.value)
        for node in written.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in _FACTS
        if node.value is not None
    }


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
    return "yes" if not missing else f"no: {pip_install(*missing)}"
