"""`sqew delivery …` and `sqew certificate …`, on a file and on a server."""

import os
import time

import pytest

from sqew import Queue
from sqew.client import EnvelopeVerifier
from sqew.model import DeliveryOutcome
from sqew.operations import ClaimDeliveries, SettleDeliveries
from tests.cli.places import busy_server, place
from tests.support.endpoint import endpoint, status

__all__ = ["busy_server", "place"]


@pytest.fixture(scope="module")
def hook():
    """Yield an endpoint that fails."""
    with endpoint() as hook:
        hook.does("/hook", status(500))
        yield hook


@pytest.fixture
def exhausted(place, sqew, hook):
    """Return the ids of two deliveries that failed for good, and that of their subscription."""
    subscription = sqew(f"subscription add --pattern orders.* --endpoint {hook.url('/hook')} --json").json["id"]
    for sku in (7, 8):
        assert sqew(["event", "publish", "--key", "orders.created", "--body", f'{{"sku": {sku}}}']).code == 0
    if place != "server":
        _fail_all()
    return _once_exhausted(sqew), subscription


def _fail_all():
    """Fail all deliveries, as a server would, where there is none."""
    with Queue.open(os.environ.get("SQEW_DATABASE_URL", "queue.db")) as q:
        claimed = q.run(ClaimDeliveries(limit=10, per_subscription=10, lease_ms=1_000)).deliveries
        outcomes = [DeliveryOutcome(one.id, one.claimed_until, False, 500, "It answered 500.") for one in claimed]
        q.run(SettleDeliveries(outcomes))


def _once_exhausted(sqew):
    deadline = time.monotonic() + 30
    while len(found := sqew("delivery list --exhausted --json").json["deliveries"]) < 2:
        assert time.monotonic() < deadline, found
    return [one["id"] for one in found]


def ids(sqew, options=""):
    return [one["id"] for one in sqew(f"delivery list --json {options}").json["deliveries"]]


def test_exhausted_deliveries_are_listed_with_their_last_error(sqew, exhausted, hook):
    title, first, _ = sqew("delivery list --exhausted").out.splitlines()

    assert title.split() == ["ID", "STATE", "SUB", "KEY", "ENDPOINT", "TRIES", "ERROR"]
    assert first.split()[1] == "exhausted"
    assert first.split()[3:6] == ["orders.created", hook.url("/hook").removeprefix("http://"), "1"]
    assert first.endswith("answered 500.")


def test_the_endpoint_gives_way_to_the_error_on_a_narrow_terminal(sqew, terminal, orders, monkeypatch):
    monkeypatch.setenv("SQEW_DELIVERY_ALLOW", "127.0.0.1")
    sqew("subscription add --pattern orders.* --endpoint http://127.0.0.1:9/services/T0241/B99/of-the-whole-shop")
    sqew("event publish --key orders.created --body 1")
    _fail_all()

    lines = terminal("delivery list", COLUMNS="80", NO_COLOR="1").out.splitlines()

    assert lines[0].split() == ["id", "state", "sub", "key", "endpoint", "tries", "error"]
    assert max(map(len, lines)) <= 80
    assert "127.0.0.1:9/servic…" in lines[2]
    assert lines[2].endswith("It answered 500.")


def test_a_delivery_that_waits_says_until_when(sqew, place, hook):
    sqew(f"subscription add --pattern orders.* --endpoint {hook.url('/hook')}")
    sqew("event publish --key orders.created --body 1 --delay 3h")

    assert "pending (in 3 h)" in sqew("delivery list").out


def test_the_end_of_a_claim_was_shown_as_the_next_try(sqew, hook, orders, monkeypatch):
    monkeypatch.setenv("SQEW_DELIVERY_ALLOW", "127.0.0.1")
    sqew(f"subscription add --pattern orders.* --endpoint {hook.url('/hook')}")
    sqew("event publish --key orders.created --body 1")
    with Queue.open("queue.db") as q:
        (claimed,) = q.run(ClaimDeliveries(10, 10, lease_ms=60_000)).deliveries

    assert sqew("delivery list").out.splitlines()[1].split()[1:3] == ["delivering", "1"]
    assert "next try" not in sqew(f"delivery show --id {claimed.id}").out


def test_deliveries_are_listed_by_state_and_subscription(sqew, exhausted):
    (one, two), subscription = exhausted

    assert ids(sqew, f"--subscription {subscription}") == [one, two]
    assert ids(sqew, f"--subscription {subscription + 1}") == []
    assert ids(sqew, "--state pending") == []
    assert ids(sqew, f"--limit 1 --after {one}") == [two]


def test_a_delivery_is_shown_with_what_is_posted(sqew, exhausted):
    (one, _), subscription = exhausted

    document = sqew(f"delivery show --id {one} --json")

    assert document.json["message"] == {"sku": 7}
    assert (document.json["subscription_id"], document.json["envelope"], document.json["due_at"]) == (
        subscription,
        False,
        None,
    )
    assert '{"sku": 7}' in sqew(f"delivery show --id {one}").out


def test_a_delivery_is_tried_again(sqew, place, exhausted, hook):
    (one, _), _ = exhausted
    before = len(hook.received("/hook"))

    done = sqew(f"delivery retry --id {one}")

    assert (done.code, done.out) == (0, f"Delivery {one} will be tried again.\n")
    if place == "server":
        assert hook.wait_for("/hook", before + 1)[-1].body == b'{"sku": 7}'
    else:
        assert ids(sqew, "--state pending") == [one]


def test_all_exhausted_deliveries_of_a_subscription_are_tried_again(sqew, exhausted):
    _, subscription = exhausted

    refused = sqew(f"delivery retry --subscription {subscription + 1}")

    assert (refused.code, refused.out) == (3, "")
    assert f"There is no subscription {subscription + 1}" in refused.err
    assert sqew("delivery retry --all --json").json == {"retried": 2, "left": 0}


def test_nobody_was_told_of_exhausted_deliveries_that_could_not_be_retried(sqew, exhausted):
    _, subscription = exhausted
    sqew(f"subscription rm --id {subscription} --yes")

    assert sqew("delivery retry --all").out == (
        "0 deliveries will be tried again.\n"
        "2 deliveries can't be: the subscription is gone. Drop them, or look at them.\n"
    )


def test_deliveries_are_dropped(sqew, exhausted):
    (one, two), _ = exhausted

    assert sqew(f"delivery drop --id {one} --yes").out == f"Delivery {one} is dropped.\n"
    assert ids(sqew) == [two]

    refused = sqew("delivery drop --all")
    assert (refused.code, "Add --yes" in refused.err) == (2, True)
    assert sqew("delivery drop --all --yes").out == "Dropped 1 delivery.\n"
    assert sqew("delivery list").err.startswith("There are no deliveries")
    assert sqew("delivery list --exhausted").err == "No delivery is like that.\n"


def test_each_delivery_that_is_named_is_answered_for(sqew, exhausted):
    (one, _), _ = exhausted

    done = sqew(f"delivery drop --ids {one},1000000 --yes --json")

    assert done.code == 3
    assert [result["dropped"] for result in done.json["results"]] == [True, False]
    assert done.json["results"][1]["error"] == "delivery_not_found"
    assert "There is no delivery 1000000" in done.err


def test_a_delivery_that_is_tried_by_itself_is_a_conflict(sqew, place, hook):
    sqew(f"subscription add --pattern orders.* --endpoint {hook.url('/hook')}")
    sqew("event publish --key orders.created --body 1 --delay 1h")
    (id,) = ids(sqew)

    done = sqew(f"delivery retry --id {id}")

    assert done.code == 4
    assert "is pending" in done.err


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("show --id 1000000", 3, "There is no delivery 1000000"),
        ("retry", 2, "--id, --subscription or --all"),
        ("retry --id 1 --all", 2, "leave --all"),
        ("retry --id x", 2, "--id can't be 'x'"),
        ("drop", 2, "--id, --subscription or --all"),
        ("drop --id 1", 3, "There is no delivery 1"),
        ("list --state lost", 2, "'lost'"),
        ("list --exhausted --state pending", 2, "contradict"),
    ],
)
def test_a_mistake_is_told(sqew, command, code, words):
    done = sqew(f"delivery {command}")

    assert done.code == code
    assert words in done.err


@pytest.mark.usefixtures("place")
def test_yes_was_needed_to_drop_nothing(sqew):
    done = sqew("delivery drop --all")

    assert (done.code, done.out) == (0, "Dropped 0 deliveries.\n")


@pytest.mark.usefixtures("place")
def test_a_certificate_is_printed_as_it_is_to_be_stored(sqew):
    done = sqew("certificate show")

    assert done.out.startswith("-----BEGIN CERTIFICATE-----\n")
    assert done.out.endswith("-----END CERTIFICATE-----\n")
    assert "/v1/certificates/SimpleNotificationService-" in done.err
    EnvelopeVerifier(certificate=done.out)


@pytest.mark.usefixtures("place")
def test_a_rotated_certificate_is_the_one_in_use(sqew):
    before = sqew("certificate show --json").json

    made = sqew("certificate rotate --json").json

    assert made["id"] != before["id"]
    assert sqew("certificate show --json").json["id"] == made["id"]
    assert made["id"] in made["url"]
