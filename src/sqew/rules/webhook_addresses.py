"""The border: addresses that webhooks may reach.

A server that posted to any address would open its own network to everyone who may subscribe.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Sequence
from ipaddress import ip_address, ip_network

from msgspec import Struct

from sqew.errors import BadSetting, ForbiddenAddress, NotTried, Unresolvable
from sqew.rules.addresses import Address, Network, reason_not_public
from sqew.rules.endpoints import Endpoint, endpoint_of, host_of, port_of, wrong_at
from sqew.rules.resolver import Resolver, look_up

LOOKUP_S = 10.0
"""Seconds that looking up the addresses of a name may take."""
_REMEMBERED = 1_024
"""Endpoints that are cached, so that each is parsed once."""


class Allowed(Struct, frozen=True):
    """An entry of ``delivery_allow``: a name, a suffix that begins with a dot, or a network; on one port or on all."""

    port: int | None
    name: str = ""
    network: Network | None = None

    def names(self, host: str, port: int) -> bool:
        """Return True if the entry allows this host by its name."""
        fits = host.endswith(self.name) if self.name.startswith(".") else host == self.name
        return fits and self.port in (None, port)

    def holds(self, address: Address, port: int) -> bool:
        """Return True if the entry allows this address."""
        return self.network is not None and address in self.network and self.port in (None, port)


class WebhookAddresses:
    """The addresses that webhooks may reach: public ones, and those that the setting ``delivery_allow`` names.

    >>> addresses = WebhookAddresses("10.1.0.0/16, *.internal:8080")
    >>> addresses.check_url("http://10.1.2.3/hook").host
    '10.1.2.3'
    >>> addresses.check_url("http://10.2.0.1/hook")
    Traceback (most recent call last):
    sqew.errors.BadEndpoint: The endpoint is wrong at character 8: 10.2.0.1 is a private address. \
Use a public one, or allow it in delivery_allow.
    """

    def __init__(self, allowed: str, lookup: Callable[[str], Sequence[str]] = look_up) -> None:
        self._allowed = tuple(_entry(written) for written in re.split(r"[\s,]+", allowed) if written)
        self._names = Resolver(lookup)
        self._check = functools.lru_cache(_REMEMBERED)(self._checked)

    def check_url(self, url: object) -> Endpoint:
        """Parse an endpoint, or raise BadEndpoint. The addresses of its name are checked when it is resolved."""
        return self._check(url) if isinstance(url, str) else endpoint_of(url)

    async def resolve(self, endpoint: Endpoint) -> list[Address]:
        """Return the addresses of an endpoint, each of which may be posted to.

        Raises Unresolvable if there are none, and ForbiddenAddress if one of them may not be posted to: a name that
        mixes allowed and forbidden addresses is likely to be an attack.
        """
        if endpoint.address is not None:
            return [endpoint.address]
        addresses = await self._addresses_of(endpoint.host)
        if not any(entry.names(endpoint.host, endpoint.port) for entry in self._allowed):
            for address in addresses:
                if reason := self._reason_against(address, endpoint.port):
                    raise ForbiddenAddress(
                        f"{endpoint.host} leads to {address}, {reason}. "
                        "Have it lead to public addresses only, or allow it in delivery_allow."
                    )
        return addresses

    def _checked(self, url: str) -> Endpoint:
        endpoint = endpoint_of(url)
        if endpoint.address is not None and (reason := self._reason_against(endpoint.address, endpoint.port)):
            index = len(f"{endpoint.scheme}://")
            raise wrong_at(index, f"{endpoint.host} is {reason}. Use a public one, or allow it in delivery_allow.")
        return endpoint

    def _reason_against(self, address: Address, port: int) -> str:
        """Return why an address may not be posted to, or an empty string if it may."""
        reason = reason_not_public(address)
        return "" if reason and any(entry.holds(address, port) for entry in self._allowed) else reason

    async def _addresses_of(self, host: str) -> list[Address]:
        try:
            async with asyncio.timeout(LOOKUP_S):
                found = await self._names.addresses_of(host)
        except TimeoutError:
            raise Unresolvable(f"The name {host} was not resolved within {LOOKUP_S:g} s. Check its DNS.") from None
        except BlockingIOError:
            raise NotTried(f"Too many names are being looked up to ask for {host}. It is tried again soon.") from None
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise Unresolvable(f"The name {host} can't be resolved ({why}). Check its spelling and its DNS.") from None
        addresses = [ip_address(written) for written in dict.fromkeys(found)]
        if not addresses:
            raise Unresolvable(f"The name {host} has no address. Check its spelling and its DNS.")
        return addresses


def _entry(written: str) -> Allowed:
    host, port = _without_port(written)
    try:
        if "://" in written:
            raise ValueError("it is a URL, and a host stands alone")
        return _allowed(host, None if port is None else port_of(port))
    except ValueError as error:
        raise BadSetting(
            f"delivery_allow can't hold {written!r}: {error}. "
            "Write names, *.suffixes, addresses and networks, such as hooks.internal, *.example.com:8080, "
            "10.0.0.0/8 or [fd00::1]:443."
        ) from None


def _allowed(host: str, port: int | None) -> Allowed:
    if "%" in host:
        raise ValueError("an address with a zone means something on this machine only")
    if "/" in host or ":" in host:
        return Allowed(port, network=ip_network(host))
    is_suffix = host.startswith("*.")
    name, address = host_of(host.removeprefix("*."))
    if address is None:
        return Allowed(port, name=f".{name}" if is_suffix else name)
    if is_suffix:
        raise ValueError("only names have suffixes")
    return Allowed(port, network=ip_network(address))


def _without_port(written: str) -> tuple[str, str | None]:
    """Split an entry into its host or network, and its port if it has one. IPv6 has a port only after brackets."""
    if bracketed := re.fullmatch(r"\[(.*)\](?::(.*))?", written):
        host, port = bracketed.groups()
        return host, port
    if written.count(":") != 1:
        return written, None
    host, _, port = written.partition(":")
    return host, port
