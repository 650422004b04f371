"""`sqew key …`."""

import pytest


def add(sqew, *options, queue="orders"):
    done = sqew(["key", "add", "--queue", queue, "--json", *options])
    assert done.code == 0, done.err
    return done.json


@pytest.mark.usefixtures("orders")
def test_a_key_is_shown_when_it_is_made_and_never_again(sqew):
    made = add(sqew, "--scope", "send", "--scope", "receive", "--label", "the shop")

    listed = sqew("key list --json")

    assert made["key"].startswith(f"sqew_{made['id']}_")
    assert listed.json["keys"] == [{name: value for name, value in made.items() if name != "key"}]
    assert (made["scopes"], made["label"], made["signing"]) == (["send", "receive"], "the shop", False)
    assert made["key"] not in sqew("key list").out


@pytest.mark.usefixtures("orders")
def test_people_are_told_to_keep_the_key(sqew):
    done = sqew("key add --queue orders --scope send --signing")

    assert "sqewsig_" in done.out
    assert "it can't be shown again" in done.err
    assert "SQEW_AUTH_TOKEN" in done.err


@pytest.mark.usefixtures("orders")
def test_keys_can_be_listed_by_queue(sqew):
    add(sqew, "--scope", "send")
    other = add(sqew, "--scope", "admin", queue="orders-dlq")

    assert [key["id"] for key in sqew("key list --queue orders-dlq --json").json["keys"]] == [other["id"]]


@pytest.mark.usefixtures("orders")
def test_a_deleted_key_is_gone(sqew):
    id = add(sqew, "--scope", "send")["id"]

    assert sqew(f"key rm --queue orders --id {id} --yes").out == f"Deleted key '{id}' of queue 'orders'.\n"

    assert "There are no keys" in sqew("key list").err + sqew("key list").out
    assert sqew(f"key rm --queue orders --id {id} --yes").code == 3


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("key add --queue orders", 2, "--scope"),
        ("key add --queue orders --scope all", 2, "'all'"),
        ("key add --queue nowhere --scope send", 3, "does not exist"),
        ("key rm --queue orders --id 12", 3, "12"),
        ("key list --url http://localhost:1", 8, "There is no server"),
    ],
)
def test_a_mistake_is_told(sqew, command, code, words):
    done = sqew(command)

    assert done.code == code
    assert words in done.err


def test_the_token_is_shown_neither_to_people_nor_to_machines(sqew, monkeypatch):
    monkeypatch.setenv("SQEW_AUTH_TOKEN", "open-sesame")

    shown, document = sqew("config show"), sqew("config show --json")

    assert "***" in shown.out
    assert '"***"' in document.out
    assert "open-sesame" not in shown.out + document.out


def test_a_token_that_is_no_text_is_not_repeated_in_the_error(sqew, folder):
    (folder / "sqew.toml").write_text("auth_token = 123456789\n")

    done = sqew("queue list")

    assert done.code == 2
    assert "auth_token can't be ***" in done.err
    assert "123456789" not in done.err
