"""Hosts and origins as requests name them, read strictly: a name that can't be read matches nothing.

>>> read_host(b"[::1]:8888"), read_host(b"[::1].evil.example"), read_host(b"localhost:x@evil.example")
(Host(name='::1', port=8888), None, None)
>>> read_origin(b"https://shop.example")
Origin(scheme='https', host=Host(name='shop.example', port=443))
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

_HOST = re.compile(rb"(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9._~-]{1,255}))(?::([0-9]{0,5}))?")
_SCHEME = re.compile(rb"[a-z][a-z0-9+.-]{0,63}")
_USUAL_PORTS = {"http": 80, "https": 443}


class Host(NamedTuple):
    """A name or an address, in lower case and without brackets, and a port where one was given."""

    name: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a page. Its port is the scheme's usual one where it names none."""

    scheme: str
    host: Host


def read_host(text: bytes) -> Host | None:
    """Read ``host`` or ``host:port``, as the header Host has it; None if it is anything else."""
    found = _HOST.fullmatch(text.lower())
    if found is None:
        return None
    address, name, port = found.groups()
    if address is not None and not _is_ipv6(address.decode()):
        return None
    # A dot at the end says that the name is whole.
    shown = (address or name.removesuffix(b".")).decode()
    return Host(shown, int(port) if port else None) if shown and int(port or 0) <= 65_535 else None


def read_origin(text: bytes) -> Origin | None:
    """Read ``scheme://host`` or ``scheme://host:port``, as the header Origin has it; None if it is anything else."""
    scheme, found, rest = text.lower().partition(b"://")
    host = read_host(rest) if found and _SCHEME.fullmatch(scheme) else None
    if host is None:
        return None
    return Origin(scheme.decode(), _with_port(host, scheme.decode()))


def is_same_server(origin: Origin, host: Host) -> bool:
    """Return True if a page of this origin came from the server that is called by this host."""
    return origin.host == _with_port(host, origin.scheme)


def is_loopback(name: str) -> bool:
    """Return True if an address (or ``localhost``) reaches this machine only."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _with_port(host: Host, scheme: str) -> Host:
    return host if host.port is not None else Host(host.name, _USUAL_PORTS.get(scheme))


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
