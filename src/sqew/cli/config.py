"""`sqew config …`."""

from __future__ import annotations

import click

from sqew.cli.session import QueueSession
from sqew.terminal.command import Group
from sqew.terminal.output import Column, Table


@click.group(cls=Group)
def config() -> None:
    """Show the settings and where they come from."""


@config.command("show")
@click.pass_obj
def show(session: QueueSession) -> None:
    """Show every setting, its value and what set it, as a server here has them."""
    from sqew.settings import DEFINITIONS

    settings, notices = session.settings_of_server()
    values = {name: getattr(settings, name) for name in DEFINITIONS}
    document = [
        {
            "name": name,
            "value": setting.show(values[name]) if setting.secret else values[name],
            "source": settings.sources[name],
            "default": setting.default,
            "flag": setting.flag,
            "variable": setting.variable,
        }
        for name, setting in DEFINITIONS.items()
    ]
    rows = [
        (name, setting.show(values[name]) if values[name] != "" else "(none)", settings.sources[name])
        for name, setting in DEFINITIONS.items()
    ]
    session.show(
        {"settings": document, "notices": notices}, Table([Column("setting"), Column("value"), Column("source")], rows)
    )
    for notice in notices:
        session.note(notice)
