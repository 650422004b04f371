"""Behaviour that every driver owes, on the real servers of all queues that the lab measures."""

import socket
import zlib
from functools import cache
from urllib.parse import urlsplit

import pytest

from plainbench.drivers.base import Item, NotOffered, Topic
from sqew.errors import OutcomeUnknown, SqewError, Unreachable
from tests.plainbench.drivers.other_queues import cable, rabbitmq_url, redis_url
from tests.plainbench.drivers.targets import KEYS, LEASE_MS, Target
from tests.support.postgres import new_database
from tests.support.serving import servers, shared_server

__all__ = ["servers", "shared_server"]

KINDS = ["sqew", "sqew-http", "sqs", "redis", "rabbitmq", "rabbitmq-classic", "pgqueuer"]
BEHIND_A_SERVER = KINDS[1:]
OTHERS = KINDS[2:]
WITH_LEASES = [kind for kind in KINDS if not kind.startswith("rabbitmq")]

new_postgres = cache(lambda: new_database("template0"))


@pytest.fixture
def target(request, tmp_path):
    kind = request.param
    options = {}
    if kind in ("sqew-http", "sqs"):
        url = request.getfixturevalue("shared_server").url
        options = {"url": url} if kind == "sqew-http" else {"endpoint_url": url, **KEYS}
    elif kind == "redis":
        options = {"url": redis_url()}
    elif kind.startswith("rabbitmq"):
        options = {"url": rabbitmq_url(), "queue_type": "classic" if "classic" in kind else "quorum"}
    elif kind == "pgqueuer":
        options = {"url": new_postgres()}
    made = Target(kind, options, f"t{zlib.crc32(request.node.nodeid.encode()):08x}", tmp_path)
    yield made
    made.close()


def on(*kinds):
    return pytest.mark.parametrize("target", kinds, indirect=True)


@on(*KINDS)
def test_what_was_sent_comes_out_as_it_was_with_the_labs_number(target):
    driver = target.driver()
    driver.send(target.topic, [Item(7, '{"a": "é"}'.encode(), headers={"colour": "red"})])

    (delivery,) = target.receive(driver)

    assert (delivery.number, delivery.body, delivery.attempt) == (7, '{"a": "é"}'.encode(), 1)
    assert delivery.headers["colour"] == "red"


@on(*KINDS)
def test_a_send_of_many_stores_them_all(target):
    driver = target.driver()
    numbers = target.send(driver, 25)

    found = target.receive_all(driver, 25)

    assert sorted(delivery.number for delivery in found) == numbers


@on(*KINDS)
def test_who_waits_gets_nothing_from_an_empty_queue(target):
    driver = target.driver()

    assert target.receive(driver, wait_s=0.05) == []
    assert target.receive(driver, wait_s=0) == []


@on(*KINDS)
def test_a_message_that_somebody_holds_comes_to_nobody_else(target):
    one, other = target.driver(), target.driver()
    target.send(one)
    assert target.receive(one)

    assert target.receive(other, wait_s=0.2) == []


@on(*KINDS)
def test_what_was_acked_is_gone(target):
    driver = target.driver()
    target.send(driver, 12)

    refusals = driver.ack(target.topic, target.receive_all(driver, 12))

    assert refusals == [None] * 12
    assert target.left(driver) == []
    assert not any(target.depths(driver).values())


@on(*KINDS)
def test_what_was_given_back_at_once_comes_again_and_is_counted(target):
    driver = target.driver()
    (number,) = target.send(driver)
    (first,) = target.receive(driver)

    driver.retry(target.topic, first, 0)

    (second,) = target.receive(driver)
    assert (second.number, second.body, second.attempt) == (number, first.body, 2)


@on(*KINDS)
def test_what_was_given_back_comes_again_no_sooner_than_was_said(target):
    driver = target.driver()
    (number,) = target.send(driver)
    (first,) = target.receive(driver)

    driver.retry(target.topic, first, 900)

    assert target.receive(driver, wait_s=0) == []
    (second,) = target.receive(driver)
    assert (second.number, second.attempt) == (number, 2)


@on(*KINDS)
def test_what_is_given_back_too_often_goes_to_the_dead_letters(target):
    driver = target.driver(max_attempts=2)
    (number,) = target.send(driver)

    for _ in range(2):
        (delivery,) = target.receive(driver)
        driver.retry(target.topic, delivery, 0)

    assert target.receive(driver, wait_s=0.2) == []
    assert target.left(driver) == [(number, "dead")]


@on(*KINDS)
def test_what_is_given_up_goes_to_the_dead_letters(target):
    driver = target.driver()
    (number,) = target.send(driver)
    (delivery,) = target.receive(driver)

    driver.bury(target.topic, delivery, "it is broken")

    assert target.receive(driver, wait_s=0.2) == []
    assert target.depths(driver) == {"ready": 0, "leased": 0, "delayed": 0, "dead": 1}
    assert target.left(driver) == [(number, "dead")]


@on(*WITH_LEASES)
def test_a_message_whose_lease_ran_out_comes_to_another(target):
    one, other = target.driver(), target.driver()
    (number,) = target.send(one)
    assert target.receive(one, lease_ms=LEASE_MS)

    (delivery,) = target.receive(other, lease_ms=LEASE_MS)

    assert delivery.number == number


@on(*KINDS[:4])
def test_what_nobody_settles_is_delivered_no_more_often_than_allowed(target):
    driver = target.driver(max_attempts=2)
    (number,) = target.send(driver)

    attempts = [target.receive(driver, lease_ms=LEASE_MS)[0].attempt for _ in range(2)]

    assert attempts == [1, 2]
    assert target.receive(driver, wait_s=2.0, lease_ms=LEASE_MS) == []
    assert target.left(driver) == [(number, "dead")]


@on("rabbitmq", "rabbitmq-classic")
def test_what_somebody_held_who_went_away_comes_to_another(target):
    one, other = target.driver(), target.driver()
    (number,) = target.send(one)
    assert target.receive(one)

    one.close()

    (delivery,) = target.receive(other)
    assert (delivery.number, delivery.attempt) == (number, 2)


@on(*KINDS)
def test_a_lease_that_a_heart_extends_does_not_run_out(target):
    one, other, heart = target.driver(), target.driver(), target.driver()
    target.send(one)
    (held,) = one.receive(target.topic, 1, 2 * LEASE_MS, 5.0)

    for _ in range(3):
        heart.extend(target.topic, held, 2 * LEASE_MS)
        assert other.receive(target.topic, 1, 2 * LEASE_MS, 1.0) == []

    assert one.ack(target.topic, [held]) == [None]


@on("sqew", "sqew-http", "redis", "rabbitmq", "rabbitmq-classic")
def test_to_ack_a_message_that_is_gone_is_refused(target):
    driver = target.driver()
    target.send(driver, 2)
    done, open_ = target.receive_all(driver, 2)
    driver.ack(target.topic, [done])

    refusals = driver.ack(target.topic, [done, open_])

    assert isinstance(refusals[0], SqewError)
    assert refusals[1] is None


@on("sqew", "sqew-http", "sqs", "redis")
def test_who_lost_a_message_to_another_can_neither_keep_it_nor_give_it_back(target):
    one, other = target.driver(), target.driver()
    target.send(one)
    (lost,) = target.receive(one, lease_ms=LEASE_MS)
    assert target.receive(other, lease_ms=LEASE_MS)

    for settle in (lambda: one.extend(target.topic, lost, 60_000), lambda: one.retry(target.topic, lost, 0)):
        with pytest.raises(SqewError):
            settle()


@on(*KINDS)
def test_what_is_left_can_be_looked_at_and_still_be_received(target):
    driver = target.driver()
    numbers = target.send(driver, 12)

    assert target.left(driver) == [(number, "ready") for number in numbers]

    assert sorted(delivery.number for delivery in target.receive_all(driver, 12)) == numbers


@on(*WITH_LEASES)
def test_depths_tell_what_is_ready_from_what_somebody_holds(target):
    driver = target.driver()
    target.send(driver, 3)
    target.receive(driver)

    assert target.depths(driver) == {"ready": 2, "leased": 1, "delayed": 0, "dead": 0}


@on("rabbitmq", "rabbitmq-classic")
def test_depths_tell_what_is_ready_and_what_waits(target):
    driver = target.driver()
    target.send(driver)
    driver.retry(target.topic, target.receive(driver)[0], 60_000)
    target.send(driver, 3)

    assert target.depths(target.driver()) == {"ready": 2, "leased": 0, "delayed": 1, "dead": 0}


@on(*BEHIND_A_SERVER)
def test_a_send_whose_answer_is_lost_is_one_of_which_nobody_knows(target):
    direct = target.driver()
    port = urlsplit(target.options[target.address]).port
    with cable(port) as way:
        near = target.at(way.port)
        driver = near.opened()
        near.send(driver)

        way.cut()
        with pytest.raises(OutcomeUnknown):
            near.send(driver)

        near.close()
    assert [number for number, _ in target.left(direct)] == [1, 2]


@on(*BEHIND_A_SERVER)
def test_a_server_that_is_not_there_is_named_as_the_trouble_and_nothing_is_unknown(target):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    nowhere = target.at(port)

    with pytest.raises(Unreachable):
        nowhere.send(nowhere.opened())

    nowhere.close()


@on(*OTHERS)
def test_lanes_and_order_are_refused_with_a_sentence_where_there_are_none(target):
    driver = target.opened()

    with pytest.raises(NotOffered, match="has no lanes: leave out those of topic"):
        driver.create(Topic(target.topic, lanes={"fast": 3, "slow": 1}))
    if target.kind != "sqs":
        with pytest.raises(NotOffered, match="has no order by groups"):
            driver.create(Topic(target.topic, fifo=True))


@on("sqs", "redis", "rabbitmq")
def test_priorities_are_refused_with_a_sentence_where_there_are_none(target):
    driver = target.driver()

    with pytest.raises(NotOffered, match="has no priorities"):
        driver.send(target.topic, [Item(1, b"1", priority=3)])


DURABILITY = {
    "sqew": "fast: synchronous=NORMAL",
    "sqew-http": "fast: synchronous=NORMAL",
    "sqs": "unknown: give target.options.durability",
    "redis": "fast: appendonly, appendfsync=everysec",
    "rabbitmq": "durable: quorum queue, confirmed",
    "rabbitmq-classic": "confirmed: durable classic queue, persistent",
    "pgqueuer": "none: fsync=off",
}


@on(*KINDS)
def test_durability_is_what_the_server_says_of_itself(target):
    assert target.opened().durability == DURABILITY[target.kind]
