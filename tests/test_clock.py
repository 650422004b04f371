"""Time never runs backwards, and never stands still either."""

import time

from hypothesis import given
from hypothesis import strategies as st

from sqew.clock import Clock, ManualClock

SECOND = 1_000_000_000


class Hands:
    """A wall clock that somebody sets, and a steady clock that nobody can."""

    def __init__(self, wall_s=1_700_000_000, steady_s=50):
        self.wall_ns, self.steady_ns = wall_s * SECOND, steady_s * SECOND
        self.clock = Clock(lambda: self.wall_ns, lambda: self.steady_ns)

    def pass_time(self, seconds):
        self.wall_ns += int(seconds * SECOND)
        self.steady_ns += int(seconds * SECOND)

    def set_wall(self, seconds):
        self.wall_ns += int(seconds * SECOND)


def test_it_tells_the_time_of_the_wall_clock():
    hands = Hands()
    hands.pass_time(1.5)

    assert hands.clock.now() == 1_700_000_001_500
    assert hands.clock.now_us() == 1_700_000_001_500_000


def test_it_tells_milliseconds_rounded_down():
    hands = Hands()
    hands.pass_time(0.0019996)

    assert hands.clock.now() == 1_700_000_000_001
    assert hands.clock.now_us() == 1_700_000_000_001_999


def test_it_follows_a_forward_jump():
    hands = Hands()
    hands.set_wall(3600)

    assert hands.clock.now() == 1_700_003_600_000


def test_it_does_not_follow_a_backward_jump():
    hands = Hands()
    before = hands.clock.now()

    hands.set_wall(-3600)

    assert hands.clock.now() == before


def test_it_goes_on_at_a_steady_pace_after_a_backward_jump():
    hands = Hands()
    before = hands.clock.now()
    hands.set_wall(-3600)

    for _ in range(10):
        hands.pass_time(60)
        before += 60_000
        assert hands.clock.now() == before


def test_it_follows_the_wall_clock_again_once_that_is_ahead():
    hands = Hands()
    hands.set_wall(-3600)
    hands.pass_time(10)
    assert hands.clock.now() == 1_700_000_010_000

    hands.set_wall(3600 + 5)

    assert hands.clock.now() == 1_700_000_015_000


def test_a_wall_clock_that_stands_still_does_not_stop_it():
    hands = Hands()

    hands.steady_ns += 7 * SECOND

    assert hands.clock.now() == 1_700_000_007_000


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-10_000, 10_000))))
def test_it_never_runs_backwards_and_never_slower_than_the_steady_clock(moves):
    hands = Hands()
    last = hands.clock.now_us()

    for passed, jump in moves:
        hands.pass_time(passed)
        hands.set_wall(jump)
        now = hands.clock.now_us()
        assert now - last >= int(passed * 1_000_000) - 1
        assert now >= hands.wall_ns // 1000
        last = now


def test_the_real_clock_tells_the_real_time():
    clock = Clock()

    assert abs(clock.now() - time.time() * 1000) < 1000
    assert clock.now() <= clock.now()


def test_a_manual_clock_moves_only_when_told_to():
    clock = ManualClock(5_000)
    assert (clock.now(), clock.now()) == (5_000, 5_000)

    clock.advance(250)

    assert clock.now() == 5_250


def test_a_manual_clock_does_not_go_back_either():
    clock = ManualClock(5_000)

    clock.advance(-1_000)
    assert clock.now() == 5_000

    clock.advance(1_500)
    assert clock.now() == 5_500
