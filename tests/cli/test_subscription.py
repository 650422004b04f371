"""`sqew subscription …`, on a file and on a server."""

import os

import pytest

from tests.cli.places import busy_server, place

__all__ = ["busy_server", "place"]

HOOK = "http://127.0.0.1:9/hook"


@pytest.fixture(autouse=True)
def somewhere(place):
    """Run every test in each place."""


def add(sqew, *options):
    done = sqew(["subscription", "add", "--json", *options])
    assert done.code == 0, done.err
    return done.json


def test_a_queue_subscribes(sqew):
    made = add(sqew, "--pattern", "orders.*", "--queue", "orders")

    assert sqew("subscription list --json").json == {"subscriptions": [made]}
    assert (made["protocol"], made["target"], made["envelope"], made["problem"]) == ("queue", "orders", False, None)


def test_an_endpoint_subscribes_in_an_envelope(sqew):
    made = add(sqew, "--pattern", "#", "--endpoint", HOOK, "--envelope", "--signature-version", "1")

    assert (made["protocol"], made["target"]) == ("http", HOOK)
    assert (made["envelope"], made["signature_version"]) == (True, 1)


def test_people_see_what_was_made(sqew):
    done = sqew("subscription add --pattern orders.# --queue orders")

    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines() if not line.startswith("events"))
    assert (lines["pattern"], lines["queue"]) == ("orders.#", "orders")
    assert "as they are" in done.out


def test_people_see_a_table(sqew):
    add(sqew, "--pattern", "orders.*", "--queue", "orders")
    add(sqew, "--pattern", "orders.*", "--endpoint", HOOK, "--envelope")

    title, first, second = sqew("subscription list").out.splitlines()

    assert title.split() == ["ID", "PATTERN", "TO", "TARGET", "EVENTS", "COME", "MADE"]
    assert first.split()[1:4] == ["orders.*", "queue", "orders"]
    assert "in an envelope, signature 2" in second


def test_a_subscription_whose_queue_is_gone_says_so(sqew):
    add(sqew, "--pattern", "orders.*", "--queue", "orders")
    sqew("queue rm --name orders --yes")

    assert "Queue 'orders' does not exist" in sqew("subscription list").out


def test_subscriptions_are_listed_by_pattern_and_by_queue(sqew):
    one = add(sqew, "--pattern", "orders.*", "--queue", "orders")["id"]
    two = add(sqew, "--pattern", "#", "--queue", "orders-dlq")["id"]

    def listed(options):
        return [one["id"] for one in sqew(f"subscription list --json {options}").json["subscriptions"]]

    assert listed("--pattern orders.*") == [one]
    assert listed("--queue orders-dlq") == [two]
    assert listed("--limit 1") == [one]
    assert listed(f"--after {one}") == [two]


def test_there_may_be_none(sqew):
    done = sqew("subscription list")

    assert (done.code, done.out) == (0, "")
    assert "There are no subscriptions" in done.err
    assert sqew("subscription list --pattern x").err == "No subscription is like that.\n"


def test_a_subscription_is_deleted(sqew):
    id = add(sqew, "--pattern", "orders.*", "--queue", "orders")["id"]

    assert sqew(f"subscription rm --id {id} --yes").out == f"Deleted subscription {id}.\n"

    assert sqew("subscription list --json").json == {"subscriptions": []}
    assert sqew(f"subscription rm --id {id} --yes").code == 3


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (("--queue", "orders"), "('orders.*' to queue 'orders')"),
        (("--endpoint", HOOK), "('orders.*' to an endpoint) and what is on its way there"),
    ],
)
def test_people_are_told_what_they_are_about_to_delete(sqew, terminal, target, words):
    id = add(sqew, "--pattern", "orders.*", *target)["id"]

    done = terminal(f"subscription rm --id {id}", "n\n", **{k: v for k, v in os.environ.items() if k[:5] == "SQEW_"})

    assert done.code == 1
    assert f"Deleting subscription {id} {words}?" in done.out


def test_the_url_of_an_endpoint_was_told_to_whoever_subscribes_it_in_another_form(sqew):
    secret = HOOK + "?token=hush"
    add(sqew, "--pattern", "orders.*", "--endpoint", secret)

    done = sqew(f"subscription add --pattern orders.* --endpoint {secret} --envelope")

    assert "already takes 'orders.*' to that endpoint, in another form" in done.err
    assert "hush" not in done.err


def test_the_same_in_another_form_is_a_conflict(sqew):
    add(sqew, "--pattern", "orders.*", "--queue", "orders")

    done = sqew("subscription add --pattern orders.* --queue orders --envelope")

    assert done.code == 4
    assert "in another form" in done.err


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("add --pattern orders.*x --queue orders", 2, "'*' at position 8"),
        ("add --pattern orders --queue order", 3, "did you mean 'orders'"),
        ("add --pattern orders", 2, "--queue or --endpoint"),
        ("add --pattern orders --queue orders --endpoint http://example.com", 2, "not both"),
        ("add --pattern orders --endpoint ftp://example.com", 2, "http"),
        ("add --pattern orders --endpoint http://10.0.0.1", 2, "10.0.0.1 is a private address"),
        ("add --queue orders", 2, "--pattern"),
        ("add --pattern orders --queue orders --signature-version 3", 2, "'3'"),
        ("list --pattern a --queue orders", 2, "not both"),
        ("list --queue nowhere", 3, "does not exist"),
        ("list --pattern a..b", 2, "position 3"),
        ("rm --id 7", 3, "There is no subscription 7"),
        ("rm --id 0 --yes", 2, "--id"),
    ],
)
def test_a_mistake_is_told(sqew, command, code, words):
    done = sqew(f"subscription {command}")

    assert done.code == code
    assert words in done.err
