"""The URL of a database: libpq understands parameters that asyncpg does not, and would pass on to PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

from sqew.errors import BadSetting

CONNECT_WITHIN_S = 5
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_UNKEPT = {
    "channel_binding": ("", "disable", "prefer"),
    "gssencmode": ("", "disable", "prefer"),
    "sslcertmode": ("", "allow", "disable"),
    "require_auth": ("",),
    "requirepeer": ("",),
    "hostaddr": ("",),
}
"""Parameters without which a connection would be less safe, or lead elsewhere; and their harmless values."""
_DROPPED = frozenset(
    {
        *_UNKEPT,
        "connect_timeout",
        "fallback_application_name",
        "gssdelegation",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "sslcompression",
        "sslsni",
        "tcp_user_timeout",
    }
)


class DatabaseAddress(Struct, frozen=True):
    """The address of a database in terms that asyncpg understands."""

    url: str
    connect_within_s: int = CONNECT_WITHIN_S
    ignored: tuple[str, ...] = ()
    """Parameters of the URL that do nothing."""


def address(url: str, setting: str = "database_url") -> DatabaseAddress:
    """Read a URL. Raise `BadSetting` if it asks for what can't be had."""
    place, _, query = url.partition("?")
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        within_s = int(given.get("connect_timeout") or 0)
        # Several hosts may have several.
        ports = [int(port) for port in given.get("port", "").split(",") if port]
    except ValueError:
        raise BadSetting(f"{setting} has parameters that can't be read. Write ?sslmode=require&port=5432.") from None
    if not all(0 < port < 65_536 for port in ports):
        raise BadSetting(f"{setting} has a port that there can't be. It must be from 1 to 65535.")
    _check_kept(given, setting)
    _check_files(given, setting)
    left = {name: value for name, value in given.items() if name not in _DROPPED}
    ignored = tuple(sorted(given.keys() & _DROPPED - {"connect_timeout"}))
    if left != given:
        url = f"{place}?{urlencode(left, quote_via=quote)}" if left else place
    return DatabaseAddress(url, within_s if within_s > 0 else CONNECT_WITHIN_S, ignored)


def _check_kept(given: Mapping[str, str], setting: str) -> None:
    for name, harmless in _UNKEPT.items():
        if given.get(name, "") not in harmless:
            raise BadSetting(
                f"{setting} asks for {name}={given[name]}, which can't be kept here. Leave it out; "
                "sslmode=verify-full makes sure whom it talks to."
            )


def _check_files(given: Mapping[str, str], setting: str) -> None:
    for name in _FILES:
        if path := given.get(name):
            try:
                with Path(path).open("rb"):
                    pass
            except OSError as error:
                raise BadSetting(
                    f"{setting} names {path} as {name}, which can't be read: {error.strerror}. Check the path."
                ) from error
