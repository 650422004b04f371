"""The keys that sign envelopes: the newest is in use, and none is forgotten."""

import pytest

from sqew.core.checks import check_operation
from sqew.errors import BadValue
from sqew.model import SigningKey
from sqew.operations import AddSigningKey, ReadSigningKeys
from sqew.rules.limits import Limits


def key(id: str) -> SigningKey:
    return SigningKey(id, f"private {id}".encode(), f"certificate {id}".encode(), 7)


def read(store):
    return store.run(ReadSigningKeys())


def test_there_is_no_key_at_first(store):
    assert read(store) == []


def test_the_first_key_is_in_use(store):
    assert store.run(AddSigningKey(key("a"))) == [key("a")]

    assert read(store) == [key("a")]


def test_a_new_key_is_in_use_and_the_old_ones_are_kept_behind_it(store):
    store.run(AddSigningKey(key("a")))
    store.run(AddSigningKey(key("b"), instead_of="a"))

    assert store.run(AddSigningKey(key("c"), instead_of="b")) == [key("c"), key("b"), key("a")]

    assert read(store) == [key("c"), key("b"), key("a")]


def test_of_two_processes_that_make_the_first_key_at_once_one_takes_over_the_others(store, neighbour):
    store.run(AddSigningKey(key("a")))

    assert neighbour.run(AddSigningKey(key("b"))) == [key("a")]

    assert read(store) == read(neighbour) == [key("a")]


def test_of_two_processes_that_replace_a_key_at_once_one_takes_over_the_others(store, neighbour):
    store.run(AddSigningKey(key("a")))
    store.run(AddSigningKey(key("b"), instead_of="a"))

    assert neighbour.run(AddSigningKey(key("c"), instead_of="a")) == [key("b"), key("a")]

    assert read(store) == [key("b"), key("a")]


def test_keys_survive_reopening(store):
    store.run(AddSigningKey(key("a")))
    store.run(AddSigningKey(key("b"), instead_of="a"))

    store.reopen()

    assert read(store) == [key("b"), key("a")]


def test_a_key_that_is_shown_does_not_show_what_signs():
    assert "private" not in repr(key("a"))


def test_what_is_no_key_is_refused_before_it_reaches_the_store():
    with pytest.raises(BadValue):
        check_operation(AddSigningKey(b"secret"), Limits())
