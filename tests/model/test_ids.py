"""Ids as UUIDs, and tokens."""

import os
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import MessageNotFound
from sqew.ids import MessageUuids, new_token

HIGHEST = 2**62 - 1
UUIDS = MessageUuids(4711)
ids = st.integers(0, HIGHEST) | st.sampled_from([n for k in range(62) for n in (2**k - 1, 2**k, 2**k + 1)] + [HIGHEST])


@given(ids)
def test_every_id_comes_back_from_its_uuid(id):
    assert UUIDS.id_of(UUIDS.of(id)) == id


@given(ids)
def test_an_id_comes_back_from_its_uuid_as_text(id):
    assert UUIDS.id_of(uuid.UUID(str(UUIDS.of(id)).upper())) == id


@given(ids)
def test_the_uuid_is_a_proper_one_of_version_eight(id):
    made = UUIDS.of(id)

    assert made.version == 8
    assert made.variant == uuid.RFC_4122


@given(ids, ids)
def test_two_ids_never_share_a_uuid(one, other):
    assert (UUIDS.of(one) == UUIDS.of(other)) == (one == other)


def test_the_uuids_of_neighbouring_ids_do_not_look_alike():
    made = [UUIDS.of(id).hex for id in range(1, 1001)]

    assert len({uuid[:8] for uuid in made}) > 990
    assert made != sorted(made)


def test_the_uuid_of_an_id_is_the_same_for_ever():
    assert str(UUIDS.of(1)) == "6c0edf55-aa7d-8712-a95b-6c0e0f24c5e6"


@given(ids, st.integers(-(2**63), 2**63 - 1))
def test_the_same_id_in_another_store_has_another_uuid(id, salt):
    others = MessageUuids(salt)

    assert others.id_of(others.of(id)) == id
    assert (others.of(id) == UUIDS.of(id)) == (salt == 4711)


@given(st.uuids())
def test_a_foreign_uuid_names_no_message(foreign):
    with pytest.raises(MessageNotFound):
        UUIDS.id_of(foreign)


@given(ids, st.integers(0, 127))
def test_a_uuid_with_one_bit_changed_names_no_message(id, bit):
    with pytest.raises(MessageNotFound):
        UUIDS.id_of(uuid.UUID(int=UUIDS.of(id).int ^ (1 << bit)))


@pytest.mark.parametrize("foreign", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"])
def test_the_uuids_of_all_zeros_and_all_ones_name_no_message(foreign):
    with pytest.raises(MessageNotFound):
        UUIDS.id_of(uuid.UUID(foreign))


def test_a_forked_child_has_other_tokens_than_its_parent():
    """Check this because tokens are drawn many at a time."""
    new_token()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, "".join(new_token() for _ in range(100)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    of_the_child = os.read(reading, 100 * 32).decode()
    os.close(reading)
    os.close(writing)

    assert len(of_the_child) == 100 * 32
    assert not any(new_token() in of_the_child for _ in range(100))


def test_tokens_are_long_and_never_the_same():
    tokens = {new_token() for _ in range(1000)}

    assert len(tokens) == 1000
    assert all(len(bytes.fromhex(token)) == 16 for token in tokens)
