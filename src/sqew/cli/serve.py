"""`sqew serve`: the queues over HTTP."""

from __future__ import annotations

import click

from sqew.cli.command import Command, setting_options
from sqew.cli.session import Session

SHOWN = ("host", "port", "unix_socket", "tls_cert", "tls_key", "auth_token", "durability", "access_log")
"""The settings that the help shows; all others are flags too."""


@click.command(cls=Command)
@click.option("--insecure", is_flag=True, help="Listen beyond this machine although there is no token.")
@click.pass_obj
def serve(session: Session, insecure: bool) -> None:
    """Serve the queues over HTTP until Ctrl-C."""
    from sqew.http.run import serve as run

    if insecure:
        session.flags["insecure"] = "true"
    run(session.settings, lambda addresses: click.echo(f"Sqew listens at {', '.join(addresses)}", err=True))


for option in setting_options():
    if option.name in SHOWN:
        option.hidden = False
        serve.params.insert(-1, option)
