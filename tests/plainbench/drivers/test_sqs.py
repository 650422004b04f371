"""Peculiarities of SQS: groups, seconds, and no way to look without receiving."""

import pytest

from plainbench.drivers.base import Item, NotOffered, Topic
from sqew.errors import BadValue
from tests.plainbench.drivers.targets import KEYS, Target
from tests.support.serving import servers, shared_server

__all__ = ["servers", "shared_server"]


@pytest.fixture
def sqs(request, tmp_path, shared_server):
    """Yield a function that makes a target of a topic of a given name."""
    made = []

    def target(topic, **options):
        made.append(Target("sqs", {"endpoint_url": shared_server.url, **KEYS, **options}, topic, tmp_path))
        return made[-1]

    yield target
    for one in made:
        one.close()


def fifo(target):
    driver = target.opened(fifo=True)
    driver.create(Topic(target.topic, fifo=True))
    return driver


def test_groups_are_in_order_and_known(sqs):
    target = sqs("groups.fifo")
    driver = fifo(target)
    driver.send(target.topic, [Item(number, b"1", group="ab"[number % 2]) for number in range(1, 7)])

    found = target.receive_all(driver, 6)

    assert [delivery.number for delivery in found if delivery.group == "a"] == [2, 4, 6]
    assert [delivery.number for delivery in found if delivery.group == "b"] == [1, 3, 5]


def test_numbers_of_an_earlier_run_are_not_taken_for_copies(sqs):
    target = sqs("twice.fifo")
    driver = fifo(target)

    for _ in range(2):
        driver.send(target.topic, [Item(1, b"1", group="a")])

    assert target.depths(driver)["ready"] == 2


def test_a_fifo_queue_with_messages_in_it_can_not_be_looked_at(sqs):
    target = sqs("unseen.fifo")
    driver = fifo(target)
    assert target.left(driver) == []
    driver.send(target.topic, [Item(1, b"1", group="a")])

    with pytest.raises(NotOffered, match="use a new queue, or empty it first"):
        target.left(driver)


def test_a_name_that_does_not_say_fifo_is_refused(sqs):
    with pytest.raises(BadValue, match=r"call topic orders by one that ends in \.fifo"):
        sqs("orders").opened().create(Topic("orders", fifo=True))


def test_what_is_in_flight_can_not_be_seen_and_is_waited_for_no_longer_than_said(sqs):
    target = sqs("in-flight", look_s=0.1)
    driver = target.driver()
    target.send(driver)
    target.receive(driver)

    with pytest.raises(NotOffered, match="1 messages of in-flight are in flight"):
        target.left(driver)


def test_what_is_in_flight_is_seen_when_its_lease_is_over(sqs):
    target = sqs("landed")
    driver = target.driver()
    (number,) = target.send(driver)
    target.receive(driver, lease_ms=1_000)

    assert target.left(driver) == [(number, "ready")]


def test_durability_is_what_it_was_said_to_be(sqs):
    assert sqs("durable", durability="durable: FULL").opened().durability == "durable: FULL"
