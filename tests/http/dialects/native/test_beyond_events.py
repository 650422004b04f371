"""Calls of beyond-queue's clients for events, schedules and SNS, with the bodies they send and the types they read.

They send nulls and defaults if the caller gave nothing, a token that the server need not know, and `_` for a pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
import pytest
from msgspec import Meta, Struct

from tests.http.dialects.vocabularies import new_name
from tests.http.webhooks import eventually
from tests.support.endpoint import Hook, endpoint
from tests.support.serving import STORES, Answer, Serving, serving

T = TypeVar("T")
Int32 = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31)]
Moment = Annotated[datetime, Meta(tz=True)]
TOPICS = "arn:aws:sns:us-east-1:000000000000:"


class Subscription(Struct):
    id: int
    pattern: str
    protocol: Literal["sqs", "http", "https"]
    endpoint: str
    bound_at: Moment
    raw_delivery: bool
    queue_name: str | None = None


class SentCopy(Struct):
    queue_name: str
    msg_id: int


class PublishResult(Struct):
    queues_matched: int
    messages: list[SentCopy]


class QueueTarget(Struct):
    queue: str
    message: Any


class TopicTarget(Struct):
    topic: str
    message: Any


class ScheduleOf(Struct, kw_only=True):
    """A schedule without its target, of which there are two kinds: decoders tell them apart by their fields."""

    name: str
    expression: str
    timezone: str
    jitter_secs: Int32
    catchup: bool
    catchup_limit: Int32
    failure_threshold: Int32
    status: Literal["active", "paused"]
    next_fire_at: Moment
    consecutive_failures: Int32
    fire_count: int
    human_readable: str
    next_fires: list[Moment]
    created_at: Moment
    updated_at: Moment
    cron: str | None = None
    fire_at: Moment | None = None
    last_fired_at: Moment | None = None
    last_error: str | None = None


class QueueSchedule(ScheduleOf, kw_only=True):
    target: QueueTarget


class TopicSchedule(ScheduleOf, kw_only=True):
    target: TopicTarget


class RunResult(Struct):
    schedule_name: str
    fired_at: Moment
    scheduled_for: Moment
    out_of_band: bool
    msg_ids: list[int]


class Preview(Struct):
    timezone: str
    human_readable: str
    next_fires: list[Moment]
    cron: str | None = None
    fire_at: Moment | None = None


class Client:
    """A client with the calls of beyond-queue's clients, and of their tests."""

    def __init__(self, server: Serving) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return self._server.url

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        return self._server.call(method, path, body, {"Authorization": "Bearer anon"})

    def read(self, kind: type[T], status: int, method: str, path: str, body: Any = None) -> T:
        answer = self.call(method, path, body)
        assert answer.status == status, answer
        return msgspec.json.decode(answer.body, type=kind, strict=True)

    def new_queue(self) -> str:
        name = new_name().replace("-", "_").lower()
        assert self.call("POST", "/v1/queues", {"name": name, "fifo": False}).status == 201
        return name

    def received(self, queue: str, wait: int = 0) -> list[Any]:
        return self.call("GET", f"/v1/queues/{queue}/messages?max=10&wait={wait}").json

    def publish(self, key: str, payload: Any, headers: Any = None) -> PublishResult:
        body = {"message": payload, "delay": 0, "headers": headers}
        return self.read(PublishResult, 201, "POST", f"/v1/events/{key}", body)

    def subscribe(self, pattern: str, **target: Any) -> Subscription:
        return self.read(Subscription, 201, "POST", f"/v1/events/{quote(pattern)}/subscriptions", target)

    def subscriptions(self, pattern: str) -> list[Subscription]:
        return self.read(list[Subscription], 200, "GET", f"/v1/events/{quote(pattern)}/subscriptions")

    def put(self, kind: type[T], name: str, status: int = 201, **spec: Any) -> T:
        return self.read(kind, status, "PUT", f"/v1/schedules/{name}", {"name": name, **spec})

    def sns(self, action: str, **fields: Any) -> Any:
        kind = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSNS.{action}"}
        answer = self._server.call("POST", "/", fields, {"Authorization": "Bearer test", **kind})
        assert (answer.status, answer.headers["content-type"]) == (200, "application/x-amz-json-1.0"), answer
        return answer.json if answer.body else None


@pytest.fixture(scope="module", params=STORES)
def client(request: pytest.FixtureRequest, servers: Any) -> Client:
    return Client(servers(request.param))


# The recorded steps


class Recorded(NamedTuple):
    """Answers to the recorded steps of events and previews, requested in their order."""

    queue: str
    pattern: str
    made: Subscription
    listed: list[Subscription]
    published: PublishResult
    to_nobody: PublishResult
    unknown: Answer
    preview: Preview
    bad: Answer
    received: list[Any]


@pytest.fixture(scope="module")
def recorded(client: Client) -> Recorded:
    queue = client.new_queue()
    pattern = f"{queue}.b"
    return Recorded(
        queue,
        pattern,
        client.subscribe(pattern, queue_name=queue),
        client.subscriptions(pattern),
        client.publish(pattern, {"n": 1}),
        client.publish(f"{queue}.nobody", {"n": 1}),
        client.call("POST", f"/v1/events/{pattern}/subscriptions", {"queue_name": "nope"}),
        client.read(Preview, 200, "POST", "/v1/previews", {"when": "every weekday at 9am"}),
        client.call("POST", "/v1/previews", {"when": "every weekdays at 9am"}),
        client.received(queue),
    )


def test_the_step_subscribe(recorded: Recorded) -> None:
    made, queue = recorded.made, recorded.queue

    assert (made.pattern, made.protocol, made.endpoint) == (recorded.pattern, "sqs", f"sqs://{queue}")
    assert (made.queue_name, made.raw_delivery) == (queue, True)


def test_the_step_list_subscriptions(recorded: Recorded) -> None:
    assert recorded.listed == [recorded.made]


def test_the_step_publish(recorded: Recorded) -> None:
    (message,) = recorded.received

    assert recorded.published == PublishResult(1, [SentCopy(recorded.queue, message["id"])])


def test_the_step_publish_to_nobody(recorded: Recorded) -> None:
    assert recorded.to_nobody == PublishResult(0, [])


def test_the_step_subscribe_an_unknown_queue(recorded: Recorded) -> None:
    assert (recorded.unknown.status, recorded.unknown.headers["x-sqew-error"]) == (404, "queue_not_found")


def test_the_step_preview(recorded: Recorded) -> None:
    preview = recorded.preview

    assert (preview.cron, preview.timezone, preview.fire_at) == ("0 9 * * 1-5", "UTC", None)
    assert preview.human_readable.startswith("At 09:00 on weekdays")
    assert [(fire.hour, fire.weekday() < 5) for fire in preview.next_fires] == [(9, True)] * 5


def test_the_step_preview_of_nonsense(recorded: Recorded) -> None:
    assert recorded.bad.status == 400


# Events


def test_the_client_of_events_subscribes_publishes_and_unsubscribes(client: Client) -> None:
    queues = [client.new_queue() for _ in range(2)]
    pattern = f"events.{queues[0]}"

    made = [client.subscribe(pattern, queue_name=queue) for queue in queues]
    published = client.publish(pattern, "hello", {"x-event-type": "test"})

    assert [copy.queue_name for copy in published.messages] == queues
    (message,) = client.received(queues[1])
    assert (message["message"], message["headers"]["x-event-type"]) == ("hello", "test")
    by_queue = client.read(list[Subscription], 200, "GET", f"/v1/queues/{queues[0]}/subscriptions")
    assert by_queue == [made[0]]
    again = client.call("POST", f"/v1/events/{pattern}/subscriptions", {"queue_name": queues[0]})
    assert again.status in (200, 201)

    gone = [client.call("DELETE", f"/v1/events/_/subscriptions/{one.id}").status for one in made]

    assert gone == [204, 204]
    assert client.publish(pattern, "ghost").queues_matched == 0
    assert client.subscriptions(pattern) == []
    assert client.call("DELETE", "/v1/events/_/subscriptions/999999999").status == 404


def test_fields_of_newer_clients_are_passed_over(client: Client) -> None:
    queue, newer = client.new_queue(), {"colour": "red"}

    made = client.subscribe(f"{queue}.new", queue_name=queue, **newer)
    published = client.read(PublishResult, 201, "POST", f"/v1/events/{queue}.new", {"message": 1, **newer})
    target = {"queue": queue, "message": {}, **newer}
    scheduled = client.put(QueueSchedule, f"s-{queue}", every="1h", target=target, **newer)
    preview = client.read(Preview, 200, "POST", "/v1/previews", {"every": "1h", **newer})

    assert (made.queue_name, published.queues_matched) == (queue, 1)
    assert (scheduled.target, preview.cron) == (QueueTarget(queue, {}), "0 * * * *")
    client.call("DELETE", f"/v1/schedules/s-{queue}")


def test_wildcards_match_words(client: Client) -> None:
    one, many = client.new_queue(), client.new_queue()
    client.subscribe(f"{one}.star.*", queue_name=one)
    client.subscribe(f"{one}.star.#", queue_name=many)

    matched = [client.publish(f"{one}.star.{rest}", 1).queues_matched for rest in ("foo", "foo.bar")]

    assert matched == [2, 1]
    assert [len(client.received(queue)) for queue in (one, many)] == [1, 2]


# Schedules


def test_the_client_of_schedules_puts_lists_pauses_and_deletes(client: Client) -> None:
    name = f"s-{new_name()}".lower()
    target = {"queue": "made-later", "message": {"task": "ping"}}

    made = client.put(QueueSchedule, name, every="5m", target=target)
    again = client.put(QueueSchedule, name, status=200, every="5m", target=target)
    paused = client.read(QueueSchedule, 200, "PATCH", f"/v1/schedules/{name}", {"status": "paused"})

    assert (made.name, made.status, made.expression, made.cron) == (name, "active", "5m", "*/5 * * * *")
    assert (made.target, made.jitter_secs, made.fire_count) == (QueueTarget("made-later", {"task": "ping"}), 0, 0)
    assert made.next_fires[0] == made.next_fire_at
    assert again == made
    assert (paused.status, paused.next_fire_at) == ("paused", made.next_fire_at)
    for status, names in (("paused", [name]), ("active", [])):
        found = client.read(list[QueueSchedule], 200, "GET", f"/v1/schedules?status={status}&name_prefix={name}")
        assert [one.name for one in found] == names
    resumed = client.read(QueueSchedule, 200, "PATCH", f"/v1/schedules/{name}", {"status": "active"})
    assert (resumed.status, len(resumed.next_fires)) == ("active", 5)
    assert client.call("DELETE", f"/v1/schedules/{name}").status == 204
    assert client.call("GET", f"/v1/schedules/{name}").status == 404
    assert client.call("DELETE", f"/v1/schedules/{name}").status == 204


def test_a_put_of_another_expression_moves_the_next_fire(client: Client) -> None:
    name, target = new_name().lower(), {"queue": client.new_queue(), "message": {}}

    first = client.put(QueueSchedule, name, cron="0 9 * * *", target=target)
    second = client.put(QueueSchedule, name, status=200, cron="0 12 * * *", target=target)

    assert (first.cron, second.cron) == ("0 9 * * *", "0 12 * * *")
    assert first.next_fire_at != second.next_fire_at
    taken = client.call("POST", "/v1/schedules", {"name": name, "cron": "0 9 * * *", "target": target})
    assert (taken.status, taken.headers["x-sqew-error"]) == (409, "schedule_exists")


def test_a_run_by_hand_is_counted_and_marked(client: Client) -> None:
    name, queue = new_name().lower(), client.new_queue()
    target = {"queue": queue, "message": {"k": "v"}, "headers": {"by": "cron"}}
    spec = {"name": name, "cron": "0 9 1 1 *", "jitter_secs": 30, "target": target}
    before = client.read(QueueSchedule, 201, "POST", "/v1/schedules", spec)

    run = client.read(RunResult, 202, "POST", f"/v1/schedules/{name}/runs", {})
    after = client.read(QueueSchedule, 200, "GET", f"/v1/schedules/{name}")

    (message,) = client.received(queue)
    assert (run.schedule_name, run.out_of_band, run.msg_ids) == (name, True, [message["id"]])
    assert (message["headers"]["by"], message["headers"]["_schedule"]["out_of_band"]) == ("cron", True)
    assert (after.fire_count, after.next_fire_at, after.jitter_secs) == (1, before.next_fire_at, 30)
    assert after.last_fired_at is not None
    assert after.last_fired_at >= run.fired_at


def test_a_run_whose_queue_is_not_there_is_not_taken_for_a_name_that_is(client: Client) -> None:
    # Of any 409 the client says that a schedule of this name exists.
    name, queue = new_name().lower(), new_name().lower()
    client.put(QueueSchedule, name, every="1h", target={"queue": queue, "message": {}})

    refused = client.call("POST", f"/v1/schedules/{name}/runs")
    client.call("POST", "/v1/queues", {"name": queue, "fifo": False})
    run = client.read(RunResult, 202, "POST", f"/v1/schedules/{name}/runs")

    assert (refused.status, refused.json["code"]) == (404, "queue_not_found")
    assert len(run.msg_ids) == 1


def test_what_fires_once_says_so_and_is_gone(client: Client) -> None:
    name, queue = new_name().lower(), client.new_queue()
    # As chrono writes it, with nine digits.
    at = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.%f123+00:00")

    made = client.put(QueueSchedule, name, fire_at=at, target={"queue": queue, "message": {"kind": "once"}})

    (message,) = client.received(queue, wait=20)
    mark = message["headers"]["_schedule"]
    assert (made.cron, made.fire_at is not None) == (None, True)
    assert (message["message"], mark["name"], mark["out_of_band"]) == ({"kind": "once"}, name, False)
    assert client.call("GET", f"/v1/schedules/{name}").status == 404


def test_a_schedule_for_a_queue_that_never_comes_fails_and_is_paused_with_its_slot(client: Client) -> None:
    name = new_name().lower()
    at = (datetime.now(UTC) + timedelta(seconds=1)).isoformat(timespec="milliseconds")
    target = {"queue": "this_queue_does_not_exist", "message": {}}
    client.put(QueueSchedule, name, fire_at=at, failure_threshold=1, target=target)

    def seen() -> QueueSchedule | None:
        shown = client.read(QueueSchedule, 200, "GET", f"/v1/schedules/{name}")
        return shown if shown.status == "paused" else None

    paused = eventually(seen)

    assert paused is not None
    assert (paused.consecutive_failures, paused.fire_count) == (1, 0)
    assert paused.last_error is not None
    assert paused.last_error.startswith("Queue 'this_queue_does_not_exist' does not exist")
    assert paused.fire_at == paused.next_fire_at


@pytest.mark.parametrize(
    ("spec", "fire_at"),
    [
        ({"cron": "0 9 * * 1-5", "timezone": "America/New_York"}, False),
        ({"every": "30m"}, False),
        ({"when": "hourly at :30"}, False),
        ({"fire_at": "2099-01-01T00:00:00Z"}, True),
    ],
)
def test_a_preview_has_its_types_for_each_kind_of_expression(client: Client, spec: Any, fire_at: bool) -> None:
    preview = client.read(Preview, 200, "POST", "/v1/previews", spec)

    assert preview.timezone == spec.get("timezone", "UTC")
    assert (preview.cron is None, preview.fire_at is not None) == (fire_at, fire_at)
    assert len(preview.next_fires) == (1 if fire_at else 5)


# SNS in JSON


def test_the_calls_of_sns_need_no_topic_to_be_made(client: Client) -> None:
    queue = client.new_queue()
    topic = f"{TOPICS}{queue}.*"
    named = f"arn:aws:sqs:us-east-1:000000000000:{queue}"

    arn = client.sns("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=named)["SubscriptionArn"]
    published = client.sns("Publish", TopicArn=f"{TOPICS}{queue}.test", Message='{"before":"unsub"}')

    assert queue in arn
    assert published["MessageId"]
    (message,) = client.received(queue)
    assert message["message"]["Message"] == '{"before":"unsub"}'
    listed = client.sns("ListSubscriptionsByTopic", TopicArn=topic)["Subscriptions"]
    assert [one["SubscriptionArn"] for one in listed] == [arn]
    assert client.sns("GetSubscriptionAttributes", SubscriptionArn=arn)["Attributes"]["TopicArn"] == topic
    client.sns("Unsubscribe", SubscriptionArn=arn)
    client.sns("Publish", TopicArn=f"{TOPICS}{queue}.test", Message='{"after":"unsub"}')
    assert client.received(queue) == []


def test_a_queue_subscribes_to_a_topic_by_its_url_and_is_shown_by_it(client: Client) -> None:
    queue = client.new_queue()
    url = f"{client.url}/000000000000/{queue}"
    topic = client.sns("CreateTopic", Name=f"topic_{queue}")["TopicArn"]

    arns = [client.sns("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=url)["SubscriptionArn"] for _ in range(2)]
    attributes = client.sns("GetSubscriptionAttributes", SubscriptionArn=arns[0])["Attributes"]
    client.sns("ConfirmSubscription", TopicArn=topic, Token="any-token")
    client.sns("Publish", TopicArn=topic, Message="hello", Subject="my-subject")

    assert topic == f"{TOPICS}topic_{queue}"
    assert arns[0] == arns[1]
    assert arns[0].startswith(f"{topic}:{queue}")
    assert [attributes[name] for name in ("Protocol", "Endpoint", "TopicArn")] == ["sqs", url, topic]
    (listed,) = client.sns("ListSubscriptionsByTopic", TopicArn=topic)["Subscriptions"]
    assert [listed[name] for name in ("SubscriptionArn", "TopicArn", "Endpoint")] == [arns[0], topic, url]
    (message,) = client.received(queue)
    said = [message["message"][name] for name in ("Type", "TopicArn", "Message", "Subject")]
    assert said == ["Notification", topic, "hello", "my-subject"]
    client.sns("DeleteTopic", TopicArn=topic)
    assert client.subscriptions(f"topic_{queue}") == []


# Endpoints


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def posting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield a client of a server that posts to this machine."""
    folder = tmp_path_factory.mktemp("posting")
    with serving(folder, "--durability", "fast", "--delivery-allow", "127.0.0.0/8") as server:
        yield Client(server)


def test_the_worker_of_schedules_registers_its_endpoint_and_leaves_no_old_one(posting: Client, hook: Hook) -> None:
    name, orphan = f"job-{new_name()}".lower(), f"orphan-{new_name()}".lower()
    topic, current = f"__cron_{name}", hook.url(f"/__cron/{name}")
    posting.put(TopicSchedule, orphan, every="1h", target={"topic": f"__cron_{orphan}", "message": {}})
    posting.subscribe(topic, protocol="http", endpoint="http://127.0.0.1:9/old", envelope=False)

    made = posting.put(TopicSchedule, name, every="1h", target={"topic": topic, "message": {}})
    for old in posting.subscriptions(topic):
        assert posting.call("DELETE", f"/v1/events/{topic}/subscriptions/{old.id}").status == 204
    posting.subscribe(topic, protocol="http", endpoint=current, envelope=False)
    known = posting.read(list[TopicSchedule], 200, "GET", "/v1/schedules?target_kind=topic")
    for one in known:
        if one.target.topic.startswith("__cron_") and one.name != name:
            assert posting.call("DELETE", f"/v1/schedules/{one.name}").status == 204
    run = posting.read(RunResult, 202, "POST", f"/v1/schedules/{name}/runs")

    assert made.target == TopicTarget(topic, {})
    assert {one.name for one in known} >= {name, orphan}
    assert [(one.protocol, one.endpoint) for one in posting.subscriptions(topic)] == [("http", current)]
    assert posting.call("GET", f"/v1/schedules/{orphan}").status == 404
    (posted,) = hook.wait_for(f"/__cron/{name}")
    assert (run.msg_ids, posted.body) == ([], b"{}")


@pytest.mark.parametrize("enveloped", [False, True])
def test_an_endpoint_gets_json_whatever_the_protocol_was_called(posting: Client, hook: Hook, enveloped: bool) -> None:
    key = new_name().lower()

    made = posting.subscribe(f"{key}.*", protocol="https", endpoint=hook.url(f"/{key}"), envelope=enveloped)
    published = posting.publish(f"{key}.placed", {"id": 42})

    (posted,) = hook.wait_for(f"/{key}")
    body = msgspec.json.decode(posted.body)
    assert (made.protocol, made.queue_name, made.raw_delivery) == ("http", None, not enveloped)
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["x-amz-sns-message-type"] == "Notification"
    assert (msgspec.json.decode(body["Message"]) if enveloped else body) == {"id": 42}
    # Endpoints are no queues.
    assert published == PublishResult(0, [])
