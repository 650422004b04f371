"""`sqew serve`: the queues over HTTP."""

from __future__ import annotations

import click

from sqew.cli.command import Command
from sqew.cli.session import Session


@click.command(cls=Command)
@click.option("--host", metavar="ADDRESS", help="The address to listen at.  [default: 127.0.0.1]")
@click.option("--port", metavar="NUMBER", help="The port to listen at.  [default: 8888]")
@click.option("--insecure", is_flag=True, help="Listen beyond this machine although there is no token.")
@click.pass_obj
def serve(session: Session, host: str | None, port: str | None, insecure: bool) -> None:
    """Serve the queues over HTTP until Ctrl-C."""
    from sqew.http.run import serve as run

    if host is not None:
        session.flags["host"] = host
    if port is not None:
        session.flags["port"] = port
    if insecure:
        session.flags["insecure"] = "true"
    run(session.settings, lambda addresses: click.echo(f"Sqew listens at {', '.join(addresses)}", err=True))
