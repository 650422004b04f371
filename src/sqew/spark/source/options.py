"""The options of ``format("sqew")``: their meaning, which of them go together, and their checks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Literal, get_args

from sqew.client.address import TOKEN_VARIABLE, URL_VARIABLE, address_of
from sqew.errors import BadSetting, SqewError, nearest
from sqew.model import Discreet, Format
from sqew.rules.names import check_queue_name
from sqew.rules.values import check_text, shown

Use = Literal["batch read", "batch write", "streaming read", "streaming write"]

EVERYWHERE = ("url", "queue", "token", "tokenFile")
OPTIONS: dict[Use, tuple[str, ...]] = {
    "batch read": (*EVERYWHERE, "path", "archive", "numPartitions"),
    "batch write": (*EVERYWHERE, "jobId", "format"),
    "streaming read": (*EVERYWHERE, "consumer", "maxMessagesPerTrigger", "leaseSeconds", "holdSeconds"),
    "streaming write": (*EVERYWHERE, "format", "checkpointLocation", "queryName"),
}
"""The options of each use. Some of the last one's are not ours but Spark's own, which it passes on."""
KNOWN = tuple(dict.fromkeys(name for names in OPTIONS.values() for name in names))

DEFAULT_MESSAGES_PER_TRIGGER = 100_000
DEFAULT_LEASE_S = 3_600
DEFAULT_HOLD_S = 30
MOST_PARTITIONS = 10_000
_LONGEST_S = 86_400
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


class Target(Discreet, frozen=True):
    """A queue, the servers that have it, and the token for them."""

    hidden: ClassVar[tuple[str, ...]] = ("token",)
    queue: str
    urls: tuple[str, ...]
    token: str = ""


class Options(Discreet, frozen=True, kw_only=True):
    """The options, parsed. A file is read if ``path`` is given, else the servers are asked."""

    hidden: ClassVar[tuple[str, ...]] = ("target",)
    target: Target
    given: tuple[str, ...]
    """The names that were given, in lower case."""
    path: str | None = None
    archive: bool = False
    partitions: int | None = None
    job_id: str | None = None
    format: Format = "json"
    consumer: str = ""
    messages_per_trigger: int = DEFAULT_MESSAGES_PER_TRIGGER
    lease_ms: int = DEFAULT_LEASE_S * 1000
    hold_ms: int = DEFAULT_HOLD_S * 1000

    @property
    def queue(self) -> str:
        return self.target.queue

    def check_use(self, use: Use) -> None:
        """Raise unless all options given are for this use, and those that it needs are given."""
        allowed = {name.lower() for name in OPTIONS[use]}
        for name in self.given:
            if name not in allowed:
                uses = " and ".join(f"{other}s" for other, names in OPTIONS.items() if _written(name) in names)
                raise BadSetting(f"Option '{_written(name)}' is for {uses}, not for {use}s. Leave it out.")
        if use == "streaming read" and not self.consumer:
            raise BadSetting(
                "A streaming read needs the option 'consumer': the name under which the server keeps how far this "
                "query has come. Take one that no other query on the queue has."
            )


def options_of(given: Mapping[str, str]) -> Options:
    """Parse the options of a reader or writer. Spark passes their names in lower case."""
    _check_names(given)
    values = {name.lower(): value for name, value in given.items()}
    _check_place(values)
    return Options(
        target=Target(_queue_of(values), _urls_of(values), _token_of(values)),
        given=tuple(values),
        path=values.get("path"),
        archive=_flag(values, "archive"),
        partitions=_number(values, "numPartitions", None, MOST_PARTITIONS),
        job_id=_name(values, "jobId"),
        format=_format(values),
        consumer=_name(values, "consumer") or "",
        messages_per_trigger=_number(values, "maxMessagesPerTrigger", DEFAULT_MESSAGES_PER_TRIGGER, 10_000_000),
        lease_ms=_number(values, "leaseSeconds", DEFAULT_LEASE_S, _LONGEST_S) * 1000,
        hold_ms=_number(values, "holdSeconds", DEFAULT_HOLD_S, _LONGEST_S) * 1000,
    )


def _check_names(given: Iterable[str]) -> None:
    by_name = {name.lower(): name for name in KNOWN}
    for name in given:
        if name.lower() not in by_name:
            # Compared in small letters, since that is how they come.
            hint = nearest(name.lower(), by_name)
            close = next((known for low, known in by_name.items() if f"'{low}'" in hint), "")
            suggestion = f" (did you mean '{close}'?)" if close else ""
            raise BadSetting(f"There is no option '{name}'{suggestion}. The options are: {', '.join(KNOWN)}.")


def _check_place(values: Mapping[str, str]) -> None:
    if "path" in values:
        for name in ("url", "token", "tokenfile"):
            if name in values:
                raise BadSetting(
                    f"Option '{_written(name)}' is for a server, and 'path' for a file. Give one of the two."
                )
    elif "url" not in values and not os.environ.get(URL_VARIABLE):
        raise BadSetting(
            "Say where the queue is: option 'url' (like http://host:8888), or 'path' for a file to read. "
            f"Or set {URL_VARIABLE}."
        )


def _queue_of(values: Mapping[str, str]) -> str:
    queue = values.get("queue")
    if queue is None:
        raise BadSetting("Say which queue: option 'queue'.")
    check_queue_name(queue)
    return queue


def _urls_of(values: Mapping[str, str]) -> tuple[str, ...]:
    if "path" in values:
        return ()
    given = values.get("url", os.environ.get(URL_VARIABLE, ""))
    urls = tuple(url.strip() for url in given.split(",") if url.strip())
    for url in urls or ("",):
        address_of(url)
    return urls


def _token_of(values: Mapping[str, str]) -> str:
    if "token" in values and "tokenfile" in values:
        raise BadSetting("Give the token in one place: 'token' or 'tokenFile', not both.")
    if "tokenfile" in values:
        return _read_token(values["tokenfile"])
    return values.get("token", os.environ.get(TOKEN_VARIABLE, ""))


def _read_token(file: str) -> str:
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise BadSetting(f"The token can't be read from {shown(file)} ({why}). Correct 'tokenFile'.") from None
    if not token:
        raise BadSetting(f"There is no token in {shown(file)}. Write it there, or leave 'tokenFile' out.")
    return token


def _flag(values: Mapping[str, str], name: str) -> bool:
    value = values.get(name.lower(), "false").strip().lower()
    if value not in (*_TRUE, *_FALSE):
        raise BadSetting(f"Option '{name}' can't be {shown(value)}: it must be true or false.")
    return value in _TRUE


def _number(values: Mapping[str, str], name: str, default: int | None, most: int) -> int:
    value = values.get(name.lower())
    if value is None:
        return default  # type: ignore[return-value]  # None only where the caller gave it
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= most):
        raise BadSetting(f"Option '{name}' can't be {shown(value)}: it must be a whole number from 1 to {most}.")
    return int(value)


def _name(values: Mapping[str, str], name: str) -> str | None:
    value = values.get(name.lower())
    if value is not None:
        try:
            check_text(f"Option '{name}'", value)
        except SqewError as error:
            raise BadSetting(str(error)) from None
    return value


def _format(values: Mapping[str, str]) -> Format:
    value = values.get("format", "json")
    known = get_args(Format)
    if value not in known:
        raise BadSetting(
            f"Option 'format' can't be {shown(value)}{nearest(value, known)}: bodies are {' or '.join(known)}."
        )
    return value  # type: ignore[return-value]  # one of them, as was just seen


def _written(name: str) -> str:
    """Return the name of an option as users write it, from its lower-case form."""
    return next((known for known in KNOWN if known.lower() == name), name)
