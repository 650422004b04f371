"""Where the queues may be when the file in the current folder is not there."""

from __future__ import annotations

from collections.abc import Mapping

_PATIENCE_S = 0.5


def hint(environ: Mapping[str, str]) -> str:
    """Sentences that end the error about a missing default file."""
    return " ".join(filter(None, (_of_server(), _of_database(environ))))


def _of_server() -> str:
    from sqew.client import Client
    from sqew.client.address import DEFAULT_URL
    from sqew.errors import SqewError

    try:
        with Client(DEFAULT_URL, token="", retries=0, timeout_seconds=_PATIENCE_S) as client:
            client.health()
    except SqewError:
        return "The queues of a server that runs elsewhere are seen with --url http://HOST:PORT (or SQEW_URL)."
    return f"A server answers at {DEFAULT_URL}: to see its queues, add --url {DEFAULT_URL} (or set SQEW_URL)."


def _of_database(environ: Mapping[str, str]) -> str:
    if not environ.get("DATABASE_URL"):
        return ""
    return (
        'DATABASE_URL is read by `sqew serve` and `sqew migrate` alone: here, add --database-url "$DATABASE_URL" '
        "(or set SQEW_DATABASE_URL)."
    )
