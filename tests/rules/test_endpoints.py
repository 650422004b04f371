"""URLs of endpoints: the forms accepted and refused."""

import pytest

from sqew.errors import BadEndpoint
from sqew.rules.webhook_addresses import WebhookAddresses


@pytest.mark.parametrize(
    ("url", "host", "port", "target"),
    [
        ("http://example.com", "example.com", 80, "/"),
        ("https://example.com/", "example.com", 443, "/"),
        ("HTTPS://Example.COM:8443/Hook?a=B&c=%20", "example.com", 8443, "/Hook?a=B&c=%20"),
        ("https://example.com?a=1", "example.com", 443, "/?a=1"),
        ("https://example.com./x", "example.com", 443, "/x"),
        ("https://a_b.example-1.com/x:y@z[0]", "a_b.example-1.com", 443, "/x:y@z[0]"),
        ("https://b\u00fccher.example/x", "xn--bcher-kva.example", 443, "/x"),
        ("https://fa\u00df.example/", "xn--fa-hia.example", 443, "/"),
        ("https://example\u3002com/", "example.com", 443, "/"),
        ("http://8.8.8.8:81/", "8.8.8.8", 81, "/"),
        ("http://[2606:4700:0:0::1111]:81/", "2606:4700::1111", 81, "/"),
        ("http://[2606:4700::1111]/", "2606:4700::1111", 80, "/"),
        ("http://localhost:65535/", "localhost", 65535, "/"),
    ],
)
def test_urls_that_may_be_endpoints(url, host, port, target):
    endpoint = WebhookAddresses("").check_url(url)

    assert (endpoint.host, endpoint.port, endpoint.target) == (host, port, target)


@pytest.mark.parametrize(
    ("url", "position", "why"),
    [
        ("", 1, "must begin with http:// or https://"),
        ("example.com/x", 1, "must begin with"),
        ("ftp://example.com/", 1, "must begin with"),
        ("file:///etc/passwd", 1, "must begin with"),
        ("gopher://example.com/", 1, "must begin with"),
        (" http://example.com/", 1, "must begin with"),
        ("http:/example.com", 1, "must begin with"),
        ("http://", 8, "there is no host"),
        ("http:///x", 8, "there is no host"),
        ("http://:80/", 8, "there is no host"),
        ("https://?x", 9, "there is no host"),
        ("http://user@example.com/", 12, "no user, password or '@'"),
        ("http://user:secret@example.com/", 19, "no user, password or '@'"),
        ("http://example.com:/", 20, "a port is a number from 1 to 65535"),
        ("http://example.com:0/", 20, "a port is"),
        ("http://example.com:65536/", 20, "a port is"),
        ("http://example.com:+80/", 20, "a port is"),
        ("http://example.com:8o/", 20, "a port is"),
        ("http://example.com:\u0661/", 20, "a port is"),
        ("http://[::1/", 8, "a host's name"),
        ("http://[::1]x/", 8, "a host's name"),
        ("http://[fe80::1%25eth0]/", 8, "an address with a zone"),
        ("http://[1.2.3.4]/", 8, "between brackets stands an IPv6 address"),
        ("http://[]/", 8, "between brackets"),
        ("http://::1/", 8, "a host's name"),
        ("http://a..b/", 8, "a host's name"),
        ("http://-a.com/", 8, "a host's name"),
        ("http://a%2eb/", 8, "a host's name"),
        (f"http://{'a' * 64}.com/", 8, "a host's name"),
        (f"http://{'abc.' * 63}abcd/", 8, "a host's name"),
        ("http://a\u2100b.com/", 8, "no host can have that name"),
        ("http://a\u200bb/", 9, "can't stand in a host's name"),
        ("http://exam ple.com/", 12, "' ' can't stand in a host's name"),
        ("http://example.com\\@evil.com/", 19, "can't stand in a host's name"),
        ("http://example.com\n/", 19, "can't stand in a host's name"),
        ("http://example.com/a b", 21, "Write %20"),
        ("http://example.com/\r\nx: y", 20, "Write %0D"),
        ("http://example.com/\u00e9", 20, "Write %C3%A9"),
        ("http://example.com/\x00", 20, "Write %00"),
        ("http://example.com/\ud800", 20, "Write %ED%A0%80"),
        ("http://example.com/a#b", 21, "what follows '#' is never sent"),
        ("http://example.com#b", 19, "what follows '#' is never sent"),
    ],
)
def test_urls_that_may_not_and_where_they_are_wrong(url, position, why):
    with pytest.raises(BadEndpoint) as refusal:
        WebhookAddresses("").check_url(url)

    assert f"at character {position}: " in str(refusal.value)
    assert why in str(refusal.value)


@pytest.mark.parametrize("url", [None, 5, b"http://example.com/", ["http://example.com/"]])
def test_an_endpoint_is_a_text(url):
    with pytest.raises(BadEndpoint, match="An endpoint is a text, not "):
        WebhookAddresses("").check_url(url)


def test_an_endpoint_has_2048_characters_at_most():
    longest = "http://example.com/".ljust(2_048, "x")

    assert WebhookAddresses("").check_url(longest).host == "example.com"
    with pytest.raises(BadEndpoint, match="has 2049 characters, and may have 2048"):
        WebhookAddresses("").check_url(longest + "x")


def test_a_refusal_does_not_repeat_a_password():
    with pytest.raises(BadEndpoint) as refusal:
        WebhookAddresses("").check_url("http://user:hunter2@example.com/")

    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "host",
    ["127.1", "2130706433", "0x7f000001", "0x7f.1", "0X7F.0.0.1", "017700000001", "0177.0.0.1", "127.0.0.1.", "0x", "0",
     "127.0.0.01", "1.2.3.4.5", "256.1.1.1", "127.0.0.0x1", "\uff11\uff12\uff17.0.0.1", "\u2460\u2461\u2466.0.0.1"],
)  # fmt: skip
def test_no_way_of_writing_ipv4_leads_around_the_check(host):
    with pytest.raises(BadEndpoint, match=r"an IPv4 address is four|127\.0\.0\.1 is a loopback"):
        WebhookAddresses("").check_url(f"http://{host}/")
