"""Messages that a worker's slots hold, so that its leases can be extended."""

from __future__ import annotations

from plainbench.actors.consumer import Held
from plainbench.drivers.base import Delivered

ONE, TWO, THREE = (Delivered(number, b"{}") for number in (1, 2, 3))


def numbers(held: Held) -> list[tuple[str, str, int]]:
    return [(slot, topic, delivery.number) for slot, topic, delivery in held.now()]


def test_what_a_slot_has_given_back_is_not_held_any_more_and_the_rest_is() -> None:
    held = Held()
    held.take("w/0", "orders", [ONE, TWO])
    held.take("w/1", "letters", [THREE])

    held.drop("w/0", ONE)

    assert numbers(held) == [("w/0", "orders", 2), ("w/1", "letters", 3)]


def test_a_slot_that_is_through_holds_nothing() -> None:
    held = Held()
    held.take("w/0", "orders", [ONE, TWO])
    held.take("w/1", "orders", [THREE])

    held.drop_all("w/0")

    assert numbers(held) == [("w/1", "orders", 3)]
