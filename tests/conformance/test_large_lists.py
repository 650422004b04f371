"""Lists of large messages: a page ends early, and names where the next begins."""

from itertools import chain

from sqew.model import Ref
from sqew.operations import Ack, ListArchive, ListDead, Peek

BODY = b'"' + b"x" * 1_000_000 + b'"'
MOST_BYTES = 8 * 1024 * 1024


def pages_of(store, operation, limit):
    """Return all pages, each as a list of ids."""
    pages, after = [], 0
    while after is not None:
        page = store.run(operation("jobs", limit, after))
        assert sum(len(getattr(one, "message", one).body) for one in page.messages) < MOST_BYTES + len(BODY)
        pages.append([getattr(one, "message", one).id for one in page.messages])
        after = page.after
    return pages


def test_a_page_of_large_archived_messages_ends_early(store):
    store.create(keep="archive")
    sent = [store.send(BODY) for _ in range(20)]
    store.run(Ack("jobs", [Ref(id) for id in sent[:10]]))
    for _ in sent[10:]:
        store.nack(store.take(), dead=True)

    pages = pages_of(store, ListArchive, 1000)

    assert [len(page) for page in pages] == [9, 9, 2]
    assert list(chain(*pages)) == sent


def test_a_page_of_large_dead_letters_ends_early_wherever_they_lie(store):
    store.create()
    archived = [store.kill(body=BODY) for _ in range(6)]
    store.create("dead")
    store.update(dead_letter="dead")
    dead_letters = [store.kill(body=BODY) for _ in range(6)]

    pages = pages_of(store, ListDead, 1000)

    assert [len(page) for page in pages] == [9, 3]
    assert list(chain(*pages)) == archived + dead_letters


def test_headers_count_as_well(store):
    store.create(keep="archive")
    sent = [store.send(headers={"a": "x" * 1_000_000}) for _ in range(12)]
    store.run(Ack("jobs", [Ref(id) for id in sent]))

    assert [len(page) for page in pages_of(store, ListArchive, 1000)] == [9, 3]


def test_a_page_that_ends_with_the_list_says_that_there_is_no_other(store):
    store.create(keep="archive")
    sent = store.send_many(4)
    store.run(Ack("jobs", [Ref(id) for id in sent]))

    assert store.run(ListArchive("jobs", 4)).after is None
    assert store.run(ListArchive("jobs", 3)).after == sent[2]
    assert pages_of(store, ListArchive, 2) == [sent[:2], sent[2:]]


def test_one_message_is_always_shown_however_large_it_is(store):
    store.create(keep="archive")
    large = store.send(b'"' + b"x" * (MOST_BYTES + 10) + b'"')
    small = store.send()
    store.run(Ack("jobs", [Ref(large), Ref(small)]))

    first = store.run(ListArchive("jobs", 10))

    assert [one.message.id for one in first.messages] == [large]
    assert first.after == large


def test_a_peek_at_large_messages_ends_early(store):
    store.create()
    for _ in range(12):
        store.send(BODY)

    assert len(store.run(Peek("jobs", 1000))) == 9
