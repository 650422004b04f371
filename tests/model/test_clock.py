"""Time: it runs backwards only if it was far ahead, and never stands still."""

import time

from hypothesis import given
from hypothesis import strategies as st

from sqew.clock import SMALLEST_CORRECTION_MS, Clock, Correction, ManualClock

SECOND = 1_000_000_000


class Hands:
    """A wall clock that a test sets, and a steady clock that follows nothing else."""

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


def test_it_does_not_follow_a_small_step_back():
    hands = Hands()
    before = hands.clock.now()

    hands.set_wall(-5)

    assert hands.clock.now() == before
    assert hands.clock.correction is None


def test_a_clock_that_was_ahead_for_a_moment_is_followed_back():
    hands = Hands()
    hands.set_wall(86_400)
    since = hands.clock.now()
    hands.pass_time(4)
    hands.clock.now()

    hands.set_wall(-86_400)

    assert hands.clock.now() == 1_700_000_004_000
    assert hands.clock.correction == Correction(86_400_000, since)


def test_a_correction_that_takes_no_jump_back_does_not_know_since_when():
    hands = Hands()
    hands.set_wall(86_400)
    hands.clock.now()

    hands.set_wall(-3600)
    hands.clock.now_us()

    assert hands.clock.correction == Correction(3_600_000, None)


def test_a_clock_that_was_slow_for_a_moment_seemed_to_have_been_ahead_when_it_was_slow_again():
    hands = Hands()
    for seconds in (-86_400, 86_400, -86_400):
        hands.set_wall(seconds)
        hands.clock.now()

    assert hands.clock.correction == Correction(86_400_000, None)


def test_a_small_jump_is_not_taken_back_by_one_that_is_twice_as_far():
    hands = Hands()
    for seconds in (30, -60):
        hands.set_wall(seconds)
        hands.clock.now()

    assert hands.clock.correction == Correction(60_000, None)


def test_of_jumps_that_are_taken_back_at_once_the_first_tells_since_when():
    hands = Hands()
    since = []
    for seconds in (3600, -3600, 7200, -7200):
        hands.set_wall(seconds)
        since.append(hands.clock.now())

    assert hands.clock.correction == Correction(7_200_000, since[0])


def test_of_corrections_that_nobody_has_dealt_with_the_farthest_counts():
    hands = Hands()
    for seconds in (-3600, -60):
        hands.set_wall(seconds)
        hands.clock.now()

    assert hands.clock.correction == Correction(3_600_000, None)


def test_a_process_that_is_stopped_between_two_looks_takes_that_for_no_jump():
    looks = iter([0, 30, 0, 0, 0, 0, 0, 0])
    clock = Clock(lambda: next(looks) * SECOND, lambda: 0)

    assert clock.now() == 0
    assert clock.correction is None


def test_it_goes_on_at_a_steady_pace_after_a_small_step_back():
    hands = Hands()
    before = hands.clock.now()
    hands.set_wall(-4)

    for _ in range(10):
        hands.pass_time(60)
        before += 60_000
        assert hands.clock.now() == before


def test_it_follows_the_wall_clock_again_once_that_is_ahead():
    hands = Hands()
    hands.set_wall(-4)
    hands.pass_time(10)
    assert hands.clock.now() == 1_700_000_010_000

    hands.set_wall(4 + 5)

    assert hands.clock.now() == 1_700_000_015_000


def test_a_wall_clock_that_stands_still_for_a_moment_does_not_stop_it():
    hands = Hands()

    hands.steady_ns += 4 * SECOND

    assert hands.clock.now() == 1_700_000_004_000


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-10_000, 10_000))))
def test_it_is_never_behind_the_wall_and_never_far_ahead_and_runs_backwards_only_with_it(moves):
    hands = Hands()
    last = hands.clock.now_us()

    for passed, jump in moves:
        hands.pass_time(passed)
        hands.set_wall(jump)
        now = hands.clock.now_us()
        assert now - last >= int(passed * 1_000_000) - 1 or hands.clock.correction
        assert 0 <= now - hands.wall_ns // 1000 <= SMALLEST_CORRECTION_MS * 1000
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


def test_a_manual_clock_does_not_go_back_by_little_either():
    clock = ManualClock(5_000)

    clock.advance(-1_000)
    assert clock.now() == 5_000

    clock.advance(1_500)
    assert clock.now() == 5_500
