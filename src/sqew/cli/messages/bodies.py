"""Bodies as they are typed: JSON byte for byte, or plain text."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import Raw

from sqew.errors import BadBody
from sqew.model import Format
from sqew.rules.bodies import encode_body, parse_json
from sqew.rules.limits import Limits

F = TypeVar("F", bound=Callable[..., Any])

body_option = click.option("--body", "--payload", "body", metavar="JSON", help="The message, as JSON.")
text_option = click.option("--text", help="The message, as plain text.")


def body_of(json: str | None, text: str | None, limits: Limits) -> tuple[bytes, Format] | None:
    """Return the body that was given; None if none was."""
    if json is not None and text is not None:
        raise click.UsageError("Give --body or --text, and not both.", click.get_current_context())
    if text is not None:
        return encode_body(text, limits)
    if json is None:
        return None
    # The bytes as they were typed, whether or not they are valid UTF-8: parse_json tells.
    body = os.fsencode(json)
    try:
        parse_json(body, limits)
    except BadBody as error:
        raise BadBody(f"{error} Quote it for the shell, or send it as it is with --text.") from error
    return body, "json"


def value_of(body: tuple[bytes, Format]) -> Any:
    """Return a body as a value that is encoded as it was typed."""
    encoded, format = body
    return Raw(encoded) if format == "json" else encoded.decode()
