"""Addresses that webhooks may reach: those that names resolve to, and exceptions that are allowed."""

import asyncio
import threading

import pytest

from sqew.errors import BadEndpoint, BadSetting, ForbiddenAddress, NotTried, Unresolvable
from sqew.rules.resolver import Resolver
from sqew.rules.webhook_addresses import WebhookAddresses
from sqew.settings import Settings


def names(**known: str):
    """Return a lookup that replaces DNS, from names to addresses."""

    def lookup(host: str) -> list[str]:
        if host.partition(".")[0] not in known:
            raise OSError(-2, "Name or service not known")
        return known[host.partition(".")[0]].split()

    return lookup


async def resolved(webhook_addresses: WebhookAddresses, url: str) -> list[str]:
    return [str(address) for address in await webhook_addresses.resolve(webhook_addresses.check_url(url))]


# Names


def test_a_name_is_resolved_to_its_addresses():
    webhook_addresses = WebhookAddresses("", names(hook="93.184.216.34 2606:4700::1 93.184.216.34"))

    assert asyncio.run(resolved(webhook_addresses, "http://hook.example/")) == ["93.184.216.34", "2606:4700::1"]


def test_an_address_needs_no_resolving():
    assert asyncio.run(resolved(WebhookAddresses("", names()), "http://8.8.8.8/")) == ["8.8.8.8"]


def test_the_system_knows_names():
    assert "127.0.0.1" in asyncio.run(resolved(WebhookAddresses("localhost"), "http://localhost/"))


@pytest.mark.parametrize("addresses", ["127.0.0.1", "8.8.8.8 10.0.0.1", "fe80::1%eth0 8.8.8.8", "::ffff:8.8.8.8"])
def test_a_name_with_any_address_that_is_not_public_is_refused(addresses):
    webhook_addresses = WebhookAddresses("", names(hook=addresses))

    with pytest.raises(ForbiddenAddress, match=r"hook\.example leads to .* address\. .*delivery_allow"):
        asyncio.run(resolved(webhook_addresses, "http://hook.example/"))


def test_an_unknown_name_is_told_from_a_forbidden_one():
    with pytest.raises(Unresolvable, match=r"nowhere\.example can't be resolved \(Name or service not known\)"):
        asyncio.run(resolved(WebhookAddresses("", names()), "http://nowhere.example/"))


def test_a_name_without_addresses_is_unresolvable():
    with pytest.raises(Unresolvable, match="has no address"):
        asyncio.run(resolved(WebhookAddresses("", names(hook="")), "http://hook.example/"))


def test_a_name_that_hangs_holds_up_nobody_else():
    release = threading.Event()
    asked = []

    def lookup(host: str) -> list[str]:
        asked.append(host)
        if host == "slow.example":
            release.wait(10)
        return ["8.8.8.8"]

    async def scenario() -> None:
        webhook_addresses = WebhookAddresses("", lookup)
        slow = [asyncio.create_task(resolved(webhook_addresses, "http://slow.example/")) for _ in range(300)]
        for number in range(50):
            await resolved(webhook_addresses, f"http://fast{number}.example/")
        assert not any(task.done() for task in slow)
        release.set()
        assert await asyncio.gather(*slow) == [["8.8.8.8"]] * 300

    asyncio.run(scenario())

    assert asked.count("slow.example") == 1


def test_whoever_stops_waiting_for_a_name_leaves_it_to_the_others():
    release = threading.Event()

    def lookup(host: str) -> list[str]:
        release.wait(10)
        return ["8.8.8.8"]

    async def scenario() -> list[str]:
        webhook_addresses = WebhookAddresses("", lookup)
        impatient = asyncio.create_task(resolved(webhook_addresses, "http://slow.example/"))
        patient = asyncio.create_task(resolved(webhook_addresses, "http://slow.example/"))
        await asyncio.sleep(0)
        impatient.cancel()
        release.set()
        return await patient

    assert asyncio.run(scenario()) == ["8.8.8.8"]


def test_only_so_many_names_are_looked_up_at_a_time():
    release = threading.Event()

    def lookup(host: str) -> list[str]:
        release.wait(10)
        return ["8.8.8.8"]

    async def scenario() -> None:
        webhook_addresses = WebhookAddresses("", lookup)
        slow = [
            asyncio.create_task(resolved(webhook_addresses, f"http://slow{number}.example/")) for number in range(256)
        ]
        await asyncio.sleep(0)
        with pytest.raises(NotTried, match="Too many names are being looked up"):
            await resolved(webhook_addresses, "http://another.example/")
        release.set()
        await asyncio.gather(*slow)

    asyncio.run(scenario())


def test_names_that_did_not_answer_kept_those_waiting_whose_name_did():
    release = threading.Event()

    def lookup(host: str) -> list[str]:
        if host != "healthy.example":
            release.wait(10)
        return ["8.8.8.8"]

    async def scenario() -> list[str]:
        webhook_addresses = WebhookAddresses("", lookup)
        await resolved(webhook_addresses, "http://healthy.example/")
        slow = [
            asyncio.create_task(resolved(webhook_addresses, f"http://slow{number}.example/")) for number in range(256)
        ]
        await asyncio.sleep(0)
        found = await resolved(webhook_addresses, "http://healthy.example/")
        release.set()
        await asyncio.gather(*slow)
        return found

    assert asyncio.run(scenario()) == ["8.8.8.8"]


def test_a_name_is_looked_up_again_when_its_time_is_over():
    asked = []

    async def scenario(kept_s: float) -> int:
        asked.clear()
        found = Resolver(lambda host: asked.append(host) or ["8.8.8.8"], kept_s)
        for _ in range(3):
            await found.addresses_of("hook.example")
        return len(asked)

    assert asyncio.run(scenario(60)) == 1
    assert asyncio.run(scenario(0)) == 3


def test_a_name_that_was_not_found_is_looked_up_again():
    answers = iter([OSError("no such name"), ["8.8.8.8"]])

    def lookup(_: str) -> list[str]:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def scenario() -> list[str]:
        webhook_addresses = WebhookAddresses("", lookup)
        with pytest.raises(Unresolvable):
            await resolved(webhook_addresses, "http://hook.example/")
        return await resolved(webhook_addresses, "http://hook.example/")

    assert asyncio.run(scenario()) == ["8.8.8.8"]


# What is allowed besides


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080/"),
        ("10.0.0.0/8,127.0.0.1", "http://10.1.2.3/"),
        ("10.0.0.0/8 127.0.0.1", "http://127.0.0.1/"),
        ("10.0.0.0/8:8080", "http://10.1.2.3:8080/"),
        ("::1", "http://[::1]:8080/"),
        ("[::1]:8080", "http://[::1]:8080/"),
        ("[::1]", "http://[::1]/"),
        ("fd00::/8", "http://[fd12::1]/"),
        ("[fd00::/8]:443", "https://[fd12::1]/"),
        ("hook.internal", "http://hook.internal/"),
        ("Hook.Internal.:8080", "http://hook.internal:8080/"),
        ("*.internal", "http://hook.internal/"),
        ("*.internal", "http://hook.eu.internal./"),
        ("10.5.0.0/16", "http://hook.internal/"),
        ("b\u00fccher.internal", "http://xn--bcher-kva.internal/"),
    ],
)
def test_what_the_setting_names_is_allowed(allowed, url):
    webhook_addresses = WebhookAddresses(allowed, lambda _: ["10.5.0.1"])

    assert asyncio.run(resolved(webhook_addresses, url))


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1", "http://127.0.0.2/"),
        ("127.0.0.1:8080", "http://127.0.0.1/"),
        ("10.0.0.0/8:8080", "http://10.1.2.3:8081/"),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/"),
        ("[::1]:8080", "http://[::1]:8081/"),
        ("0.0.0.0/0", "http://[::1]/"),
        ("hook.internal:8080", "http://hook.internal/"),
        ("hook.internal", "http://a.hook.internal/"),
        ("hook.internal", "http://xhook.internal/"),
        ("*.internal", "http://internal/"),
        ("*.internal", "http://hookinternal/"),
        ("*.internal", "http://hook.internal.example/"),
        ("10.6.0.0/16", "http://hook.internal/"),
        ("10.5.0.0/16:443", "http://hook.internal/"),
    ],
)
def test_nothing_else_is(allowed, url):
    webhook_addresses = WebhookAddresses(allowed, lambda _: ["10.5.0.1"])

    with pytest.raises((BadEndpoint, ForbiddenAddress)):
        asyncio.run(resolved(webhook_addresses, url))


def test_an_allowed_name_may_lead_anywhere_and_another_may_not():
    webhook_addresses = WebhookAddresses("hook.internal", lambda _: ["8.8.8.8", "127.0.0.1"])

    assert asyncio.run(resolved(webhook_addresses, "http://hook.internal/")) == ["8.8.8.8", "127.0.0.1"]
    with pytest.raises(ForbiddenAddress, match=r"127\.0\.0\.1, a loopback address"):
        asyncio.run(resolved(webhook_addresses, "http://other.internal/"))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("*", "a host's name"),
        ("*.", "a host's name"),
        ("*.10.0.0.1", "only names have suffixes"),
        ("a.*.example", "a host's name"),
        ("10.0.0.1/8", "host bits"),
        ("10.0.0.0/33", "does not appear to be"),
        ("127.1", "four decimal numbers"),
        ("http://example.com", "it is a URL"),
        ("example.com:0", "a port is"),
        ("example.com:", "a port is"),
        ("[::1]:99999", "a port is"),
        ("[::1", "does not appear to be"),
        ("fe80::1%eth0", "an address with a zone"),
        ("exa_mple!", "a host's name"),
    ],
)
def test_an_entry_that_is_no_place_is_refused(entry, why):
    with pytest.raises(BadSetting, match=r"^delivery_allow can't hold ") as refusal:
        WebhookAddresses(f"127.0.0.1, {entry}")

    assert repr(entry) in str(refusal.value)
    assert why in str(refusal.value)


def test_nothing_is_allowed_unless_it_is_set():
    assert Settings().delivery_allow == ""
