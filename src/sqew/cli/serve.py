"""`sqew serve`: the queues over HTTP."""

from __future__ import annotations

import click

from sqew.cli.command import Command, setting_options
from sqew.cli.session import Session

SHOWN = (
    "durability",
    "host",
    "port",
    "unix_socket",
    "tls_cert",
    "tls_key",
    "auth_token",
    "insecure",
    "base_url",
    "account_id",
    "aws_strict",
    "aws_credentials",
    "delivery_allow",
    "access_log",
)
"""The settings that the help shows; all others are flags too."""


@click.command(cls=Command, epilog="Every other setting is a flag of it as well: see `sqew --help-settings`.")
@click.pass_obj
def serve(session: Session) -> None:
    """Serve the queues over HTTP until Ctrl-C."""
    from sqew.http.run import serve as run

    run(session.settings, lambda addresses: click.echo(f"Sqew listens at {', '.join(addresses)}", err=True))


for param in serve.params:
    if isinstance(param, click.Option) and param.name == "database_url":
        param.hidden = False
for option in setting_options():
    if option.name in SHOWN:
        option.hidden = False
        serve.params.insert(-1, option)
