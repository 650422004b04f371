"""Suggestions for misspelt names: found within a budget."""

from difflib import get_close_matches

from sqew.spelling import closest

NAMES = [f"{kind}-{number:03}" for kind in ("orders", "invoices", "returns") for number in range(100)]


def test_a_letter_too_many_too_few_or_another_is_no_obstacle():
    assert [closest(name, NAMES) for name in ("orders-0042", "ordes-042", "irvoices-017", "retunrs-099")] == [
        ["orders-042"],
        ["orders-042"],
        ["invoices-017"],
        ["returns-099"],
    ]


def test_what_is_like_nothing_has_no_nearest():
    assert closest("zebra", NAMES) == []
    assert closest("orders", []) == []


def test_no_more_names_are_looked_at_than_the_budget_allows():
    taken = []

    def endless():
        while True:
            taken.append(f"name-{len(taken)}")
            yield taken[-1]

    assert closest("name-7", endless()) == ["name-7"]
    assert len(taken) == 1_000


def test_a_name_of_16_mib_is_like_nothing_and_nothing_is_looked_at():
    taken = []

    assert closest("x" * (16 << 20), (taken.append(name) or name for name in NAMES)) == []
    assert taken == []


def test_a_known_name_that_is_very_long_is_not_compared():
    assert closest("orders", ["orders" * 1_000_000, "order"]) == ["order"]


def test_it_finds_what_comparing_all_would_find():
    for name in NAMES[::7]:
        typo = name[:3] + name[4:]
        assert closest(typo, NAMES) == get_close_matches(typo, NAMES, n=1)
