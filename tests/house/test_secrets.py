"""Objects that hold a secret: none shows it, however it is printed."""

import pytest
from msgspec import structs

from sqew.client.wire import CreatedKeyDocument
from sqew.envelopes.request_signature import new_key
from sqew.model import Discreet, GuardKey, KeyInfo, KeyRing, SigningKey
from sqew.settings import Setting, Settings

SECRET = "hush-hush"
INFO = KeyInfo("a1", "orders", ("send",), "the shop", True, 0)


@pytest.mark.parametrize(
    "discreet",
    [
        SigningKey("id", SECRET.encode(), SECRET.encode(), 0),
        GuardKey(INFO, SECRET.encode(), SECRET),
        KeyRing(1, [GuardKey(INFO, SECRET.encode(), SECRET)]),
        CreatedKeyDocument("a1", "orders", ("send",), "the shop", True, 0, SECRET, SECRET),
        Settings(auth_token=SECRET),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_secret_is_not_shown(discreet):
    assert SECRET not in repr(discreet)
    assert SECRET not in str(discreet.__rich_repr__())


def test_a_new_key_is_not_shown():
    made = new_key("orders", ["send"], signing=True)

    for shown in (repr(made), repr(made.creation), str(made.__rich_repr__()), str(made.creation.__rich_repr__())):
        assert "orders" in shown
        assert made.key not in shown
        assert made.secret not in shown


def test_no_secret_setting_is_shown():
    secret = {
        field.name
        for field in structs.fields(Settings)
        for meta in getattr(field.type, "__metadata__", ())
        if isinstance(meta, Setting) and meta.secret
    }

    assert secret
    assert secret == set(Settings.hidden)


def test_the_rest_is_shown():
    class Safe(Discreet, frozen=True):
        hidden = ("inside",)
        door: str
        inside: str

    assert repr(Safe("steel", SECRET)) == "Safe(door='steel')"
