"""Suggestions for an unknown name: its nearest neighbours, and never the list of all names."""

import pickle

import pytest

from sqew.errors import ConsumerNotFound, NameNotFound, QueueNotFound, ScheduleNotFound, WriterNotFound
from sqew.model import Policy
from sqew.operations import CreateQueue, GetQueue, GetSchedule, GetWriter, OpenConsumer, RenewConsumer

MANY = 200


def create(store, count=MANY):
    for number in range(count):
        store.run(CreateQueue(f"orders-{number:04}", Policy()))


def not_found(store, operation):
    with pytest.raises(NameNotFound) as raised:
        store.run(operation)
    return raised.value


def test_a_queue_beside_many_is_told_the_nearest_of_its_neighbours_alone(store):
    create(store)

    error = not_found(store, GetQueue("orders-0100x"))

    assert "did you mean 'orders-0100'?" in str(error)
    assert len(error.known) <= 40


@pytest.mark.parametrize("name", ["", "a", "zzz", "orders-", "x" * 100_000])
def test_a_name_at_the_end_of_the_order_or_beyond_all_measure_has_few_neighbours_too(store, name):
    create(store, 50)

    error = not_found(store, GetQueue(name))

    assert len(error.known) <= 40
    assert len(str(error)) < 300


def test_a_fifo_queue_that_was_called_by_its_bare_name_is_named_before_names_that_differ_in_a_digit(store):
    for name in ("spark-8", "spark-9.fifo"):
        store.create(name, fifo=name.endswith(".fifo"))

    with pytest.raises(QueueNotFound, match=r"did you mean 'spark-9\.fifo'"):
        store.run(GetQueue("spark-9"))


def test_a_consumer_beside_many_is_told_the_nearest_of_its_neighbours_alone(store):
    create(store, 1)
    for number in range(MANY):
        store.run(OpenConsumer("orders-0000", f"reader-{number:04}", "o", 1000))

    error = not_found(store, RenewConsumer("orders-0000", "reader-0100x", 1))

    assert "did you mean 'reader-0100'?" in str(error)
    assert len(error.known) <= 40


def test_an_error_about_a_name_says_the_same_after_it_was_pickled():
    errors = [
        QueueNotFound("ordrs", ["orders"]),
        ConsumerNotFound("orders", "readr", ["reader"]),
        WriterNotFound("orders", "writr", ["writer"]),
        ScheduleNotFound("nightli", ["nightly"]),
    ]

    for error in errors:
        assert "did you mean" in str(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_schedule_and_a_writer_beside_none_are_told_no_name(store):
    create(store, 1)

    assert not_found(store, GetSchedule("nightly")).known == ()
    assert not_found(store, GetWriter("orders-0000", "loader")).known == ()
