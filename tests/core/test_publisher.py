"""The publisher: subscriptions with envelopes get signed ones, and no other waits for the signing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sqew import EnvelopeVerifier
from sqew.clock import ManualClock
from sqew.core.broker import Broker
from sqew.core.flows import events
from sqew.core.publisher import Publisher
from sqew.envelopes.signing import new_signing_key
from sqew.envelopes.sns import certificate_path, new_event
from sqew.errors import BadSetting, EnvelopeNeeded, ScheduleChanged, TooLarge
from sqew.model import NewMessage, SigningKey
from sqew.operations import ClaimDeliveries, Publish, ReadSigningKeys
from sqew.schedules.changes import fire_due
from tests.support.background import ACCOUNT, BASE_URL, House, house

R = TypeVar("R")

NOW = 1_780_000_000_000
ENDPOINT = "https://endpoint.example/hook"


def in_house(folder: Path, scenario: Callable[[House], Awaitable[R]]) -> R:
    """Return the result of a scenario in a house whose clock stands still."""

    async def main() -> R:
        async with house(folder, ManualClock(NOW)) as h:
            return await scenario(h)

    return asyncio.run(main())


async def posted(h: House) -> list[dict[str, Any]]:
    """Return the envelopes that are due for posting, in the order of their deliveries."""
    claimed = await h.broker.run(ClaimDeliveries(1000, 1000, 1000))
    return [json.loads(delivery.body) for delivery in sorted(claimed.deliveries, key=lambda one: one.id)]


def verified(envelope: dict[str, Any], key: SigningKey) -> str:
    """Return the message of an envelope, after checking the key's signature."""
    verifier = EnvelopeVerifier(certificate=key.certificate, clock=ManualClock(NOW))
    return verifier.verify(json.dumps(envelope).encode()).message


# Envelopes


@pytest.mark.parametrize("version", [1, 2])
def test_an_endpoint_gets_an_envelope_that_can_be_verified(tmp_path, version):
    async def scenario(h):
        await h.subscribe("orders.*", ENDPOINT, version)
        published = await h.publish("orders.created", {"n": 1})
        return published, await posted(h), await h.publisher.signing_keys()

    published, [envelope], [key] = in_house(tmp_path, scenario)

    assert published[0].deliveries == 1
    assert json.loads(verified(envelope, key)) == {"n": 1}
    assert envelope["SignatureVersion"] == str(version)
    assert envelope["TopicArn"] == f"arn:aws:sns:us-east-1:{ACCOUNT}:orders.created"
    assert envelope["SigningCertURL"] == BASE_URL + certificate_path(key.id)


def test_a_queue_gets_its_envelope_as_the_body(tmp_path):
    async def scenario(h):
        await h.queue("ticks")
        await h.subscribe("orders.*", "ticks", 2)
        await h.publish("orders.created", "hello")
        return await h.messages(), await h.publisher.signing_keys()

    [message], [key] = in_house(tmp_path, scenario)

    assert verified(message.value, key) == '"hello"'


def test_who_wants_it_raw_gets_it_raw_beside_those_who_do_not(tmp_path):
    async def scenario(h):
        for form, name in enumerate(["raw", "first", "second"]):
            await h.queue(name)
            await h.subscribe("orders.*", name, form)
        await h.publish("orders.created", 7)
        return [(await h.messages(name))[0].value for name in ("raw", "first", "second")]

    raw, first, second = in_house(tmp_path, scenario)

    assert raw == 7
    assert (first["SignatureVersion"], second["SignatureVersion"]) == ("1", "2")
    assert first["MessageId"] == second["MessageId"]


def test_the_events_of_a_batch_get_the_versions_that_each_of_their_keys_wants(tmp_path):
    async def scenario(h):
        await h.subscribe("a", "https://a.example/", 1)
        await h.subscribe("b", "https://b.example/", 2)
        events = [new_event(key, NewMessage(b"1")) for key in ("a", "b")]
        await h.publisher.publish(events)
        return await posted(h)

    envelopes = in_house(tmp_path, scenario)

    assert [envelope["SignatureVersion"] for envelope in envelopes] == ["1", "2"]


def test_who_had_been_told_which_envelopes_are_needed_was_told_once_more(tmp_path, monkeypatch):
    async def scenario(h):
        await h.subscribe("orders.*", ENDPOINT, 2)
        events = [new_event("orders.created", NewMessage(b"1"))]
        with pytest.raises(EnvelopeNeeded) as told:
            await h.broker.run(Publish(events))
        tried.clear()
        await h.publisher.publish(events, needed=told.value)
        return tried.count(Publish), await posted(h)

    tried: list[type] = []
    run = Broker.run
    monkeypatch.setattr(Broker, "run", lambda self, operation: tried.append(type(operation)) or run(self, operation))

    tries, envelopes = in_house(tmp_path, scenario)

    assert (tries, [envelope["Message"] for envelope in envelopes]) == (1, ["1"])


def test_a_batch_is_published_in_its_order_with_envelopes_of_its_own(tmp_path):
    async def scenario(h):
        await h.subscribe("orders.*", ENDPOINT, 2)
        await h.publish("orders.created", *range(5))
        return await posted(h), await h.publisher.signing_keys()

    envelopes, [key] = in_house(tmp_path, scenario)

    assert [verified(envelope, key) for envelope in envelopes] == ["0", "1", "2", "3", "4"]
    assert len({envelope["MessageId"] for envelope in envelopes}) == 5


def test_a_version_that_is_wanted_for_the_first_time_is_added_to_those_known(tmp_path):
    async def scenario(h):
        await h.subscribe("orders.*", "https://a.example/", 1)
        await h.publish("orders.created", 1)
        await h.subscribe("orders.*", "https://b.example/", 2)
        await h.publish("orders.created", 2)
        return await posted(h)

    envelopes = in_house(tmp_path, scenario)

    assert [(envelope["Message"], envelope["SignatureVersion"]) for envelope in envelopes] == [
        ("1", "1"),
        ("2", "1"),
        ("2", "2"),
    ]


def test_an_envelope_went_round_the_limit_of_bodies(tmp_path):
    async def main():
        async with house(tmp_path, ManualClock(NOW), max_body_bytes=4_096) as h:
            await h.queue("ticks")
            await h.subscribe("orders.*", "ticks", 2)
            with pytest.raises(TooLarge, match="in an envelope, which has"):
                await h.publish("orders.created", "small", chr(34) * 2_000)
            return await h.messages()

    assert asyncio.run(main()) == []


def test_a_certificate_that_others_may_not_be_able_to_fetch_is_warned_of_once(tmp_path, caplog):
    async def scenario(h):
        h.publisher.flows.guesses_url = True
        await h.subscribe("orders.*", ENDPOINT, 2)
        for number in range(3):
            await h.publish("orders.created", number)

    in_house(tmp_path, scenario)

    assert [record.message for record in caplog.records if "set base_url" in record.message] != []
    assert len(caplog.records) == 1


def test_a_server_that_has_no_address_makes_no_envelopes(tmp_path):
    async def scenario(h):
        h.publisher.flows.base_url = ""
        await h.subscribe("orders.*", ENDPOINT, 2)
        with pytest.raises(BadSetting, match="Set base_url"):
            await h.publish("orders.created", 1)
        return await h.broker.run(ReadSigningKeys())

    assert in_house(tmp_path, scenario) == []


# Keys


def test_nothing_is_signed_and_no_key_is_made_where_nobody_wants_an_envelope(tmp_path):
    async def scenario(h):
        await h.queue("ticks")
        await h.subscribe("orders.*", "ticks")
        await h.publish("orders.created", 1)
        return await h.broker.run(ReadSigningKeys())

    assert in_house(tmp_path, scenario) == []


def test_the_key_is_the_same_after_a_restart(tmp_path):
    async def scenario(h):
        return await h.publisher.signing_keys()

    assert in_house(tmp_path, scenario) == in_house(tmp_path, scenario)


def test_whoever_asks_for_the_first_key_at_once_gets_the_same(tmp_path):
    async def scenario(h):
        others = [Publisher(h.broker, ACCOUNT, BASE_URL) for _ in range(3)]
        return await asyncio.gather(*(publisher.signing_keys() for publisher in others))

    first, second, third = in_house(tmp_path, scenario)

    assert first == second == third
    assert len(first) == 1


def test_everybody_who_asked_for_the_first_certificate_had_a_key_made(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(events, "new_signing_key", lambda now: made.append(now) or new_signing_key(now))

    async def scenario(h):
        return await asyncio.gather(*(h.publisher.signing_keys() for _ in range(50)))

    found = in_house(tmp_path, scenario)

    assert len(made) == 1
    assert all(keys == found[0] for keys in found)


def test_after_a_rotation_the_new_key_signs_and_the_old_one_still_proves_what_it_signed(tmp_path):
    async def scenario(h):
        await h.subscribe("orders.*", ENDPOINT, 2)
        await h.publish("orders.created", "before")
        rotated = await h.publisher.rotate()
        await h.publish("orders.created", "after")
        return rotated, await h.publisher.signing_keys(), await posted(h)

    rotated, keys, [before, after] = in_house(tmp_path, scenario)

    assert rotated == keys
    new, old = keys
    assert (verified(before, old), verified(after, new)) == ('"before"', '"after"')
    assert before["SigningCertURL"] != after["SigningCertURL"]


def test_a_rotation_before_there_was_a_key_makes_the_first(tmp_path):
    async def scenario(h):
        return await h.publisher.rotate()

    assert len(in_house(tmp_path, scenario)) == 1


def test_a_rotation_by_another_server_is_noticed(tmp_path):
    async def scenario(h):
        await h.subscribe("orders.*", ENDPOINT, 2)
        await h.publish("orders.created", "before")
        [new, _] = await Publisher(h.broker, ACCOUNT, BASE_URL).rotate()
        await h.publish("orders.created", "after")
        return new, await posted(h)

    new, [_, after] = in_house(tmp_path, scenario)

    assert verified(after, new) == '"after"'


# Schedules


def test_a_fire_is_signed_for_those_who_want_it_so(tmp_path):
    async def scenario(h):
        await h.subscribe("a.*", "https://a.example/", 1)
        await h.subscribe("a.#", "https://b.example/", 2)
        schedule = await h.schedule("tick", "every", "1 minute", "a.due", target_kind="topic")
        fired = await h.publisher.fire(fire_due(schedule, schedule.next_fire_at))
        return fired, await h.reads("tick"), await posted(h), await h.publisher.signing_keys()

    fired, schedule, envelopes, [key] = in_house(tmp_path, scenario)

    assert (fired.ids, fired.deliveries, schedule.fired) == ([], 2, 1)
    assert [verified(envelope, key) for envelope in envelopes] == ['"tick"'] * 2


def test_a_slot_that_was_fired_by_somebody_else_is_not_fired_again(tmp_path):
    async def scenario(h):
        await h.subscribe("a.*", ENDPOINT, 2)
        schedule = await h.schedule("tick", "every", "1 minute", "a.due", target_kind="topic")
        fire = fire_due(schedule, schedule.next_fire_at)
        await h.publisher.fire(fire)
        with pytest.raises(ScheduleChanged):
            await Publisher(h.broker, ACCOUNT, BASE_URL).fire(fire)
        return await posted(h)

    assert len(in_house(tmp_path, scenario)) == 1
