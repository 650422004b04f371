"""The judge of histories, on histories written by hand."""

from __future__ import annotations

from tests.faults.history import Action, Entry, Event, Step, check


class Script:
    """A history written one event at a time."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, process: str, call: int, step: Step, action: Action, *entries: Entry, now: int = 0) -> None:
        self.events.append(Event(len(self.events), process, call, step, action, now, list(entries)))

    def both(self, process: str, call: int, action: Action, *entries: Entry, now: int = 0) -> None:
        """Add a call and, at once, its answer."""
        self.add(process, call, "call", action, *(() if action in ("receive", "drain") else entries), now=now)
        self.add(process, call, "ok", action, *entries, now=now)

    def violations(self) -> dict[str, set[str]]:
        return check(self.events).violations


def test_sent_received_and_acknowledged_is_sound() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100))
    script.both("c", 1, "ack", Entry("x", 1, 1))

    assert script.violations() == {}


def test_an_acknowledged_send_that_is_never_seen_again_is_lost() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))

    assert script.violations() == {"lost": {"x"}}


def test_a_message_that_was_received_and_then_vanished_is_lost() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100))

    assert script.violations() == {"lost": {"x"}}


def test_a_message_whose_ack_was_refused_must_still_be_there() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100))
    script.add("c", 1, "call", "ack", Entry("x", 1, 1))
    script.add("c", 1, "ok", "ack")

    assert script.violations() == {"lost": {"x"}}


def test_a_message_whose_ack_was_never_answered_may_be_gone_or_be_there() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1), Entry("y", 2))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100), Entry("y", 2, 1, 100))
    script.add("c", 1, "call", "ack", Entry("x", 1, 1), Entry("y", 2, 1))
    script.both("d", 0, "drain", Entry("y", 2, 2, 900), now=500)

    assert script.violations() == {}


def test_a_send_that_was_never_answered_may_show_up() -> None:
    script = Script()
    script.add("p", 0, "call", "send", Entry("x"))
    script.both("d", 0, "drain", Entry("x", 1, 1, 100))

    verdict = check(script.events)

    assert verdict.violations == {}
    assert verdict.recovered == {"x"}


def test_a_send_that_failed_must_not_show_up() -> None:
    script = Script()
    script.add("p", 0, "call", "send", Entry("x"))
    script.add("p", 0, "failed", "send", Entry("x"))
    script.both("d", 0, "drain", Entry("x", 1, 1, 100))

    assert script.violations() == {"unexpected": {"x"}}


def test_what_nobody_sent_is_unexpected() -> None:
    script = Script()
    script.both("d", 0, "drain", Entry("x", 1, 1, 100))

    assert script.violations() == {"unexpected": {"x"}}


def test_a_message_received_after_its_ack_is_a_zombie() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100))
    script.both("c", 1, "ack", Entry("x", 1, 1))
    script.both("d", 0, "drain", Entry("x", 1, 2, 900), now=500)

    assert script.violations() == {"zombies": {"x"}}


def test_a_second_delivery_within_a_lease_is_a_double_claim() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100), now=10)
    script.both("d", 0, "drain", Entry("x", 1, 2, 900), now=99)

    assert script.violations() == {"double_claims": {"x"}}


def test_a_second_delivery_after_the_lease_is_a_duplicate() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100), now=10)
    script.both("d", 0, "drain", Entry("x", 1, 2, 900), now=100)

    verdict = check(script.events)

    assert verdict.violations == {}
    assert verdict.duplicated == {"x"}


def test_a_second_delivery_after_a_nack_is_no_double_claim() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100), now=10)
    script.both("c", 1, "nack", Entry("x", 1, 1), now=20)
    script.both("d", 0, "drain", Entry("x", 1, 2, 900), now=30)

    assert script.violations() == {}


def test_an_ack_by_who_has_lost_the_lease_is_a_stale_ack() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("slow", 0, "receive", Entry("x", 1, 1, 100), now=10)
    script.both("quick", 0, "receive", Entry("x", 1, 2, 300), now=200)
    script.both("slow", 1, "ack", Entry("x", 1, 1), now=210)

    assert script.violations() == {"stale_acks": {"x"}}


def test_two_acks_of_one_message_are_stale_acks() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100), now=10)
    script.both("c", 1, "ack", Entry("x", 1, 1))
    script.both("c", 2, "ack", Entry("x", 1, 1))

    assert script.violations() == {"stale_acks": {"x"}}


def test_a_group_that_overtakes_itself_is_out_of_order() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1), Entry("y", 2))
    script.both("d", 0, "drain", Entry("y", 2, 1, 100, "g"))
    script.both("d", 1, "drain", Entry("x", 1, 1, 200, "g"), now=100)

    assert script.violations() == {"out_of_order": {"x"}}


def test_a_group_whose_message_is_in_flight_shows_no_other() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1), Entry("y", 2))
    script.both("c", 0, "receive", Entry("x", 1, 1, 100, "g"), now=10)
    script.both("d", 0, "receive", Entry("y", 2, 1, 110, "g"), now=20)
    script.both("c", 1, "ack", Entry("x", 1, 1))
    script.both("d", 1, "ack", Entry("y", 2, 1))

    assert script.violations() == {"crowded": {"y"}}


def test_one_receive_may_take_several_messages_of_a_group() -> None:
    script = Script()
    script.both("p", 0, "send", Entry("x", 1), Entry("y", 2))
    script.both("d", 0, "drain", Entry("x", 1, 1, 100, "g"), Entry("y", 2, 1, 100, "g"), now=10)

    assert script.violations() == {}
