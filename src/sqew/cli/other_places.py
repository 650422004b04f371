"""Other places that queues may be in when the default file is missing."""

from __future__ import annotations

from collections.abc import Mapping

from sqew.settings import Settings, as_postgresql

_PATIENCE_S = 0.5


def hints(settings: Settings, environ: Mapping[str, str], *, always: bool) -> list[str]:
    """Return sentences on other places than the default file. ``always``: even if none is found, how to name one."""
    # A server that was started here has the same settings.
    url = f"http://127.0.0.1:{settings.port}"
    return [sentence for sentence in (_of_server(url, always=always), _of_database(environ)) if sentence]


def named_by(source: str) -> list[str]:
    """Return a sentence with the variable that names the file, if it is one that other programs use too."""
    variable = source.removeprefix("environment ")
    if variable == source or variable.startswith("SQEW_"):
        return []
    return [f"The environment variable {variable} names it; --db FILE (or SQEW_DB) names another."]


def _of_server(url: str, *, always: bool) -> str:
    from sqew.client import Client
    from sqew.errors import SqewError

    try:
        with Client(url, token="", retries=0, timeout_seconds=_PATIENCE_S) as client:
            client.health()
    except SqewError:
        elsewhere = "The queues of a server that runs elsewhere are seen with --url http://HOST:PORT (or SQEW_URL)."
        return elsewhere if always else ""
    return f"A server answers at {url}: for its queues, add --url {url} (or set SQEW_URL)."


def _of_database(environ: Mapping[str, str]) -> str:
    if not as_postgresql(environ.get("DATABASE_URL", "")):
        return ""
    return (
        'DATABASE_URL is read by `sqew serve` and `sqew migrate` alone: here, add --database-url "$DATABASE_URL" '
        "(or set SQEW_DATABASE_URL)."
    )
