"""`sqew preview`: the times at which something would fire. It needs neither a file nor a server."""

from __future__ import annotations

import re
from typing import Any

import click

from sqew.cli.events.schedule_views import fire_documents, fires_table
from sqew.cli.parameters import TIMINGS, Whole, check_alternatives
from sqew.cli.session import QueueSession, now_ms
from sqew.errors import BadExpression
from sqew.model import ExpressionKind, Preview
from sqew.schedules import preview as previews
from sqew.schedules.keywords import expression_of
from sqew.terminal.command import Command
from sqew.terminal.output import Facts

_OF_CRON = re.compile(r"@(?!every)|\s*[0-9*/,?-]+\s+[0-9*/,?-]+(\s|$)")
"""The beginning of a cron expression: a word like @daily, or two fields of digits and signs."""
_OF_INSTANT = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]")
_OF_DATE = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}\b")


@click.command(cls=Command)
@click.argument("expression", required=False)
@click.option("--cron", metavar="FIELDS", help="Five or six fields, or @daily and the like: '0 9 * * 1-5'.")
@click.option("--every", metavar="INTERVAL", help="An interval: '5 minutes', 1h30m.")
@click.option("--when", metavar="TEXT", help="Plain English: 'first monday of the month at noon'.")
@click.option("--fire-at", metavar="TIME", help="Once: 2026-12-24T18:00.")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="An IANA name: Europe/Berlin.")
@click.option(
    "--count",
    type=Whole(1, previews.MOST_FIRES),
    default=5,
    show_default=True,
    metavar="N",
    help="How many fires to show.",
)
@click.pass_obj
def preview(session: QueueSession, /, expression: str | None, timezone: str, count: int, **timing: str | None) -> None:
    """Say when something would fire.

    EXPRESSION is read as one instant if it begins with a date, as cron if it looks like it, else as an interval, else
    as plain English.
    """
    now = now_ms()
    kind, text, found = _understood(expression, timing, timezone, now, count)
    document = {
        "kind": kind,
        "expression": text,
        "canonical": found.canonical,
        "timezone": found.timezone,
        "human_readable": found.human_readable,
        "next_fires": fire_documents(found.next_fires),
    }
    facts = Facts([("fires", found.human_readable), ("read as", f"{kind}: {found.canonical}")])
    session.show(document, facts, fires_table(found.next_fires, now))


Understood = tuple[ExpressionKind, str, Preview]


def _understood(expression: str | None, timing: dict[str, Any], timezone: str, now: int, count: int) -> Understood:
    check_alternatives(timing, TIMINGS)
    chosen = expression_of(timing)
    if (expression is None) == (chosen is None):
        raise click.UsageError(
            "Give an expression, or one of --cron, --every, --when and --fire-at.", click.get_current_context()
        )
    if chosen is not None:
        return *chosen, previews.preview(*chosen, timezone, now, count)
    return _guessed(str(expression), timezone, now, count)


def _guessed(text: str, timezone: str, now: int, count: int) -> Understood:
    *attempts, last = _kinds(text)
    for kind in attempts:
        try:
            return kind, text, previews.preview(kind, text, timezone, now, count)
        except BadExpression:
            continue
    return last, text, previews.preview(last, text, timezone, now, count)


def _kinds(text: str) -> tuple[ExpressionKind, ...]:
    """Return the kinds of expression that a string may be. The error is that of the last."""
    if _OF_INSTANT.match(text):
        return ("fire_at",)
    if _OF_DATE.match(text):
        return "fire_at", "when"
    return ("cron",) if _OF_CRON.match(text) else ("every", "when")
