"""Width of strings in terminal cells, and cutting them to fewer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.terminal.cells import cut, fold, pad, width

TEXTS = st.text(st.sampled_from("ab -é日本👍🏽👩\u200d👧🇩🇪❤\ufe0f\u0301\u3000")) | st.text(
    st.characters(exclude_categories=["C"])
)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("", 0),
        ("plain", 5),
        ("naïve", 5),
        ("cafe\u0301", 4),
        ("日本語", 6),
        ("ｈａｌｆ", 8),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("क्षि", 3),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("❤", 1),
        ("❤\ufe0f", 2),
        ("🇩🇪🇫🇷", 4),
        ("zero\u200bwidth", 9),
        ("soft\xadhyphen", 11),
    ],
)
def test_a_text_takes_as_many_cells_as_a_terminal_gives_it(text, cells):
    assert width(text) == cells


def test_spaces_fill_the_cells_that_a_text_leaves():
    assert pad("日本", 6) == "日本  "
    assert pad("12", 6, right=True) == "    12"
    assert pad("too long", 3) == "too long"


@pytest.mark.parametrize(
    ("text", "to", "left"),
    [
        ("exactly", 7, "exactly"),
        ("too long", 7, "too lo…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("cafe\u0301s", 5, "cafe\u0301s"),
        ("cafe\u0301s", 4, "caf…"),
        ("a👩\u200d👧b", 3, "a…"),
        ("🇩🇪🇫🇷", 3, "🇩🇪…"),
    ],
)
def test_a_cut_never_goes_through_a_character(text, to, left):
    assert cut(text, to) == left


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one line", ["one line"]),
        ("two words here", ["two words", "here"]),
        ("spaces  stay  as they are", ["spaces", "stay  as", "they are"]),
        ("abcdefghijklmnop", ["abcdefghij", "klmnop"]),
        ("a abcdefghijklm", ["a abcdefgh", "ijklm"]),
        ("id abcdefghij", ["id", "abcdefghij"]),
        ("日本語の長いメッセージ", ["日本語の長", "いメッセー", "ジ"]),
        ("a日本語の長い", ["a日本語の", "長い"]),
    ],
)
def test_a_long_text_goes_on_in_the_next_line(text, lines):
    assert fold(text, 10) == lines


@given(TEXTS, st.integers(2, 30))
def test_folded_lines_fit_and_lose_nothing_but_spaces(text, to):
    lines = fold(text, to)

    assert all(width(line) <= to for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(TEXTS, st.integers(1, 30))
def test_what_is_left_of_a_cut_text_fits_and_says_so(text, to):
    left = cut(text, to)

    assert width(left) <= to
    assert left == text or (left.endswith("…") and text.startswith(left[:-1]))
