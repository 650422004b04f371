"""The archive: where finished messages go when the policy keeps them, and for how long."""

from sqew.model import Finished, Ref
from sqew.operations import Ack, DeleteArchived, DeleteQueue, ListArchive


def finish(store, count):
    """Send messages, ack them and return their ids."""
    sent = store.send_many(count)
    store.run(Ack("jobs", [Ref(id) for id in sent]))
    return sent


def test_a_queue_that_deletes_keeps_nothing(store):
    store.create(keep="delete")
    finish(store, 2)

    assert store.archive() == {}


def test_a_queue_that_archives_keeps_what_was_acked(store):
    store.create(keep="archive")
    id = store.send(b'"x"', headers={"a": 1}, priority=2, key="k", group="g")
    store.advance(10)
    message = store.take()
    store.advance(10)

    store.ack(message)

    [entry] = store.run(ListArchive("jobs")).messages
    assert (entry.outcome, entry.finished_at, entry.reason) == ("done", store.now, "")
    kept = entry.message
    assert (kept.id, kept.queue, kept.lane, kept.priority) == (id, "jobs", "normal", 2)
    assert (kept.body, kept.headers, kept.key, kept.group) == (b'"x"', {"a": 1}, "k", "g")
    assert (kept.attempts, kept.created_at) == (1, store.now - 20)
    assert kept.death is None


def test_an_archived_message_can_not_be_acked_again(store):
    store.create(keep="archive")
    store.send()
    message = store.take()
    store.ack(message)

    [again] = store.run(Ack("jobs", [Ref(message.id)]))

    assert again.code == "message_not_found"


def test_the_archive_is_listed_in_pages_in_order_of_id(store):
    store.create(keep="archive")
    ids = [*finish(store, 3), store.kill(), *finish(store, 2)]

    pages, after = [], 0
    while page := store.run(ListArchive("jobs", limit=4, after=after)).messages:
        pages.append([entry.message.id for entry in page])
        after = page[-1].message.id

    assert pages == [ids[:4], ids[4:]]


def test_the_archive_may_be_listed_by_outcome(store):
    store.create(keep="archive")
    done = finish(store, 2)
    dead = store.kill(reason="why")

    def listed(outcome):
        return [entry.message.id for entry in store.run(ListArchive("jobs", outcome=outcome)).messages]

    assert (listed("done"), listed("dead")) == (done, [dead])


def test_each_queue_has_its_own_archive(store):
    store.create(keep="archive")
    store.create("other", keep="archive")
    finish(store, 1)

    assert store.archive("other") == {}


def test_a_sweep_forgets_archived_messages_after_their_retention(store):
    store.create(keep="archive", archive_retention_ms=1000)
    finish(store, 1)
    store.advance(400)
    [later] = finish(store, 1)

    assert store.sweep().next_at == store.now + 600
    store.advance(599)
    assert store.sweep().archived == 0

    store.advance(1)
    swept = store.sweep()
    assert (swept.archived, swept.next_at) == (1, store.now + 400)
    assert store.archive() == {later: "done"}


def test_the_dead_in_the_archive_are_forgotten_after_the_retention_too(store):
    store.create(archive_retention_ms=1000)
    store.kill()

    store.advance(1000)

    assert store.sweep().archived == 1
    assert store.dead() == []


def test_without_a_retention_the_archive_is_kept_for_ever(store):
    store.create(keep="archive", archive_retention_ms=None)
    [id] = finish(store, 1)

    store.advance(10**12)

    assert store.sweep_all() == 0
    assert store.archive() == {id: "done"}


def test_the_archive_is_swept_in_steps(store):
    store.create(keep="archive", archive_retention_ms=10)
    finish(store, 5)
    store.advance(10)

    assert [store.sweep(2).archived for _ in range(4)] == [2, 2, 1, 0]


def test_the_archive_survives_reopening(store):
    store.create(keep="archive")
    [id] = finish(store, 1)

    store.reopen()

    assert store.archive() == {id: "done"}


def test_the_archive_goes_with_its_queue(store):
    store.create(keep="archive")
    finish(store, 3)
    store.run(DeleteQueue("jobs"))
    store.sweep_all()

    store.create(keep="archive")

    assert store.archive() == {}
    assert store.measure().archived == 0


def test_what_is_kept_elsewhere_may_be_deleted_from_the_archive(store):
    store.create(keep="archive")
    first, second, third = finish(store, 3)

    deleted = store.run(DeleteArchived("jobs", [Finished(first, store.now), Finished(third, store.now)]))

    assert deleted == 2
    assert store.archive() == {second: "done"}


def test_deleting_from_the_archive_again_deletes_nothing(store):
    store.create(keep="archive")
    which = [Finished(id, store.now) for id in finish(store, 2)]
    store.run(DeleteArchived("jobs", which))

    assert store.run(DeleteArchived("jobs", which)) == 0


def test_a_dead_message_that_was_requeued_and_has_finished_since_is_not_deleted_for_what_it_was(store):
    store.create(keep="archive", dead_letter=None)
    id = store.kill()
    died = Finished(id, store.now)
    store.requeue()
    store.advance(10)
    store.ack(store.take())

    assert store.run(DeleteArchived("jobs", [died])) == 0
    assert store.archive() == {id: "done"}


def test_what_another_queue_has_archived_is_not_deleted(store):
    store.create(keep="archive")
    store.create("other", keep="archive")
    [id] = finish(store, 1)

    assert store.run(DeleteArchived("other", [Finished(id, store.now)])) == 0
    assert store.archive() == {id: "done"}


def test_messages_that_are_not_finished_are_not_deleted_from_the_archive(store):
    store.create(keep="archive")
    id = store.send()

    assert store.run(DeleteArchived("jobs", [Finished(id, store.now)])) == 0
    assert store.total() == 1
