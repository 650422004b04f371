"""API keys: each opens one queue, and ends with it."""

import pytest

from sqew.core.checks import check_operation
from sqew.envelopes.request_signature import digest_of, new_key
from sqew.errors import BadValue, Conflict, KeyNotFound, QueueNotFound
from sqew.model import GuardKey, KeyInfo
from sqew.operations import CreateKey, DeleteKey, DeleteQueue, ListKeys, ReadKeys
from sqew.rules.limits import Limits


def add_key(store, queue="jobs", scopes=("send",), label="", signing=False):
    """Give a queue a key; return the key that its owner keeps, and what the store shows of it."""
    made = new_key(queue, scopes, label, signing=signing)
    return made, store.run(made.creation)


def read(store, known_version=0):
    return store.run(ReadKeys(known_version))


def test_a_new_key_is_listed_with_what_it_allows_and_nothing_that_opens(store):
    store.create()

    made, info = add_key(store, scopes=["send", "receive"], label="the shop", signing=True)

    assert info == KeyInfo(made.creation.id, "jobs", ("send", "receive"), "the shop", True, store.now)
    assert store.run(ListKeys("jobs")) == [info]


def test_whoever_checks_requests_reads_the_digest_and_the_signing_secret(store):
    store.create()
    plain, plain_info = add_key(store)
    signing, signing_info = add_key(store, signing=True)

    keys = {key.info.id: key for key in read(store).keys}

    assert keys == {
        plain_info.id: GuardKey(plain_info, digest_of(plain.key.encode()), None),
        signing_info.id: GuardKey(signing_info, digest_of(signing.key.encode()), signing.secret),
    }


def test_keys_are_listed_by_queue_or_all_at_once(store):
    store.create()
    store.create("other")
    _, here = add_key(store)
    _, there = add_key(store, "other")

    assert store.run(ListKeys("other")) == [there]
    assert store.run(ListKeys()) == [here, there]


def test_a_deleted_key_is_gone(store):
    store.create()
    _, first = add_key(store)
    _, second = add_key(store)

    store.run(DeleteKey("jobs", first.id))

    assert store.run(ListKeys("jobs")) == [second]
    with pytest.raises(KeyNotFound):
        store.run(DeleteKey("jobs", first.id))


def test_a_key_is_not_deleted_by_way_of_another_queue(store):
    store.create()
    store.create("other")
    _, info = add_key(store)

    with pytest.raises(KeyNotFound):
        store.run(DeleteKey("other", info.id))
    assert store.run(ListKeys("jobs")) == [info]


def test_the_keys_of_a_deleted_queue_do_not_open_the_next_one_of_its_name(store):
    store.create()
    add_key(store)

    store.run(DeleteQueue("jobs"))
    store.create()

    assert store.run(ListKeys("jobs")) == []
    assert read(store).keys == []


def test_nothing_is_read_again_until_a_key_changes(store):
    store.create()
    _, info = add_key(store)
    version = read(store).version

    store.create("other")
    store.send()

    assert read(store, version) is None
    store.run(DeleteKey("jobs", info.id))
    assert read(store, version).version != version


def test_deleting_a_queue_with_keys_counts_as_a_change_of_keys(store):
    store.create()
    add_key(store)
    version = read(store).version

    store.run(DeleteQueue("jobs"))

    assert read(store, version).keys == []


def test_deleting_a_queue_without_keys_changes_no_key(store):
    store.create()
    store.create("other")
    add_key(store)
    version = read(store).version

    store.run(DeleteQueue("other"))

    assert read(store, version) is None


def test_keys_survive_reopening(store):
    store.create()
    _, info = add_key(store)

    store.reopen()

    assert store.run(ListKeys()) == [info]


def test_a_queue_has_at_most_a_hundred_keys(store):
    store.create()
    for _ in range(100):
        add_key(store)

    with pytest.raises(Conflict, match="Delete those that nobody uses"):
        add_key(store)


@pytest.mark.parametrize("operation", [new_key("no", ["send"]).creation, ListKeys("no"), DeleteKey("no", "k")])
def test_keys_of_a_queue_that_does_not_exist_are_an_error(store, operation):
    with pytest.raises(QueueNotFound):
        store.run(operation)


@pytest.mark.parametrize(
    "operation",
    [
        new_key("jobs", []).creation,
        new_key("jobs", ["send", "send"]).creation,
        new_key("jobs", ["everything"]).creation,
        new_key("jobs", "send").creation,
        new_key("jobs", ["send"], label="x" * 10_000).creation,
        CreateKey("jobs", "id", b"short", ["send"]),
        ReadKeys(-1),
        DeleteKey("jobs", 7),
    ],
)
def test_what_makes_no_sense_is_refused_before_it_reaches_the_store(operation):
    with pytest.raises(BadValue):
        check_operation(operation, Limits())
