"""`sqew serve`: the queues over HTTP."""

from __future__ import annotations

from typing import Any

import click

from sqew.cli.session import QueueSession
from sqew.terminal.command import Command, setting_options

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


def _remember_database(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        from sqew.settings import DATABASE_SCHEMES

        place = "database_url" if value.startswith(DATABASE_SCHEMES) else "db"
        ctx.ensure_object(QueueSession).flags[place] = value


def _remember_timeout(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        from sqew.errors import BadSetting
        from sqew.settings import DEFINITIONS

        given, setting = value, DEFINITIONS["request_timeout_ms"]
        if value.strip().replace(".", "", 1).isdecimal():
            value = f"{value.strip()}s"
        try:
            setting.parse(value, "")
        except BadSetting as error:
            least, most = setting.at_least / 1000, setting.at_most / 1000
            raise click.BadParameter(f"'{given}' is not a number from {least:g} to {most:g}.") from error
        ctx.ensure_object(QueueSession).flags["request_timeout_ms"] = value


@click.command(cls=Command, epilog="Every other setting is a flag of it as well: see `sqew --help-settings`.")
@click.option(
    "-d",
    "--database",
    metavar="FILE",
    expose_value=False,
    callback=_remember_database,
    help="The same as --db, or as --database-url where it is a URL.",
)
@click.option(
    "-r",
    "--request-timeout",
    metavar="SECONDS",
    expose_value=False,
    callback=_remember_timeout,
    help="The same as --request-timeout-ms, in seconds.",
)
@click.pass_obj
def serve(session: QueueSession) -> None:
    """Serve the queues over HTTP until Ctrl-C."""
    from sqew.http.run import serve as run

    settings, notices = session.settings_of_server()
    run(settings, lambda addresses, place: _report(addresses, place, settings.access_log), notices)


def _report(addresses: list[str], place: str, access_log: str) -> None:
    click.echo(f"Sqew listens at {', '.join(addresses)}", err=True)
    click.echo(f"Its queues are in {place}", err=True)
    if access_log != "all":
        click.echo("Requests that succeed are not logged; --access-log all logs them too", err=True)


def _options() -> list[Any]:
    found = [option for option in setting_options() if option.name in SHOWN]
    for option in found:
        option.hidden = False
        if option.name == "port":
            option.opts.append("-p")
    return found


for param in serve.params:
    if isinstance(param, click.Option) and param.name == "database_url":
        param.hidden = False
for option in _options():
    serve.params.insert(-1, option)
