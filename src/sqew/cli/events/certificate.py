"""`sqew certificate …`."""

from __future__ import annotations

import click
import msgspec

from sqew.cli.session import QueueSession, now_ms
from sqew.model import CertificateInfo
from sqew.terminal.command import Group
from sqew.terminal.output import Facts, moment


@click.group(cls=Group)
def certificate() -> None:
    """Show or replace what envelopes are signed with."""


@certificate.command("show")
@click.pass_obj
def show(session: QueueSession) -> None:
    """Print the certificate that receivers check envelopes with, in PEM. The first is made now."""
    with session.open() as q:
        pem = q.certificates.pem()
        current, *_ = q.certificates.list()
    if session.json:
        session.show(msgspec.to_builtins(current) | {"certificate": pem})
    else:
        click.echo(pem, nl=False)
    session.note(f"Made {moment(current.created_at, now_ms())}; a server has it at {current.url}")


@certificate.command("rotate")
@click.pass_obj
def rotate(session: QueueSession) -> None:
    """Sign with a new key from now on. Old certificates can still be fetched, to check old envelopes."""
    with session.open() as q:
        made = q.certificates.rotate()
    session.show(msgspec.to_builtins(made), _facts(made))


def _facts(made: CertificateInfo) -> Facts:
    return Facts([("certificate", made.id), ("made", moment(made.created_at, now_ms())), ("url", made.url)])
