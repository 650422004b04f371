"""Ids as UUIDs, and tokens."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import MessageNotFound
from sqew.ids import id_of, new_token, uuid_of

HIGHEST = 2**62 - 1
ids = st.integers(0, HIGHEST) | st.sampled_from([n for k in range(62) for n in (2**k - 1, 2**k, 2**k + 1)] + [HIGHEST])


@given(ids)
def test_every_id_comes_back_from_its_uuid(id):
    assert id_of(uuid_of(id)) == id


@given(ids)
def test_an_id_comes_back_from_its_uuid_as_text(id):
    assert id_of(uuid.UUID(str(uuid_of(id)).upper())) == id


@given(ids)
def test_the_uuid_is_a_proper_one_of_version_eight(id):
    made = uuid_of(id)

    assert made.version == 8
    assert made.variant == uuid.RFC_4122


@given(ids, ids)
def test_two_ids_never_share_a_uuid(one, other):
    assert (uuid_of(one) == uuid_of(other)) == (one == other)


def test_the_uuids_of_neighbouring_ids_do_not_look_alike():
    made = [uuid_of(id).hex for id in range(1, 1001)]

    assert len({uuid[:8] for uuid in made}) > 990
    assert made != sorted(made)


def test_the_uuid_of_an_id_is_the_same_for_ever():
    assert str(uuid_of(1)) == "6c0edf55-aa7d-838b-9ae0-00e8b56cb57b"


@given(st.uuids())
def test_a_foreign_uuid_names_no_message(foreign):
    with pytest.raises(MessageNotFound):
        id_of(foreign)


@given(ids, st.integers(0, 127))
def test_a_uuid_with_one_bit_changed_names_no_message(id, bit):
    with pytest.raises(MessageNotFound):
        id_of(uuid.UUID(int=uuid_of(id).int ^ (1 << bit)))


@pytest.mark.parametrize("foreign", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"])
def test_the_uuids_of_all_zeros_and_all_ones_name_no_message(foreign):
    with pytest.raises(MessageNotFound):
        id_of(uuid.UUID(foreign))


def test_tokens_are_long_and_never_the_same():
    tokens = {new_token() for _ in range(1000)}

    assert len(tokens) == 1000
    assert all(len(bytes.fromhex(token)) == 16 for token in tokens)
