"""`sqew consumer …`."""

import pytest

from sqew import Queue


@pytest.fixture
def claimed(orders):
    """Open two consumers, one of which has claimed messages."""
    with Queue.open(orders) as q:
        q.enqueue_many("orders", [1, 2, 3])
        epoch = q.consumers.open("orders", "billing", owner="query-7", hold_ms=600_000).epoch
        q.consumers.claim("orders", "billing", epoch, after=0, limit=2)
        q.consumers.open("orders", "audit", owner="query-8", hold_ms=0)


@pytest.mark.usefixtures("claimed")
def test_consumers_are_listed_with_what_they_have_claimed(sqew):
    done = sqew("consumer list --queue orders --json")

    assert [one["name"] for one in done.json["consumers"]] == ["audit", "billing"]
    [claim] = done.json["consumers"][1]["claims"]
    assert (claim["number"], claim["count"]) == (1, 2)
    assert "query-7" in sqew("consumer list --queue orders").out
    assert [one["name"] for one in sqew("consumer list --queue orders --after audit --json").json["consumers"]] == [
        "billing"
    ]


@pytest.mark.usefixtures("claimed")
def test_releasing_a_consumer_gives_its_messages_back(sqew, orders):
    done = sqew("consumer release --queue orders --name billing --force --yes --json")

    assert done.json == {"queue": "orders", "name": "billing", "released": True}
    with Queue.open(orders) as q:
        assert [one.name for one in q.consumers.list("orders")] == ["audit"]
        assert len(q.claim_many("orders", 10)) == 3


@pytest.mark.usefixtures("claimed")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("consumer release --queue orders --name billing --yes", 4, "is in the hands of 'query-7'"),
        ("consumer release --queue orders --name biling --yes", 3, "did you mean 'billing'?"),
        ("consumer release --queue orders --name billing", 4, "is in the hands of 'query-7'"),
        ("consumer list --queue nowhere", 3, "does not exist"),
    ],
)
def test_what_can_not_be_done_is_said(sqew, command, code, words):
    done = sqew(command)

    assert done.code == code
    assert words in done.err


def test_where_nobody_reads_in_claims_it_says_so(sqew, orders):
    done = sqew("consumer list --queue orders")

    assert "Nobody reads queue 'orders' in claims." in done.out + done.err
