"""The addresses that belong to the public internet."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_IPV4 = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an unspecified"),
        ("10.0.0.0/8", "a private"),
        ("100.64.0.0/10", "a carrier's internal"),
        ("127.0.0.0/8", "a loopback"),
        ("169.254.0.0/16", "a link-local"),
        ("172.16.0.0/12", "a private"),
        ("192.0.0.0/24", "a reserved"),
        ("192.0.2.0/24", "a documentation"),
        ("192.88.99.0/24", "a 6to4 relay's"),
        ("192.168.0.0/16", "a private"),
        ("198.18.0.0/15", "a benchmarking"),
        ("198.51.100.0/24", "a documentation"),
        ("203.0.113.0/24", "a documentation"),
        ("224.0.0.0/4", "a multicast"),
        ("255.255.255.255/32", "a broadcast"),
        ("240.0.0.0/4", "a reserved"),
        # It looks public, and within Azure it is the platform that answers there.
        ("168.63.129.16/32", "a cloud platform's"),
    )
)
_IPV6 = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::/128", "an unspecified"),
        ("::1/128", "a loopback"),
        ("::ffff:0:0/96", "an IPv4-mapped"),
        ("::/96", "an IPv4-compatible"),
        ("64:ff9b::/96", "an IPv4-embedding"),
        ("64:ff9b:1::/48", "an IPv4-embedding"),
        ("100::/64", "a discard-only"),
        ("2001::/32", "an IPv4-embedding"),
        ("2001::/23", "a reserved"),
        ("2001:db8::/32", "a documentation"),
        ("2002::/16", "an IPv4-embedding"),
        ("3fff::/20", "a documentation"),
        ("fc00::/7", "a private"),
        ("fe80::/10", "a link-local"),
        ("fec0::/10", "a site-local"),
        ("ff00::/8", "a multicast"),
    )
)
_UNICAST = IPv6Network("2000::/3")
"""The part of IPv6 that has been given out for the public."""


def reason_not_public(address: Address) -> str:
    """Return why an address is not public, to end the sentence "it is …", or an empty string if it is.

    >>> import ipaddress
    >>> reason_not_public(ipaddress.ip_address("169.254.169.254"))
    'a link-local address'
    >>> reason_not_public(ipaddress.ip_address("9.9.9.9"))
    ''
    """
    if isinstance(address, IPv4Address):
        kind = next((kind for network, kind in _IPV4 if address in network), "")
    elif address.scope_id is not None:
        kind = "a link's own"
    else:
        beyond = "" if address in _UNICAST else "a reserved"
        kind = next((kind for network, kind in _IPV6 if address in network), beyond)
    return f"{kind} address" if kind else ""
