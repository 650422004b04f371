"""The settings of Sqew, each defined once.

A line in ``Settings`` gives a setting its name, type, default, bounds and documentation. From it come the attribute,
the command line's flag (``--busy-timeout-ms``), the environment variable (``SQEW_BUSY_TIMEOUT_MS``), the key in
``sqew.toml`` or ``sqew.yaml`` (``busy_timeout_ms``) and its row in ``docs/settings.md``.

    >>> settings = resolve({"max_batch": 50}, {"SQEW_VISIBILITY_MS": "2m"}, file=None)
    >>> settings.max_batch, settings.visibility_ms
    (50, 120000)
    >>> settings.sources["visibility_ms"]
    'environment SQEW_VISIBILITY_MS'
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from msgspec import Struct, structs

from sqew.errors import BadSetting, nearest, shortened
from sqew.model import Discreet

Durability = Literal["durable", "fast"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "json", "text"]
AccessLog = Literal["none", "errors", "all"]
OtlpProtocol = Literal["grpc", "http"]
Kind = Literal["text", "path", "choice", "switch", "number", "fraction", "size", "duration"]
Form = Literal["durations", "url", "account", "database"]

DATABASE_SCHEMES = ("postgresql://", "postgres://")
"""The beginnings of a database's URL, to tell it from the path of a file."""
_POSTGRESQL = re.compile(r"""\s*(["']?)postgres(?:ql)?(?:\+\w+)?://(?P<rest>.*?)\1\s*""", re.IGNORECASE | re.DOTALL)
"""The forms of other programs: with the driver that they use (postgresql+asyncpg://), or in quotes from an env file."""
CONFIG_VARIABLE = "SQEW_CONFIG"
"""The environment variable that names the settings file."""
FILE_NAMES = ("sqew.toml", "sqew.yaml", "sqew.yml")
"""The names of a settings file in the current folder."""

SIZES = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
"""Units of size, in bytes."""
DURATIONS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Units of time, in milliseconds."""
SYNONYMS = {"warn": "warning", "critical": "error", "fatal": "error", "off": "error", "trace": "debug"}
"""Other programs' names for log levels: LOG_LEVEL in the environment may be meant for them too."""
HIDDEN = "***"
"""The text shown in place of a secret."""
SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def as_postgresql(given: str) -> str:
    """Return the URL of a PostgreSQL database in our form, from any program's; empty for anything else.

    >>> as_postgresql("postgres+asyncpg://app@db/queues")
    'postgresql://app@db/queues'
    """
    if given.startswith(DATABASE_SCHEMES) and given == given.strip():
        return given
    found = _POSTGRESQL.fullmatch(given)
    return f"postgresql://{found['rest']}" if found else ""


class Alias(Struct, frozen=True):
    """An additional environment variable for a setting. A number in it without a unit is in ``unit``.

    ``part``: it holds ``HOST:PORT`` or a host alone, and the setting is this part. ``less``: its number is higher by
    this than the setting's. ``shared``: other programs may have a variable of that name, for a database of their own,
    so only the commands that are meant to use it read it, and any variable of ours wins.
    """

    name: str
    unit: str = ""
    part: Literal["", "host", "port"] = ""
    less: int = 0
    shared: bool = False

    def read(self, given: str) -> str:
        """Return the setting's value in the variable, or an empty string if it has none."""
        if self.shared:
            # Of another kind of database it may well be: that one is not meant for us.
            return as_postgresql(given)
        if self.less and given.strip().isdecimal():
            return str(max(int(given) - self.less, 1))
        if not self.part:
            return given
        host, colon, port = given.strip().rpartition(":")
        if not colon or (":" in host and not host.endswith("]")) or port.endswith("]"):
            # No port: "::1" is an address of IPv6.
            host, colon, port = given.strip(), "", ""
        # ":8080" is Go's way to say every address.
        return port if self.part == "port" else host.strip("[]") or ("0.0.0.0" if colon else "")


class Setting(Struct, frozen=True, kw_only=True):
    """The definition of a setting. Its name, default and choices are those of the field of ``Settings``."""

    kind: Kind
    doc: str
    name: str = ""
    default: Any = None
    aliases: tuple[Alias, ...] = ()
    choices: tuple[str, ...] = ()
    may_be_empty: bool = False
    secret: bool = False
    """True if it is never shown, and never in a message."""
    at_least: int = 0
    at_most: int = 0
    units: dict[str, int] = {}  # msgspec copies it
    unit: str = ""
    """The unit of a number without one."""
    form: Form | None = None
    """The form of its text: one of `FORMS`."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "SQEW_" + self.name.upper()

    @property
    def allowed(self) -> str:
        """The allowed values, to end the sentence "it must be …"."""
        match self.kind:
            case "choice":
                return " or ".join((", ".join(self.choices[:-1]), self.choices[-1]))
            case "switch":
                return "true or false"
            case "number":
                return f"a whole number from {self.at_least} to {self.at_most}"
            case "fraction":
                return "a number from 0 to 1"
            case "size" | "duration":
                return f"a {self.kind} from {self.show(self.at_least)} to {self.show(self.at_most)}"
            case "path":
                return "the path of a file" + (", or empty for none" if self.may_be_empty else "")
            case "text" if self.form is not None:
                return FORMS[self.form][0] + (", or empty" if self.may_be_empty else "")
            case "text":
                return "text" if self.may_be_empty else "text that is not empty"

    def show(self, value: object) -> str:
        """Format a value for people: ``1048576`` bytes is ``1 MiB``."""
        if self.secret and value:
            return without_password(str(value)) if self.form == "database" else HIDDEN
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, int) or not self.units:
            return str(value)
        amount = value * self.units[self.unit]
        if amount == 0:
            return f"0 {self.unit}"
        # Decimal units are understood but not shown: 5000 bytes is "5000 B", not "5 KB".
        shown = [(n, unit) for unit, n in self.units.items() if self.kind == "duration" or n & (n - 1) == 0]
        size, unit = max((n, unit) for n, unit in shown if amount % n == 0)
        return f"{amount // size} {unit}"

    def parse(self, given: object, source: str, unit: str = "") -> Any:
        """Return a given value, converted and checked. ``unit`` is that of a bare number if ``source`` has its own."""
        value = self._read(given, unit or self.unit)
        if value is None:
            written = str(given) if isinstance(given, Path) else given
            url = as_postgresql(given) if self.kind == "path" and isinstance(given, str) else ""
            shown = self.show(given) if self.secret else shortened(repr(without_password(url) if url else written))
            units = f", in whole {unit or self.unit} or with a unit ({', '.join(self.units)})" if self.units else ""
            raise BadSetting(
                f"{self.name} can't be {shown} ({source}): it must be {self.allowed}{units}."
                + (" The URL of a database is for --database-url (SQEW_DATABASE_URL)." if url else "")
            )
        return value

    def _read(self, given: object, unit: str) -> Any:
        """Return a given value, converted, or None if it is not allowed."""
        match self.kind:
            case "choice":
                # "sqew=debug,info" is how some programs write it: the last word without a name is for everything. Where
                # there is none, "their_name=debug" is meant for what they were, which is all of this one.
                words = given.strip().lower().split(",") if isinstance(given, str) else [""]
                lowered = next((word for word in reversed(words) if "=" not in word), words[-1].rpartition("=")[2])
                lowered = SYNONYMS.get(lowered or "", lowered)
                return lowered if lowered in self.choices else None
            case "switch":
                return given if isinstance(given, bool) else SWITCH.get(str(given).strip().lower())
            case "number" | "size" | "duration":
                count = self._count(given, unit)
                return count if count is not None and self.at_least <= count <= self.at_most else None
            case "fraction":
                return _fraction(given)
            case "text" | "path":
                return self._text(given)

    def _text(self, given: object) -> str | None:
        text = str(given) if isinstance(given, str | Path) else None
        if text is None or "\0" in text or (text == "" and not self.may_be_empty):
            return None
        if self.form == "database":
            text = as_postgresql(text) or text
        if self.form is not None and text and not FORMS[self.form][1](text):
            return None
        if self.kind == "text" or text == "":
            return text
        if "://" in text:  # a database URL, from a variable that another program reads too
            return None
        return _at_home(text)

    def _count(self, given: object, unit: str) -> int | None:
        if not isinstance(given, int | str):
            return None
        written = re.fullmatch(r"\s*([0-9]{1,20}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*", str(given))
        if written is None:
            return None
        number, suffix = written.groups()
        if not self.units:
            return int(number) if number.isdigit() and not suffix else None

        by_name = {name.lower(): size for name, size in self.units.items()}
        size = by_name.get((suffix or unit).lower())
        if size is None:
            return None
        whole, _, part = number.partition(".")
        scale = 10 ** len(part)
        count, rest = divmod(int(whole + part) * size, scale * self.units[self.unit])
        return count if rest == 0 else None


def durations(name: str, given: str) -> tuple[int, ...]:
    """Parse durations, separated by blanks or commas, into milliseconds.

    >>> durations("delivery_retries", "10s, 5m")
    (10000, 300000)
    """
    one = structs.replace(duration(1, 30 * _DAY, ""), name=name)
    return tuple(one.parse(part, f"in '{given}'") for part in given.replace(",", " ").split())


def _are_durations(text: str) -> bool:
    with contextlib.suppress(BadSetting):
        durations("", text)
        return True
    return False


def _is_url(text: str) -> bool:
    # Not urlsplit, which says yes to almost everything.
    return re.fullmatch(r"https?://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,5})?(/[^?#\s]*)?", text) is not None


def _is_account(text: str) -> bool:
    return re.fullmatch(r"[0-9]{12}", text) is not None


_EXAMPLE = "postgresql://user:password@host:5432/name"
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:@/?#,\[\]]*)(?::[0-9]{1,5})?"
_DATABASE = re.compile(
    # A password that has a character of these in it would end too early, and the rest of it be shown as a host.
    r"postgres(?:ql)?://(?:(?P<user>[^\s:@/?#\[\]]*)(?::(?P<password>[^\s:@/?#\[\]]*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<path>/[^\s@?#]*)?(?:\?[^\s@#]*)?"
)


def without_password(url: str) -> str:
    """Return the URL of a database without its password, to be shown.

    >>> without_password("postgresql://app:secret@db.example.com/queues?sslmode=require")
    'postgresql://app@db.example.com/queues'
    >>> without_password("postgresql:///queues?host=/run/postgresql&password=secret")
    'postgresql:///queues?host=/run/postgresql'
    """
    parts = _DATABASE.fullmatch(url)
    if parts is None:
        # It can't be told where the password ends: perhaps at the last of these.
        return re.sub(r"(://[^:@/?#]*).*@", rf"\1:{HIDDEN}@", url.partition("?")[0], flags=re.DOTALL)
    user = f"{parts['user']}@" if parts["user"] else ""
    places = re.findall(r"[?&]((?:host|port)=[^&]*)", url)
    query = f"?{'&'.join(places)}" if places else ""
    return f"postgresql://{user}{parts['hosts']}{parts['path'] or ''}{query}"


def password_in(url: str) -> str:
    """Return the password in the URL of a database, as it is written there."""
    parts = _DATABASE.fullmatch(url)
    return "" if parts is None else parts["password"] or ""


def is_database(text: str) -> bool:
    """Return True if the string is the URL of a database."""
    parts = _DATABASE.fullmatch(text)
    try:
        urlsplit(text)
    except ValueError:
        # Such as an address in brackets that is none.
        return False
    ports = [] if parts is None else re.findall(r":([0-9]+)(?![^,])", parts["hosts"])
    return parts is not None and all(0 < int(port) < 65_536 for port in ports)


FORMS: Mapping[Form, tuple[str, Callable[[str], bool]]] = {
    "durations": ("durations from 1 ms to 30 d with blanks between, such as 10s 5m", _are_durations),
    "url": ("a URL such as https://queue.example.com, without a query", _is_url),
    "account": ("12 digits", _is_account),
    "database": (
        f"a URL such as {_EXAMPLE}, with a port up to 65535 and special characters of the password percent-encoded",
        is_database,
    ),
}
"""The forms that a text may have to have: the end of the sentence "it must be …", and a check."""


def _fraction(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    written = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*", str(given))
    value = float(written[1]) if written else -1.0
    return value if 0 <= value <= 1 else None


def _at_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 (Path.expanduser raises where there is no such user)


_Names = tuple[str | Alias, ...]


def text(
    doc: str, *, may_be_empty: bool = False, env: _Names = (), secret: bool = False, form: Form | None = None
) -> Setting:
    return Setting(kind="text", doc=doc, may_be_empty=may_be_empty, aliases=_aliases(env), secret=secret, form=form)


def path(doc: str, *, may_be_empty: bool = False, env: _Names = ()) -> Setting:
    return Setting(kind="path", doc=doc, may_be_empty=may_be_empty, aliases=_aliases(env))


def choice(doc: str, *, env: _Names = ()) -> Setting:
    return Setting(kind="choice", doc=doc, aliases=_aliases(env))


def switch(doc: str, *, env: _Names = ()) -> Setting:
    return Setting(kind="switch", doc=doc, aliases=_aliases(env))


def number(at_least: int, at_most: int, doc: str, *, env: _Names = ()) -> Setting:
    return Setting(kind="number", at_least=at_least, at_most=at_most, doc=doc, aliases=_aliases(env))


def fraction(doc: str, *, env: _Names = ()) -> Setting:
    return Setting(kind="fraction", doc=doc, aliases=_aliases(env))


def size(at_least: int, at_most: int, doc: str, *, unit: str = "B", env: _Names = ()) -> Setting:
    bounds = number(at_least, at_most, doc, env=env)
    return structs.replace(bounds, kind="size", units=SIZES, unit=unit)


def duration(at_least: int, at_most: int, doc: str, *, env: _Names = ()) -> Setting:
    bounds = number(at_least, at_most, doc, env=env)
    return structs.replace(bounds, kind="duration", units=DURATIONS, unit="ms")


def _aliases(env: _Names) -> tuple[Alias, ...]:
    return tuple(Alias(name) if isinstance(name, str) else name for name in env)


_MIB = SIZES["MiB"]
_HOUR, _DAY = DURATIONS["h"], DURATIONS["d"]


class Settings(Discreet, frozen=True, kw_only=True):
    """All settings, with their values. ``resolve`` makes them; ``Settings()`` is all defaults."""

    hidden: ClassVar[tuple[str, ...]] = ("auth_token", "aws_credentials", "database_url", "database_listen_url")
    db: Annotated[str, path("The file that holds the queues.", env=("DB_PATH", "DATABASE"))] = "queue.db"
    database_url: Annotated[
        str,
        text(
            "A PostgreSQL database that holds the queues, in place of a file: `postgresql://user:password@host/name`. "
            "Any number of servers may use it.",
            may_be_empty=True,
            env=(Alias("DATABASE_URL", shared=True),),
            secret=True,
            form="database",
        ),
    ] = ""
    database_listen_url: Annotated[
        str,
        text(
            "Where servers wake each other: the same database without PgBouncer in between, which loses most of "
            "what LISTEN hears. Empty: database_url.",
            may_be_empty=True,
            secret=True,
            form="database",
        ),
    ] = ""
    database_pooler: Annotated[
        bool,
        switch("database_url leads to PgBouncer in transaction mode, or the like: a connection must remember nothing."),
    ] = False
    database_connections: Annotated[
        int,
        number(
            1,
            1_000,
            "How many connections to the database a server uses for messages; it needs two more.",
            env=(Alias("QUEUE_MAX_CONNECTIONS", less=2),),
        ),
    ] = 8
    database_timeout_ms: Annotated[
        int, duration(100, 3_600_000, "How long a statement may take in the database, or wait for a connection.")
    ] = 30_000
    linger_ms: Annotated[
        int,
        duration(
            0,
            1_000,
            "How long what arrives waits for others to be stored with, in a PostgreSQL database. 0: whatever is there "
            "goes. In a file what arrives together is stored together, and nothing waits: there it must be 0.",
            env=("QUEUE_LINGER_MS",),
        ),
    ] = 0
    durability: Annotated[
        Durability,
        choice("`durable`: on disk before it is answered, survives a power cut. `fast`: survives `kill -9` only."),
    ] = "durable"
    busy_timeout_ms: Annotated[int, duration(0, 600_000, "How long to wait for another process's write lock.")] = 5_000
    wal_autocheckpoint_pages: Annotated[
        int, number(1, 100_000, "After how many pages the write-ahead log is copied into the file.")
    ] = 1_000
    cache_kib: Annotated[
        int, size(64, 16 * _MIB, "How much of the file each connection keeps in memory.", unit="KiB")
    ] = 16_384

    disk_reserve_bytes: Annotated[
        int, size(0, SIZES["TiB"], "Sends are refused when the disk has less free: acknowledging needs room too.")
    ] = 16 * _MIB

    max_body_bytes: Annotated[int, size(1, 256 * _MIB, "The largest message body.")] = _MIB
    max_headers_bytes: Annotated[
        int,
        size(
            2,
            16 * _MIB,
            "The largest headers of one message, as JSON. Attributes of SQS and SNS count with the body instead.",
        ),
    ] = 65_536
    max_batch: Annotated[int, number(1, 100_000, "The most messages in one call.")] = 1_000
    max_depth: Annotated[int, number(1, 500, "How deep JSON bodies and headers may nest.")] = 64

    visibility_ms: Annotated[
        int,
        duration(
            0,
            12 * _HOUR,
            "How long a lease lasts in a new queue that does not say.",
            env=(Alias("QUEUE_DEFAULT_VISIBILITY_TIMEOUT", unit="s"),),
        ),
    ] = 30_000
    max_attempts: Annotated[int, number(1, 1_000, "After how many deliveries a message is dead in a new queue.")] = 5
    key_retention_ms: Annotated[
        int, duration(0, 3_650 * _DAY, "How long a new queue remembers a key after its message is gone.")
    ] = 300_000
    archive_retention_ms: Annotated[int, duration(0, 3_650 * _DAY, "How long a new queue keeps finished messages.")] = (
        7 * _DAY
    )

    host: Annotated[
        str,
        text(
            "The address to listen at. Beyond this machine (`0.0.0.0`) only with a token, or with --insecure.",
            env=(
                Alias("SQEW_BIND", part="host"),
                Alias("LISTEN_ADDR", part="host"),
                Alias("QUEUE_ADDRESS", part="host"),
            ),
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        number(
            0,
            65_535,
            "The port to listen at. 0: any that is free.",
            env=(
                Alias("SQEW_BIND", part="port"),
                "PORT",
                Alias("LISTEN_ADDR", part="port"),
                Alias("QUEUE_ADDRESS", part="port"),
            ),
        ),
    ] = 8_888
    unix_socket: Annotated[
        str, path("A unix socket to listen at, instead of host and port. Empty: none.", may_be_empty=True)
    ] = ""
    tls_cert: Annotated[
        str, path("The certificate (chain) to serve HTTPS with, in PEM. Empty: HTTP.", may_be_empty=True)
    ] = ""
    tls_key: Annotated[str, path("The certificate's private key, in PEM.", may_be_empty=True)] = ""
    url: Annotated[
        str,
        text("The server that commands and clients talk to, instead of a file. Empty: the file.", may_be_empty=True),
    ] = ""
    auth_token: Annotated[
        str,
        text(
            "The token that allows everything. A server with one asks for it, or for a queue's key. "
            "In SQS and SNS calls it is the secret of the access key `sqew`, unless there are aws_credentials. "
            "Empty: none.",
            may_be_empty=True,
            env=("AUTH_TOKEN",),
            secret=True,
        ),
    ] = ""
    insecure: Annotated[bool, switch("Listen beyond this machine although there is no token.")] = False
    cors_origins: Annotated[
        str,
        text(
            "The web pages that may call the server: origins, with commas between, or `*`. Empty: none.",
            may_be_empty=True,
        ),
    ] = ""

    max_request_bytes: Annotated[int, size(1_024, 1_024 * _MIB, "The largest request that is not streamed.")] = (
        16 * _MIB
    )
    max_buffered_bytes: Annotated[
        int,
        size(1_024, 1_024 * 1_024 * _MIB, "How much of large requests is held at a time, of all connections together."),
    ] = 128 * _MIB
    max_connections: Annotated[int, number(1, 1_000_000, "The most connections at a time.")] = 20_000
    max_wait_ms: Annotated[int, duration(0, _HOUR, "The longest that a receive may wait for a message.")] = 60_000
    request_timeout_ms: Annotated[
        int,
        duration(
            100,
            _HOUR,
            "The longest that a request may take, its waiting included.",
            env=(Alias("REQUEST_TIMEOUT", unit="s"),),
        ),
    ] = 120_000
    header_timeout_ms: Annotated[int, duration(100, _HOUR, "How long a client may take to send a request's head.")] = (
        10_000
    )
    body_timeout_ms: Annotated[int, duration(100, _HOUR, "How long a client may take to send a request's body.")] = (
        30_000
    )
    idle_timeout_ms: Annotated[int, duration(100, _DAY, "How long a connection is kept open between requests.")] = (
        75_000
    )
    write_timeout_ms: Annotated[
        int, duration(100, _HOUR, "How long a client may take none of an answer before it is cut off.")
    ] = 30_000
    drain_ms: Annotated[int, duration(0, _HOUR, "How long a server that is told to stop goes on answering.")] = 10_000
    max_pending: Annotated[
        int, number(1, 10_000_000, "How many operations may wait to be written before sends are refused for a moment.")
    ] = 20_000
    max_wal_bytes: Annotated[
        int, size(_MIB, SIZES["TiB"], "How large the write-ahead log may be before sends are refused for a moment.")
    ] = 1_024 * _MIB
    get_limit_default: Annotated[
        int,
        number(1, 100_000, "How many messages the mailbox hands out when it is not told.", env=("GET_LIMIT_DEFAULT",)),
    ] = 1

    base_url: Annotated[
        str,
        text(
            "The address that others reach the server at, for URLs that it hands out. Empty: where it listens.",
            may_be_empty=True,
            env=("QUEUE_BASE_URL",),
            form="url",
        ),
    ] = ""
    account_id: Annotated[str, text("The account in ARNs and queue URLs.", form="account")] = "000000000000"
    aws_strict: Annotated[
        bool,
        switch(
            "Be as strict as AWS about time: a queue's name is free 60 seconds after its deletion, and a queue may be "
            "purged every 60 seconds."
        ),
    ] = False
    aws_credentials: Annotated[
        str,
        text(
            "The access keys that SQS and SNS calls must be signed with: `ACCESS_KEY:SECRET`, with commas between. "
            "They guard SQS and SNS only; auth_token guards everything else. "
            "Empty: the key `sqew` with the token as its secret or, where there is no token, any signature.",
            may_be_empty=True,
            secret=True,
        ),
    ] = ""

    delivery_enabled: Annotated[
        bool, switch("Post events to the endpoints that subscribe to them.", env=("QUEUE_HTTP_DELIVERY_ENABLED",))
    ] = True
    delivery_poll_ms: Annotated[
        int,
        duration(
            10,
            _HOUR,
            "How often to look for deliveries that another process has made. Its own a server knows of at once.",
            env=("QUEUE_HTTP_DELIVERY_POLL_MS",),
        ),
    ] = 1_000
    delivery_timeout_ms: Annotated[
        int,
        duration(
            10,
            600_000,
            "How long an endpoint may take to answer.",
            env=(Alias("QUEUE_HTTP_DELIVERY_TIMEOUT_SECS", unit="s"),),
        ),
    ] = 5_000
    delivery_batch_size: Annotated[
        int,
        number(
            1,
            10_000,
            "How many deliveries are claimed at a time, at most.",
            env=("QUEUE_HTTP_DELIVERY_BATCH_SIZE",),
        ),
    ] = 50
    delivery_concurrency: Annotated[int, number(1, 10_000, "How many endpoints are posted to at a time.")] = 256
    delivery_per_subscription: Annotated[
        int, number(1, 1_000, "How many of them may be one subscription's. One whose endpoint fails gets one.")
    ] = 16
    delivery_retries: Annotated[
        str,
        text(
            "How long to wait before a failed delivery is tried again, for each further attempt. "
            "When they are used up it is exhausted. Empty: it is tried once.",
            may_be_empty=True,
            form="durations",
        ),
    ] = "10s 30s 60s 300s"
    delivery_keep_ms: Annotated[
        int, duration(0, 3_650 * _DAY, "How long an exhausted delivery is kept, to be looked at and retried.")
    ] = 14 * _DAY
    delivery_allow: Annotated[
        str,
        text(
            "Where events may be posted besides public addresses: host names, `*.suffixes`, addresses and networks "
            "(`10.0.0.0/8`, `fd00::/8`), each with `:port` or for all ports, with commas between. "
            "Empty: public addresses only.",
            may_be_empty=True,
        ),
    ] = ""

    schedule_enabled: Annotated[bool, switch("Fire schedules.", env=("QUEUE_SCHEDULE_ENABLED",))] = True
    schedule_poll_ms: Annotated[
        int,
        duration(
            10,
            _HOUR,
            "How often to look for schedules that another process has made. Of its own a server knows when they fire.",
            env=("QUEUE_SCHEDULE_POLL_MS",),
        ),
    ] = 1_000
    schedule_batch_size: Annotated[
        int,
        number(1, 10_000, "How many schedules fire in one transaction, at most.", env=("QUEUE_SCHEDULE_BATCH_SIZE",)),
    ] = 100
    schedule_preview_count: Annotated[
        int,
        number(0, 100, "How many of its next fires a schedule shows.", env=("QUEUE_SCHEDULE_PREVIEW_COUNT",)),
    ] = 5
    schedule_list_max: Annotated[
        int, number(1, 100_000, "How many schedules are listed at a time, at most.", env=("QUEUE_SCHEDULE_LIST_MAX",))
    ] = 1_000

    event_log: Annotated[
        str, path("The file to log what happens to each message, as JSON lines. Empty: none.", may_be_empty=True)
    ] = ""
    event_log_max_bytes: Annotated[int, size(4_096, SIZES["TiB"], "At what size a new event log is begun.")] = 64 * _MIB
    event_log_keep: Annotated[int, number(0, 10_000, "How many full event logs are kept.")] = 10
    log_level: Annotated[LogLevel, choice("The least important messages shown.", env=("LOG_LEVEL",))] = "info"
    log_format: Annotated[
        LogFormat, choice("How a server logs on stderr. `auto`: text on a terminal, JSON lines anywhere else.")
    ] = "auto"
    access_log: Annotated[
        AccessLog,
        choice("Which requests are logged. `errors`: the server's failures, refused clients and slow requests."),
    ] = "errors"
    slow_ms: Annotated[int, duration(1, _DAY, "From how long on a request or a transaction is logged as slow.")] = 1_000
    metrics_queues: Annotated[
        int, number(0, 100_000, "How many queues metrics name. Those beyond are counted together.")
    ] = 1_000
    otlp_enabled: Annotated[
        bool, switch("Send traces to an OpenTelemetry collector. Needs the extra `otel`.", env=("OTLP_ENABLED",))
    ] = False
    otlp_endpoint: Annotated[str, text("Where the collector listens.", env=("OTLP_ENDPOINT",))] = (
        "http://localhost:4317"
    )
    otlp_protocol: Annotated[
        OtlpProtocol, choice("How the collector is spoken to: `grpc` (port 4317), or `http` (protobuf, port 4318).")
    ] = "grpc"
    otlp_sample_rate: Annotated[
        float,
        fraction(
            "The fraction of requests that are traced, where the caller has not decided it.", env=("OTLP_SAMPLE_RATE",)
        ),
    ] = 0.1

    sources: dict[str, str] = {}  # noqa: RUF012 (msgspec copies it)
    """The source of each value: ``default``, ``environment SQEW_DB``, ``file sqew.toml: db``, ``flag --db``."""

    def __post_init__(self) -> None:
        # A file that holds a token ends in a newline, which is no part of it. A blank one stays, and no server starts.
        if self.auth_token.strip():
            structs.force_setattr(self, "auth_token", self.auth_token.strip())


def _definitions() -> Iterator[Setting]:
    for name, default in zip(Settings.__struct_fields__, Settings.__struct_defaults__, strict=True):
        kind, *definition = get_args(Settings.__annotations__[name])
        if definition and isinstance(definition[0], Setting):
            yield structs.replace(definition[0], name=name, default=default, choices=get_args(kind))


DEFINITIONS: Mapping[str, Setting] = {setting.name: setting for setting in _definitions()}
"""All settings by name, in the order in which they are shown."""


def resolve(
    flags: Mapping[str, object], environ: Mapping[str, str], file: Path | None, *, shared: bool = False
) -> Settings:
    """Return the settings in force: a flag wins over the environment, that over the file, and that over the default.

    ``flags`` maps setting names to given values; None means that none was given. See ``find_file`` for ``file``.
    ``shared``: read the variables too that other programs may have (DATABASE_URL).
    """
    values: dict[str, Any] = {name: setting.default for name, setting in DEFINITIONS.items()}
    sources = dict.fromkeys(values, "default")
    layers = (
        _from_shared(environ) if shared else (),
        _from_file(file) if file else (),
        _from_environment(environ),
        _from_flags(flags),
    )
    for layer in layers:
        for name, value, source in layer:
            values[name], sources[name] = value, source
    return Settings(**values, sources=sources)


def find_file(chosen: str | Path | None, environ: Mapping[str, str], folder: Path) -> Path | None:
    """Return the settings file: the chosen one (``--config``), else SQEW_CONFIG's, else the folder's, if any."""
    named = chosen or environ.get(CONFIG_VARIABLE)
    if named:
        return Path(_at_home(str(named)))
    present = [folder / name for name in FILE_NAMES if (folder / name).is_file()]
    if len(present) > 1:
        names = " and ".join(p.name for p in present)
        raise BadSetting(f"There are several settings files: {names}. Keep one, or choose one with --config.")
    return present[0] if present else None


_Found = Iterator[tuple[str, Any, str]]
"""The name, value and source of each setting from one place."""


def _from_flags(flags: Mapping[str, object]) -> _Found:
    for name, given in flags.items():
        if name not in DEFINITIONS:
            raise BadSetting(f"There is no setting '{name}'{nearest(name, DEFINITIONS)}.")
        if given is not None:
            source = f"flag {DEFINITIONS[name].flag}"
            yield name, DEFINITIONS[name].parse(given, source), source


def _from_environment(environ: Mapping[str, str]) -> _Found:
    known = {setting.variable for setting in DEFINITIONS.values()} | {CONFIG_VARIABLE}
    known |= {alias.name for setting in DEFINITIONS.values() for alias in setting.aliases if "SQEW_" in alias.name}
    # Kubernetes tells every pod of a service named sqew where that is, in variables that look like ours.
    environ = {name: value for name, value in environ.items() if not _is_of_kubernetes(name, value)}
    for variable in environ:
        if variable.startswith("SQEW_") and variable not in known:
            raise BadSetting(
                f"The environment variable {variable} is not a setting of Sqew{nearest(variable, known)}. "
                "Unset it, or see `sqew --help-settings` for the names."
            )
    for name, setting in DEFINITIONS.items():
        found = next(_named(setting, environ), None)
        if found is not None:
            alias, given = found
            source = f"environment {alias.name}"
            yield name, setting.parse(given, source, alias.unit), source


def _named(setting: Setting, environ: Mapping[str, str]) -> Iterator[tuple[Alias, str]]:
    """Yield the values that the environment gives a setting, under each of its names; our own comes first."""
    for alias in (Alias(setting.variable), *setting.aliases):
        given = environ.get(alias.name)
        if given is None or alias.shared:
            continue
        given = alias.read(given) if given else given
        # `DB_PATH=` in a compose file means "not set", unless empty is something one may want.
        if given or setting.may_be_empty:
            yield alias, given


def _from_shared(environ: Mapping[str, str]) -> _Found:
    for name, setting in DEFINITIONS.items():
        for alias in setting.aliases:
            given = alias.read(environ.get(alias.name, "")) if alias.shared else ""
            if given:
                source = f"environment {alias.name}"
                yield name, setting.parse(given, source), source


def _is_of_kubernetes(name: str, value: str) -> bool:
    return re.match("(SQEW|QUEUE)_(SERVICE|PORT)_", name) is not None or (
        name in ("SQEW_PORT", "QUEUE_PORT") and value.startswith("tcp://")
    )


def unused(environ: Mapping[str, str], settings: Settings) -> list[str]:
    """Return sentences on the variables that look like settings, and have no effect."""
    return [*_unknown(environ), *_overruled(environ, settings), *_too_few(environ, settings)]


def _too_few(environ: Mapping[str, str], settings: Settings) -> Iterator[str]:
    """Yield a warning if a variable allows fewer connections than a server on a database needs."""
    for alias in DEFINITIONS["database_connections"].aliases:
        is_used = settings.database_url and settings.sources["database_connections"] == f"environment {alias.name}"
        if is_used and int(environ[alias.name]) <= alias.less:
            least = alias.less + 1
            yield (
                f"{alias.name} allows {environ[alias.name]} connections, and a server needs {least}: one for messages, "
                f"one to look at figures and one to hear of others. It takes {least}."
            )


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    known = {alias.name for setting in DEFINITIONS.values() for alias in setting.aliases}
    for name, value in environ.items():
        # Another program may have such names: none of ours is misspelt for sure.
        if name.startswith("QUEUE_") and name not in known and not _is_of_kubernetes(name, value):
            yield f"The environment variable {name} sets nothing here{nearest(name, known)}."


def _overruled(environ: Mapping[str, str], settings: Settings) -> Iterator[str]:
    for name, setting in DEFINITIONS.items():
        # The first of them was used, unless a flag said otherwise.
        for alias, given in [*_named(setting, environ)][1:]:
            source = settings.sources[name]
            if not _says(setting, alias, given, getattr(settings, name)):
                yield f"The environment variable {alias.name} is not used: {name} is what {source} says."


def _says(setting: Setting, alias: Alias, given: str, value: object) -> bool:
    try:
        return bool(setting.parse(given, "", alias.unit) == value)
    except BadSetting:
        # It may be meant for another program.
        return False


def placed(settings: Settings, environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Choose the one place of a server's queues; return its settings, and sentences on another place that was named.

    The more explicit one wins: a flag, then names of our own (SQEW_…, the settings file), then shared ones.
    """
    file, url = settings.sources["db"], settings.sources["database_url"]
    if not settings.database_url:
        is_other = bool(environ.get("DATABASE_URL")) and url == "default"
        foreign = f"DATABASE_URL is not used: it names no PostgreSQL database. The queues are in {settings.db}."
        return settings, [foreign] if is_other and file == "default" else []
    if file == "default":
        return settings, []
    if file.startswith("flag") and url.startswith("flag"):
        raise BadSetting("--db names a file and --database-url a database. Give one of the two.")
    if url == "environment DATABASE_URL" and file.startswith("environment") and file != "environment SQEW_DB":
        raise BadSetting(
            f"{file.removeprefix('environment ')} names a file and DATABASE_URL a database: it can't be told where the "
            "queues are to be. Unset one of them, or say it with --db FILE or --database-url URL."
        )
    if file.startswith("flag") or url == "environment DATABASE_URL":
        said = f"The queues are in {settings.db} ({file}). The database that {url} names is not used."
        return structs.replace(settings, database_url=""), [said]
    said = f"The queues are in the database that {url} names. The file that {file} names is not used."
    return settings, [said]


def _from_file(file: Path) -> _Found:
    for key, given in _load(file).items():
        if key not in DEFINITIONS:
            raise BadSetting(
                f"{file} has a key '{key}' that is not a setting{nearest(str(key), DEFINITIONS)}. "
                "Remove it, or see `sqew --help-settings` for the names."
            )
        source = f"file {file}: {key}"
        yield key, DEFINITIONS[key].parse(given, source), source


def _load(file: Path) -> Mapping[str, object]:
    parse = {".toml": _parse_toml, ".yaml": _parse_yaml, ".yml": _parse_yaml}.get(file.suffix.lower())
    if parse is None:
        raise BadSetting(f"{file} is not a settings file: its name must end in .toml, .yaml or .yml.")
    try:
        content = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadSetting(f"The settings file {file} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadSetting(f"The settings file {file} is not UTF-8 text.") from error
    try:
        return parse(content)
    except ValueError as error:
        raise BadSetting(f"The settings file {file} can't be understood: {error}.") from error


def _parse_toml(content: str) -> Mapping[str, object]:
    import tomllib  # here, because most runs have no settings file

    return tomllib.loads(content)


def _parse_yaml(content: str) -> Mapping[str, object]:
    import yaml  # here, because it costs 15 ms and most runs have no settings file

    try:
        tree = yaml.compose(content, Loader=yaml.SafeLoader)
        loaded = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        # Without the error itself: it shows the line.
        raise ValueError(_without_names(error.problem or "it is not YAML") + where) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not isinstance(tree, yaml.MappingNode):
        raise ValueError("it must be a list of lines such as `db: queue.db`")  # noqa: TRY004 (one error for bad text)
    keys = [key.value for key, _ in tree.value]
    for key in keys:
        if keys.count(key) > 1:  # YAML would silently keep the last
            raise ValueError(f"it sets {key} twice")
    return loaded


def _without_names(problem: str) -> str:
    """Return the problem of a file without any names from the file: they may be secrets."""
    # What is in quotes is a character that was expected or found, or else a name from the file.
    is_of_name = "alias" in problem or "anchor" in problem or "tag" in problem
    return re.split("['\"]", problem)[0].strip() if is_of_name else problem


_DOCUMENT = """\
# Settings

<!-- Generated from src/sqew/settings.py by `python3 dev docs`. Edit it there. -->

Every setting can be given in four places. The first of these that names it wins:

1. a flag on the command line: `sqew --db orders.db …`
2. an environment variable: `SQEW_DB=orders.db`
3. a line in a settings file: `db = "orders.db"` in TOML, `db: orders.db` in YAML
4. its default

The settings file is the one named by `--config FILE`, else by `{variable}`, else {files} in the current folder.
A name that is not a setting is an error in each of these places, so a misspelt one is never silently ignored. A
variable `QUEUE_…` may belong to another program: one that sets nothing is a warning when a server starts, and so is one
that another name overrules.
`sqew config show` prints every setting with its value and where that came from; `sqew --help-settings` lists the names,
also while one is misspelt.

`SQEW_…` wins over the other variables of a setting. `DATABASE_URL` is what many programs call a database of their own,
so only `sqew serve` and `sqew migrate` look at it, never a command that reads or writes queues and never `Queue.open`;
and a server uses it only where no `--db`, `SQEW_DB` or settings file names another place. Which place it is, the server
says when it starts.

Sizes and durations are plain numbers in the unit that the name ends in, or numbers with a unit:
`64MiB`, `1.5 GiB`, `30s`, `5m`. Units of size are {sizes}; of time {durations}.
Paths are relative to the current folder, wherever they are written; `~` is your home folder.
What is true or false is also on or off, and a flag for it by itself is on: `--aws-strict`, `--schedule-enabled off`.

| setting | default | what it is |
|---|---|---|
{rows}

## Allowed values and names

| setting | flag | environment | allowed |
|---|---|---|---|
{names}
"""


def as_markdown() -> str:
    """Return the page ``docs/settings.md``."""
    return _DOCUMENT.format(
        variable=CONFIG_VARIABLE,
        files=", ".join(f"`{name}`" for name in FILE_NAMES[:-1]) + f" or `{FILE_NAMES[-1]}`",
        sizes=", ".join(SIZES),
        durations=", ".join(DURATIONS),
        rows="\n".join(_row(setting) for setting in DEFINITIONS.values()),
        names="\n".join(_names(setting) for setting in DEFINITIONS.values()),
    )


def _remark(alias: Alias) -> str:
    if alias.shared:
        return " (of `serve` and `migrate`)"
    if alias.less:
        return f" (with the {alias.less} more)"
    return f" (in {alias.unit})" if alias.unit else ""


def _row(setting: Setting) -> str:
    plain = f"`{setting.default}`" if setting.default != "" else "empty"
    shown = setting.show(setting.default)
    default = f"{plain} ({shown})" if setting.units and setting.default else plain
    return f"| `{setting.name}` | {default} | {setting.doc} |"


def _names(setting: Setting) -> str:
    aliases = [f"`{a.name}`" + _remark(a) for a in setting.aliases]
    variables = ", ".join([f"`{setting.variable}`", *aliases])
    return f"| `{setting.name}` | `{setting.flag}` | {variables} | {setting.allowed} |"
