"""Bars: only on a terminal, only after a second, and gone at the end."""

import os
import pty
import sys

import pytest

from sqew.terminal.progress import Bar, bar_line
from sqew.terminal.screen import Screen


class Stopwatch:
    """A clock that moves only when a test moves it."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


class Terminal:
    """A terminal of 60 columns as stderr."""

    def __init__(self):
        self._ours, theirs = pty.openpty()
        self.stream = os.fdopen(theirs, "w", encoding="utf-8")

    def written(self):
        """Return the output since the last call."""
        self.stream.write("\n")
        self.stream.flush()
        found = b""
        while not found.endswith(b"\r\n"):
            found += os.read(self._ours, 65536)
        return found.decode().removesuffix("\r\n")

    def close(self):
        self.stream.close()
        os.close(self._ours)


@pytest.fixture
def stopwatch():
    return Stopwatch()


@pytest.fixture
def terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    yield terminal
    terminal.close()


@pytest.fixture
def bar(terminal, stopwatch, monkeypatch):
    """Return a function that makes a bar on the terminal, to be called in the test itself."""

    def make(total=10, plain=True):
        # Not before the test itself runs: pytest sets stderr anew when it starts.
        monkeypatch.setattr(sys, "stderr", terminal.stream)
        return Bar("sending", plain, total, stopwatch)

    return make


def left_on_screen(written):
    """Return the text that is visible on the line in the end."""
    line = []
    for overwritten in written.split("\r"):
        line[: len(overwritten)] = overwritten
    return "".join(line).strip()


def test_it_shows_what_is_done_how_much_of_it_and_for_how_long():
    assert bar_line("sending", 30, 120, 3_725, Screen(60)) == f"sending {'━' * 7}{'─' * 23}  30/120  25% 1:02:05"


def test_a_bar_on_a_wide_screen_is_no_longer_than_it_need_be():
    assert bar_line("sending", 120, 120, 0, Screen(200)).count("━") == 40


def test_more_than_the_total_is_a_full_bar():
    assert bar_line("exporting", 130, 120, 0, Screen(200)).count("━") == 40


def test_without_a_total_a_piece_goes_to_and_fro():
    places = [bar_line("copying", 7, None, seconds / 2, Screen(80)).index("━") for seconds in range(9)]

    assert places == [8, 16, 23, 30, 38, 30, 23, 16, 8]


def test_a_narrow_screen_has_no_room_for_the_bar():
    assert bar_line("checking messages", 5, 10, 0, Screen(36)) == "checking messag…  5/10  50% 0:00:00"
    assert bar_line("checking messages", 5, 10, 0, Screen(24)) == "che…  5/10  50% 0:00:00"
    assert bar_line("checking messages", 5, 10, 0, Screen(11)) == " 5/10  50%"


def test_without_colours_or_unicode_what_is_left_looks_different():
    assert "#######-----" in bar_line("sending", 30, 120, 0, Screen(60, unicode=False))


def test_a_bar_in_colours_shows_what_is_left_too():
    line = bar_line("sending", 30, 120, 0, Screen(60, colours=True))

    assert line == (
        f"sending \x1b[36m{'━' * 7}\x1b[0m\x1b[2m{'─' * 23}\x1b[0m \x1b[32m 30/120  25%\x1b[0m \x1b[33m0:00:00\x1b[0m"
    )


def test_what_takes_less_than_a_second_shows_nothing(terminal, stopwatch, bar):
    with bar() as shown:
        stopwatch.seconds = 0.9
        shown.reach(9)

    assert terminal.written() == ""


def test_after_a_second_it_is_drawn_at_most_ten_times_a_second(terminal, stopwatch, bar):
    with bar(total=1_000) as shown:
        for done in range(1_000):
            stopwatch.seconds = done / 400
            shown.reach(done)
        written = terminal.written()

    assert 10 <= written.count("sending") <= 15
    assert left_on_screen(written).startswith("sending ━━")


def test_it_leaves_no_trace(terminal, stopwatch, bar):
    with bar() as shown:
        stopwatch.seconds = 2
        shown.reach(5)

    written = terminal.written()
    assert "5/10" in written
    assert left_on_screen(written) == ""


def test_ctrl_c_leaves_a_clean_line(terminal, stopwatch, bar):
    def interrupted():
        with bar() as shown:
            stopwatch.seconds = 2
            shown.reach(5)
            terminal.stream.write("^C")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    written = terminal.written()
    assert "^C" in written
    assert left_on_screen(written) == ""


def test_it_makes_room_for_a_sentence_and_comes_back(terminal, stopwatch, bar):
    with bar() as shown:
        stopwatch.seconds = 2
        shown.reach(5)
        shown.hide()
        assert left_on_screen(terminal.written()) == ""

        stopwatch.seconds = 3
        shown.reach(6)
        assert "6/10" in left_on_screen(terminal.written())


@pytest.mark.parametrize("plain", [True, False])
def test_without_colours_it_needs_no_escape_sequences(terminal, stopwatch, bar, plain):
    with bar(plain=plain) as shown:
        stopwatch.seconds = 2
        shown.reach(5)

    written = terminal.written()
    assert "5/10" in written
    assert ("\x1b" in written) is not plain


def test_a_terminal_that_cannot_go_back_shows_nothing(terminal, stopwatch, bar, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")

    with bar() as shown:
        stopwatch.seconds = 2
        shown.reach(5)

    assert terminal.written() == ""


def test_what_is_no_terminal_shows_nothing(capsys, stopwatch):
    with Bar("sending", False, 10, stopwatch) as shown:
        stopwatch.seconds = 2
        shown.reach(5)

    assert capsys.readouterr().err == ""
