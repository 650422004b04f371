"""Envelopes and their certificates over a real socket, and permissions for events."""

import json

import pytest

from sqew import EnvelopeVerifier
from sqew.errors import BadSignature
from tests.http.webhooks import FLAGS, new_key, publish, subscribe
from tests.support.endpoint import endpoint
from tests.support.serving import serving

TOKEN = "a-token-for-the-test"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def hook():
    with endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("certificates"), *FLAGS) as running:
        yield running


def verifier(server):
    """Return a verifier that fetches the certificate from the URL in the envelope."""
    return EnvelopeVerifier(cert_hosts=[f"{server.host}:{server.port}"], allow_http=True)


def posted(server, hook, **fields):
    """Publish an event, and return the request that is posted with its envelope."""
    key = new_key()
    subscribe(server, key, endpoint=hook.url(f"/{key}"), envelope=True, **fields)
    publish(server, key, {"sku": 7})
    return hook.wait_for(f"/{key}")[0]


def certificate(server, path="/v1/cert"):
    answer = server.call("GET", path)
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == "application/x-pem-file"
    return answer.body


# Envelopes


@pytest.mark.parametrize("version", [1, 2])
def test_an_envelope_is_accepted_by_our_own_verifier(server, hook, version):
    request = posted(server, hook, signature_version=version)

    notice = verifier(server).verify(request.body)

    assert json.loads(request.body)["SignatureVersion"] == str(version)
    assert notice.message == '{"sku": 7}'
    assert notice.message_id == request.headers["x-amz-sns-message-id"]
    assert notice.topic_arn == f"arn:aws:sns:us-east-1:000000000000:{request.headers['x-sqew-routing-key']}"


def test_an_envelope_is_accepted_with_the_certificate_in_use(server, hook):
    pinned = EnvelopeVerifier(certificate=certificate(server))

    assert pinned.verify(posted(server, hook).body).message == '{"sku": 7}'


def test_an_envelope_that_was_changed_on_its_way_is_refused(server, hook):
    changed = posted(server, hook).body.replace(b"sku", b"SKU")

    with pytest.raises(BadSignature, match="The signature does not fit"):
        verifier(server).verify(changed)


def test_an_envelope_says_where_others_reach_the_server(tmp_path, hook):
    base_url = "https://queue.example.com/"
    with serving(tmp_path, *FLAGS, "--base-url", base_url, "--account-id", "123456789012") as server:
        envelope = json.loads(posted(server, hook).body)
        (listed,) = server.call("GET", "/v1/certificates").json

    assert envelope["SigningCertURL"] == listed["url"]
    assert listed["url"].startswith(f"{base_url}v1/certificates/SimpleNotificationService-")
    assert envelope["TopicArn"].startswith("arn:aws:sns:us-east-1:123456789012:")


# Certificates


def test_the_certificate_in_use_is_where_envelopes_and_sns_have_it(server):
    (in_use, *_) = server.call("GET", "/v1/certificates").json

    ours, as_sns = certificate(server), certificate(server, "/SimpleNotificationService.pem")
    by_url = certificate(server, in_use["url"].removeprefix(server.url))

    assert ours.startswith(b"-----BEGIN CERTIFICATE-----")
    assert ours == as_sns == by_url


def test_the_certificate_stays_the_same_across_a_restart(tmp_path):
    with serving(tmp_path, *FLAGS) as server:
        before = certificate(server)
        server.stop()
    with serving(tmp_path, *FLAGS) as server:
        after = certificate(server)

    assert before == after


def test_a_new_key_keeps_the_certificate_of_the_old_one(server, hook):
    old, old_certificate = posted(server, hook).body, certificate(server)

    rotated = server.call("POST", "/v1/certificates")
    new = posted(server, hook).body

    assert rotated.status == 201
    assert json.loads(new)["SigningCertURL"] == rotated.json["url"]
    assert certificate(server) != old_certificate
    assert [verifier(server).verify(envelope).message for envelope in (old, new)] == ['{"sku": 7}'] * 2
    with pytest.raises(BadSignature):
        EnvelopeVerifier(certificate=old_certificate).verify(new)


def test_certificates_are_listed_the_one_in_use_first(server):
    before = server.call("GET", "/v1/certificates").json

    rotated = server.call("POST", "/v1/certificates").json

    assert server.call("GET", "/v1/certificates").json == [rotated, *before]


@pytest.mark.parametrize("file", ["SimpleNotificationService-00.pem", "..%2F..%2Fcert", "x" * 200])
def test_an_unknown_certificate_is_not_found(server, file):
    answer = server.call("GET", f"/v1/certificates/{file}")

    assert answer.status == 404
    assert answer.json["error"].endswith("The one in use is at /v1/cert.")


# Who may


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Yield a server with a token."""
    with serving(tmp_path_factory.mktemp("guarded"), *FLAGS, env={"SQEW_AUTH_TOKEN": TOKEN}) as running:
        yield running


@pytest.fixture(scope="module")
def key(guarded):
    """Return the headers of a request with a queue's key that has every scope."""
    assert guarded.call("POST", "/queues", {"name": "orders"}, ADMIN).status == 201
    made = guarded.call("POST", "/queues/orders/keys", {"scopes": ["admin"]}, ADMIN)
    return {"Authorization": f"Bearer {made.json['key']}"}


NOT_ABOUT_ONE_QUEUE = [
    ("POST", "/v1/events/orders.new"),
    ("POST", "/v1/events/orders.new/subscriptions"),
    ("GET", "/v1/events/orders.new/subscriptions"),
    ("DELETE", "/v1/events/orders.new/subscriptions/1"),
    ("GET", "/v1/subscriptions"),
    ("DELETE", "/v1/subscriptions/1"),
    ("GET", "/v1/deliveries"),
    ("DELETE", "/v1/deliveries"),
    ("POST", "/v1/deliveries/retry"),
    ("GET", "/v1/deliveries/1"),
    ("DELETE", "/v1/deliveries/1"),
    ("POST", "/v1/deliveries/1/retry"),
    ("POST", "/v1/schedules"),
    ("GET", "/v1/schedules"),
    ("GET", "/v1/schedules/nightly"),
    ("PUT", "/v1/schedules/nightly"),
    ("PATCH", "/v1/schedules/nightly"),
    ("DELETE", "/v1/schedules/nightly"),
    ("POST", "/v1/schedules/nightly/runs"),
    ("POST", "/v1/previews"),
    ("GET", "/v1/certificates"),
    ("POST", "/v1/certificates"),
]


@pytest.mark.parametrize(("method", "path"), NOT_ABOUT_ONE_QUEUE)
def test_what_is_not_about_one_queue_needs_the_servers_token(guarded, key, method, path):
    without = guarded.call(method, path)
    with_key = guarded.call(method, path, headers=key)

    assert (without.status, without.headers["x-sqew-error"]) == (403, "unauthorized")
    assert with_key.status == 403
    assert with_key.json["error"].endswith("this is not about one queue. Use the server's token.")


def test_a_queues_key_shows_the_subscriptions_of_its_queue_alone(guarded, key):
    other = guarded.call("POST", "/queues", {"name": "invoices"}, ADMIN)
    made = guarded.call("POST", "/v1/events/orders.new/subscriptions", {"queue_name": "orders"}, ADMIN)

    own = guarded.call("GET", "/v1/queues/orders/subscriptions", headers=key)
    others = guarded.call("GET", "/v1/queues/invoices/subscriptions", headers=key)

    assert other.status == 201
    assert (own.status, own.json) == (200, [made.json])
    assert others.status == 403


@pytest.mark.parametrize("path", ["/v1/cert", "/SimpleNotificationService.pem"])
def test_whoever_gets_envelopes_gets_the_certificate_without_a_token(guarded, path):
    assert certificate(guarded, path).startswith(b"-----BEGIN CERTIFICATE-----")


def test_an_old_certificate_needs_no_token_either(guarded):
    (in_use,) = guarded.call("GET", "/v1/certificates", headers=ADMIN).json

    assert certificate(guarded, in_use["url"].removeprefix(guarded.url)) == certificate(guarded)
