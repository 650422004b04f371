"""Public addresses: every range that is not public, and its neighbours on both sides."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import BadEndpoint
from sqew.rules.addresses import reason_not_public
from sqew.rules.webhook_addresses import WebhookAddresses

PUBLIC = {
    "IPv4": "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 "
    "168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 "
    "192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 203.0.112.255 203.0.114.0 223.255.255.255",
    "IPv6": "2001:200::1 2001:4860:4860::8888 2606:4700:4700::1111 2a00:1450:4001:82a::200e "
    "2003::1 2400:cb00::1 3ffe::1",
}

NOT_PUBLIC = {
    "unspecified": "0.0.0.0 0.0.0.1 0.255.255.255 ::",
    "private": "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 "
    "fc00::1 fd00::1 fd00:ec2::254 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "carrier's internal": "100.64.0.0 100.100.100.200 100.127.255.255",
    "loopback": "127.0.0.1 127.0.0.53 127.1.2.3 127.255.255.255 ::1",
    "link-local": "169.254.0.1 169.254.169.254 169.254.170.2 169.254.255.255 fe80::1 febf:ffff::1",
    "reserved": "192.0.0.1 192.0.0.192 192.0.0.255 240.0.0.1 255.255.255.254 2001:1::1 2001:2::1 2001:10::1 2001:20::1 "
    "2001:1ff:ffff::1 0:0:1::1 200::1 1fff::1 4000::1 5f00::1 8000::1 fe00::1",
    "documentation": "192.0.2.1 198.51.100.255 203.0.113.7 2001:db8::1 3fff::1 3fff:fff::1",
    "6to4 relay's": "192.88.99.1",
    "benchmarking": "198.18.0.0 198.19.255.255",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "broadcast": "255.255.255.255",
    "cloud platform's": "168.63.129.16",
    "IPv4-mapped": "::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8",
    "IPv4-compatible": "::127.0.0.1 ::8.8.8.8 ::2",
    "IPv4-embedding": "64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::7f00:1 2001:0:4136:e378:8000:63bf:3fff:fdd2 "
    "2002:7f00:1:: 2002:808:808::1",
    "discard-only": "100::1",
    "site-local": "fec0::1 feff::1",
    "link's own": "2606:4700::1%eth0 fe80::1%1",
}
BY_KIND = [(address, kind) for kind, addresses in NOT_PUBLIC.items() for address in addresses.split()]


@pytest.mark.parametrize("address", " ".join(PUBLIC.values()).split())
def test_public_addresses(address):
    assert reason_not_public(ip_address(address)) == ""


@pytest.mark.parametrize(("address", "kind"), BY_KIND)
def test_addresses_that_are_not_public(address, kind):
    reason = reason_not_public(ip_address(address))

    assert reason.removeprefix("an ").removeprefix("a ") == f"{kind} address"


@given(st.ip_addresses())
def test_what_python_takes_for_private_is_never_public(address):
    assert address.is_global or reason_not_public(address)


@pytest.mark.parametrize(("address", "kind"), BY_KIND)
def test_an_address_that_is_not_public_is_refused_at_once(address, kind):
    if "%" in address:
        kind = "with a zone"
    host = f"[{address}]" if ":" in address else address

    with pytest.raises(BadEndpoint, match=kind):
        WebhookAddresses("").check_url(f"http://{host}/hook")
