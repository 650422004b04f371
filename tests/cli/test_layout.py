"""Tables and facts on screens of any width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.terminal.cells import width
from sqew.terminal.layout import lines_of_facts, lines_of_table
from sqew.terminal.output import Column
from sqew.terminal.screen import Screen

COLUMNS = [Column("id", right=True), Column("sent at"), Column("tries left", right=True), Column("body", cut=True)]
ROWS = [["1", "2026-01-31T12:00:00Z (3 s ago)", "5", "short"], ["12", "", "104", "a body that is long " * 9]]


def table(screen_width, rows=ROWS, columns=COLUMNS, **screen):
    return list(lines_of_table(columns, rows, Screen(screen_width, **screen)))


def test_a_table_has_titles_a_rule_and_numbers_on_the_right():
    assert table(74) == [
        "id  sent at                         tries left  body",
        "─" * 74,
        " 1  2026-01-31T12:00:00Z (3 s ago)           5  short",
        "12                                         104  a body that is long a bod…",
    ]


def test_a_table_is_no_wider_than_its_cells():
    assert table(200, [["1", "now", "5", "short"]])[1] == "─" * len("id  sent at  tries left  body ")


def test_what_may_be_cut_gives_way_first():
    assert table(60) == [
        "id  sent at                         tries left  body",
        "─" * 60,
        " 1  2026-01-31T12:00:00Z (3 s ago)           5  short",
        "12                                         104  a body that…",
    ]


def test_titles_fold_before_texts_do():
    assert table(54) == [
        "                                       tries",
        "id  sent at                             left  body",
        "─" * 54,
        " 1  2026-01-31T12:00:00Z (3 s ago)         5  short",
        "12                                       104  a body …",
    ]


def test_texts_fold_at_spaces_and_numbers_never():
    assert table(44) == [
        "                             tries",
        "id  sent at                   left  body",
        "─" * 44,
        " 1  2026-01-31T12:00:00Z (3      5  short",
        "    s ago)",
        "12                             104  a body …",
    ]


def test_columns_move_together_before_rows_become_facts():
    columns = [Column(title, right=True) for title in ("ready", "delayed", "leased", "dead")]

    assert table(25, [["1", "2", "3", "4"]], columns) == [
        "ready delayed leased dead",
        "─" * 25,
        "    1       2      3    4",
    ]


def test_rows_become_facts_where_no_table_fits():
    assert table(24) == [
        "id          1",
        "sent at     2026-01-31T1",
        "            2:00:00Z (3",
        "            s ago)",
        "tries left  5",
        "body        short",
        "",
        "id          12",
        "sent at",
        "tries left  104",
        "body        a body that…",
    ]


def test_wide_characters_keep_the_columns_in_line():
    columns = [Column("name"), Column("count", right=True)]
    rows = [["plain", "1"], ["日本語", "22"], ["cafe\u0301 👍🏽", "333"]]

    lines = table(80, rows, columns)

    assert {width(line) for line in lines} == {len("café 👍x  count")}


def test_facts_go_on_below_themselves():
    lines = lines_of_facts([("id", "7"), ("payload", "a long text that goes on")], Screen(22))

    assert list(lines) == ["id       7", "payload  a long text", "         that goes on"]


def test_titles_and_names_have_colours_where_the_screen_has():
    [title, *_] = table(80, colours=True)
    [fact] = lines_of_facts([("id", "7")], Screen(colours=True))

    assert title.startswith("\x1b[36m\x1b[1mid ")
    assert title.endswith("body\x1b[0m")
    assert fact == "\x1b[2mid\x1b[0m  7"


def test_a_screen_without_these_characters_gets_a_line_and_a_sign_of_its_own():
    lines = table(50, unicode=False)

    assert all(line.isascii() for line in lines)
    assert "-" * 50 in lines
    assert lines[-1].endswith("~")


@given(
    st.lists(st.lists(st.text(st.characters(exclude_categories=["C"])), min_size=4, max_size=4), max_size=3),
    st.integers(24, 120),
)
def test_no_line_is_wider_than_the_screen(rows, screen_width):
    assert all(width(line) <= screen_width for line in table(screen_width, rows))


@pytest.mark.parametrize("screen_width", [1, 5, 12])
def test_a_screen_too_narrow_for_anything_still_gets_every_number(screen_width):
    lines = table(screen_width)

    assert "id          12" in lines
    assert "tries left  104" in lines
