"""Envelopes: each subscriber gets an event signed or plain, as it asked for it, and in no other form."""

import pytest

from sqew.errors import EnvelopeNeeded
from sqew.operations import Publish
from tests.conformance.driver import event


def test_an_envelope_is_asked_for_in_every_version_that_somebody_wants(store):
    store.create()
    store.subscribe("orders.*", form=1)
    store.subscribe_endpoint("orders.#", form=2)
    store.subscribe_endpoint("payments.#", form=2)

    commit = store.commit(Publish([event("orders.created")]))

    [needed] = commit.results
    assert isinstance(needed, EnvelopeNeeded)
    assert needed.versions == {1, 2}
    assert (commit.facts, commit.woken) == ([], set())
    assert store.total() == len(store.deliveries()) == 0


def test_only_the_missing_envelopes_are_asked_for(store):
    store.subscribe_endpoint("orders.*", form=1)
    store.subscribe_endpoint("orders.#", form=2)

    with pytest.raises(EnvelopeNeeded) as caught:
        store.publish("orders.created", envelopes={1: b"{}"})

    assert caught.value.versions == {2}


def test_everybody_gets_the_event_in_the_form_that_was_asked_for(store):
    forms = {0: b"grue\xc3\x9fe", 1: b'{"v": 1}', 2: b'{"v": 2}'}
    for form in forms:
        store.create(f"q{form}")
        store.subscribe("orders.*", f"q{form}", form)
        store.subscribe_endpoint("orders.*", f"http://{form}.example/", form)

    store.publish("orders.created", forms[0], envelopes={1: forms[1], 2: forms[2]}, format="text", headers={"a": 1})

    for form, body in forms.items():
        message = store.take(f"q{form}")
        assert (message.body, message.format) == (body, "json" if form else "text")
        assert message.headers == {"a": 1, "_event": {"routing_key": "orders.created"}}
    posted = {delivery.endpoint: (delivery.form, delivery.body, delivery.format) for delivery in store.claim()}
    assert posted == {
        f"http://{form}.example/": (form, body, "json" if form else "text") for form, body in forms.items()
    }


def test_an_envelope_that_nobody_wants_does_no_harm(store):
    store.create()
    store.subscribe("orders.*")

    store.publish("orders.created", b"1", envelopes={2: b"{}"})

    assert store.take().body == b"1"


def test_a_queue_that_two_patterns_lead_to_gets_the_form_of_the_older_one(store):
    store.create()
    store.subscribe("orders.*", form=2)
    store.subscribe("#")

    store.publish("orders.created", b"1", envelopes={2: b'{"v": 2}'})

    assert store.take().body == b'{"v": 2}'
