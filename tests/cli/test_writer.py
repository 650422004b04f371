"""`sqew writer …`."""

import pytest

from sqew import Queue


@pytest.fixture
def staged(orders):
    """Stage epochs for two writers: one that is promoted, and two that are not."""
    with Queue.open(orders) as q:
        q.writers.stage("orders", "load", 0, "p", [1, 2, 3])
        q.writers.promote("orders", "load", 0, {"p": 3})
        q.writers.stage("orders", "load", 1, "p", [4, 5])
        q.writers.stage("orders", "late-load", 0, "p", [6])


def names(done):
    return [one["name"] for one in done.json["writers"]]


@pytest.mark.usefixtures("staged")
def test_writers_are_listed_with_what_they_have_staged(sqew):
    done = sqew("writer list --queue orders")

    assert "none yet" in done.out
    assert "2 of epoch 1" in done.out
    assert names(sqew("writer list --queue orders --json")) == ["late-load", "load"]
    assert names(sqew("writer list --queue orders --after late-load --json")) == ["load"]


@pytest.mark.usefixtures("staged")
def test_a_writer_is_shown(sqew):
    shown = sqew("writer show --queue orders --name load --json")

    assert shown.json == {
        "name": "load",
        "epoch": 0,
        "promoted": 3,
        "duplicates": 0,
        "staged": [{"epoch": 1, "parts": 1, "messages": 2, "promoting": False}],
    }
    assert "2 of epoch 1" in sqew("writer show --queue orders --name load").out


@pytest.mark.usefixtures("staged")
def test_what_is_staged_can_be_aborted(sqew):
    done = sqew("writer abort --queue orders --name load --epoch 1 --yes")

    assert done.out == "Nothing is staged of epoch 1 of writer 'load'.\n"
    assert sqew("writer show --queue orders --name load --json").json["staged"] == []


@pytest.mark.usefixtures("staged")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("writer show --queue orders --name laod", 3, "did you mean 'load'?"),
        ("writer abort --queue orders --name load --epoch 0 --yes", 4, "can't be aborted"),
        ("writer abort --queue orders --name load --epoch 0", 4, "can't be aborted"),
        ("writer abort --queue orders --name load --epoch -1 --yes", 2, "--epoch"),
        ("writer list --queue nowhere", 3, "does not exist"),
        ("writer list", 2, "--queue"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(sqew, command, code, words):
    done = sqew(command)

    assert done.code == code, done
    assert words in done.err


def test_a_queue_without_writers_says_so(sqew, orders):
    done = sqew("writer list --queue orders")

    assert "Nobody sends to queue 'orders' in epochs." in done.out + done.err
