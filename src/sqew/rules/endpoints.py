"""Endpoints: the rules for URLs that webhooks may have."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from msgspec import Struct

from sqew.errors import BadEndpoint
from sqew.rules.addresses import Address

LONGEST_URL = 2_048
EXAMPLE = "https://example.com/hook"
PORTS = {"http": 80, "https": 443}

_SCHEME = re.compile(r"(https?)://", re.IGNORECASE)
_UNSAFE = re.compile(r"[^!-~]|[\"<>\\^`{|}#]")
"""Characters that a URL must have encoded. Programs disagree on what some of them mean, above all the backslash."""
_AUTHORITY_ENDS = re.compile(r"[/?#]|$")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_NAME = 253


class Endpoint(Struct, frozen=True):
    """A parsed endpoint. ``address`` is set if the host is an address and not a name."""

    scheme: str
    host: str
    port: int
    target: str
    address: Address | None = None

    @property
    def authority(self) -> str:
        """The host and port as in a Host header: without the port if it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def endpoint_of(url: object) -> Endpoint:
    """Parse a URL, or raise BadEndpoint, which says what is wrong with it, and where.

    >>> endpoint_of("https://Example.com/hook?a=1")
    Endpoint(scheme='https', host='example.com', port=443, target='/hook?a=1', address=None)
    """
    if not isinstance(url, str):
        raise BadEndpoint(f"An endpoint is a text, not {type(url).__name__}. Write it like {EXAMPLE}.")
    if len(url) > LONGEST_URL:
        raise BadEndpoint(f"The endpoint has {len(url)} characters, and may have {LONGEST_URL}. Shorten it.")
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise wrong_at(0, f"it must begin with http:// or https://. Write it like {EXAMPLE}.")
    begin = scheme.end()
    end = begin + _start_of(_AUTHORITY_ENDS, url[begin:])
    _check_characters(url, end)
    name = scheme[1].lower()
    host, port, address = _taken_apart(url[begin:end], begin, PORTS[name])
    target = url[end:] if url.startswith("/", end) else f"/{url[end:]}"
    return Endpoint(name, host, port, target, address)


def host_of(written: str) -> tuple[str, Address | None]:
    """Return a host in canonical form, and its address if it is one; raise ValueError, which says why it is no host.

    >>> host_of("Bücher.example")
    ('xn--bcher-kva.example', None)
    """
    name = written.lower() if written.isascii() else _as_ascii(written)
    name = name.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Many programs read 127.1, 0x7f000001 and 017700000001 as addresses too: they are not asked what they think.
        try:
            address = IPv4Address(name)
        except AddressValueError:
            raise ValueError(
                "an IPv4 address is four decimal numbers from 0 to 255 without leading zeros, such as 192.0.2.1"
            ) from None
        return str(address), address
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(
            "a host's name is made of letters, digits and hyphens, "
            f"with dots between, up to 63 characters each and {_LONGEST_NAME} in all"
        )
    return name, None


def ipv6_of(written: str) -> IPv6Address:
    """Return the IPv6 address between brackets; raise ValueError, which says why it can't be one."""
    if "%" in written:
        raise ValueError("an address with a zone means something on this machine only")
    try:
        return IPv6Address(written)
    except AddressValueError:
        raise ValueError("between brackets stands an IPv6 address, such as [2606:4700::1111]") from None


def port_of(written: str) -> int:
    """Return a port; raise ValueError, which says what a port is."""
    port = int(written) if re.fullmatch(r"[0-9]{1,5}", written) else 0
    if not 1 <= port <= 65_535:
        raise ValueError("a port is a number from 1 to 65535")
    return port


def wrong_at(index: int, why: str) -> BadEndpoint:
    """Return the error for a character of an endpoint. It does not show the endpoint: endpoints hold secrets."""
    return BadEndpoint(f"The endpoint is wrong at character {index + 1}: {why}")


def _start_of(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return found.start() if found else -1


def _check_characters(url: str, path_begin: int) -> None:
    for found in _UNSAFE.finditer(url):
        character, index = found[0], found.start()
        if character == "#":
            raise wrong_at(index, "what follows '#' is never sent. Leave it out, or write %23 if it is part of a name.")
        if index >= path_begin:
            encoded = "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
            raise wrong_at(index, f"{character!r} can't stand in a path or query. Write {encoded}.")
        if character.isascii() or not character.isprintable():
            raise wrong_at(index, f"{character!r} can't stand in a host's name. Write it like {EXAMPLE}.")


def _taken_apart(authority: str, begin: int, usual_port: int) -> tuple[str, int, Address | None]:
    """Return host, port and address of the part between ``//`` and the path, which starts at ``begin`` in the URL."""
    if "@" in authority:
        index = begin + authority.index("@")
        raise wrong_at(index, f"there may be no user, password or '@' before the path. Write it like {EXAMPLE}.")
    written, colon, port = authority, "", ""
    if not authority.endswith("]") and ":" in authority:
        written, colon, port = authority.rpartition(":")
    if not written:
        raise wrong_at(begin, f"there is no host. Write it like {EXAMPLE}.")
    index = begin
    try:
        host, address = _host_or_ipv6(written)
        index = begin + len(written) + 1
        return host, port_of(port) if colon else usual_port, address
    except ValueError as error:
        raise wrong_at(index, f"{error}. Write it like {EXAMPLE}.") from None


def _host_or_ipv6(written: str) -> tuple[str, Address | None]:
    if written.startswith("[") and written.endswith("]"):
        address = ipv6_of(written[1:-1])
        return str(address), address
    return host_of(written)


def _as_ascii(name: str) -> str:
    import idna  # here, because it takes 20 ms and few names need it

    try:
        return idna.encode(name, uts46=True, std3_rules=True).decode().lower()
    except idna.IDNAError:
        raise ValueError("no host can have that name") from None
