"""A validator that receivers of SNS notifications use accepts our envelopes: AWS's own sns-validator, in Node.js."""

import contextlib
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

import boto3
import pytest
import trustme

from sqew.envelopes.signing import envelope, new_signing_key
from sqew.model import Notice, SigningKey
from tests.support.canned_server import CannedServer
from tests.support.endpoint import endpoint
from tests.support.serving import serving

HERE = Path(__file__).parent
PACKAGES = HERE.parents[2] / ".node" / "node_modules"
NOW = 1_700_000_000_123
ARN = "arn:aws:sns:us-east-1:000000000000:orders.new"


class Signing(NamedTuple):
    """A server that signs: its key, its certificate's URL, and the authority that vouches for its https."""

    key: SigningKey
    cert_url: str
    authority: Path

    def envelope(self, version, message="hi", subject=None):
        return envelope(Notice("0b9c2f1e", ARN, message, NOW, subject), self.key, self.cert_url, version)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def signing(tmp_path_factory, authority):
    """Yield a server that signs."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    trusted = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    key = new_signing_key(NOW)
    with CannedServer((200, key.certificate)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        base_url = f"https://localhost:{server.server_port}"
        yield Signing(key, f"{base_url}/SimpleNotificationService-{key.id}.pem", trusted)


@pytest.fixture(scope="module")
def complaints(signing):
    """Return a function that runs sns-validator: for each envelope it returns None, or the complaint."""
    node = shutil.which("node")
    if node is None or not (PACKAGES / "sns-validator").is_dir():
        pytest.fail("Node.js or its package sns-validator is missing. Run this through `python3 dev test`, once.")

    def complaints(*envelopes, hosts=r"^localhost:\d+$"):
        done = subprocess.run(
            [node, HERE / "validate.js", hosts],
            input=json.dumps([line.decode() for line in envelopes]),
            env={**os.environ, "NODE_PATH": str(PACKAGES), "NODE_EXTRA_CA_CERTS": str(signing.authority)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return complaints


@pytest.mark.parametrize("version", [1, 2])
def test_it_accepts_envelopes_of_each_version(signing, complaints, version):
    messages = ["hi", "", "two\nlines\n", "größer — 好 🎉", '{"sku":7,"path":"a/b"}', "\x00\x7f\u2028", "x" * 200_000]

    said = complaints(
        *[signing.envelope(version, message) for message in messages],
        *[signing.envelope(version, subject=subject) for subject in ("news", "", "好")],
    )

    assert said == [None] * 10


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "change",
    [
        {"Message": "ho"},
        {"MessageId": "0b9c2f1f"},
        {"Subject": "olds"},
        {"Timestamp": "2023-11-14T22:13:20.124Z"},
        {"TopicArn": ARN + "er"},
    ],
    ids="".join,
)
def test_it_refuses_an_envelope_that_was_changed(signing, complaints, version, change):
    changed = {**json.loads(signing.envelope(version, subject="news")), **change}

    assert complaints(json.dumps(changed).encode()) == ["The message signature is invalid."]


def test_it_refuses_a_signature_that_is_said_to_be_of_the_other_version(signing, complaints):
    swapped = [
        signing.envelope(version).replace(b'"SignatureVersion":"%d"' % version, b'"SignatureVersion":"%d"' % other)
        for version, other in ((1, 2), (2, 1))
    ]

    assert complaints(*swapped) == ["The message signature is invalid."] * 2


def test_it_refuses_what_another_key_signed(signing, complaints):
    foreign = signing._replace(key=new_signing_key(NOW))

    assert complaints(foreign.envelope(2)) == ["The message signature is invalid."]


def test_it_refuses_the_certificate_of_a_host_that_is_not_the_senders(signing, complaints):
    said = complaints(signing.envelope(2), hosts=re.escape("queue.example.com"))

    assert said == ["The certificate is located on an invalid domain."]


def test_it_refuses_the_certificate_of_a_server_without_https(signing, complaints):
    plain = signing._replace(cert_url=signing.cert_url.replace("https:", "http:"))

    assert complaints(plain.envelope(2)) == ["The certificate is located on an invalid domain."]


@pytest.fixture(scope="module")
def server(tmp_path_factory, authority):
    """Yield a real server, over https."""
    folder = tmp_path_factory.mktemp("server")
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    tls = ("--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    with serving(folder, "--durability", "fast", "--delivery-allow", "127.0.0.1", *tls) as server:
        yield server


@pytest.fixture(scope="module")
def ask(server, authority):
    """Return a function that sends it a request and returns the status of the answer."""
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def ask(method, path, body=None):
        connection = http.client.HTTPSConnection(server.host, server.port, timeout=20, context=context)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            return connection.getresponse().status

    return ask


@pytest.fixture(scope="module")
def post(ask):
    def post(path, body):
        assert ask("POST", path, json.dumps(body)) == 201

    return post


@pytest.mark.parametrize("version", [1, 2])
def test_it_accepts_what_a_real_server_posts_to_a_real_endpoint(post, complaints, version):
    key, message = f"orders.created.v{version}", {"name": "größer — 好 🎉", "lines": "a\nb"}

    with endpoint() as hook:
        subscription = {"endpoint": hook.url("/"), "envelope": True, "signature_version": version}
        post(f"/v1/events/{key}/subscriptions", subscription)
        post(f"/v1/events/{key}", {"message": message})
        (posted,) = hook.wait_for("/")

    assert json.loads(posted.body)["SignatureVersion"] == str(version)
    assert complaints(posted.body, hosts=r"^127\.0\.0\.1:\d+$") == [None]
    assert complaints(posted.body.replace(b"lines", b"lives"), hosts=r"^127\.0\.0\.1:\d+$") != [None]


@pytest.mark.parametrize("version", [1, 2])
def test_it_accepts_what_sns_sends_to_an_endpoint_and_to_a_queue(server, signing, ask, complaints, version):
    with contextlib.ExitStack() as stack:
        sns, sqs = [stack.enter_context(contextlib.closing(_aws(name, server, signing))) for name in ("sns", "sqs")]
        hook = stack.enter_context(endpoint())
        topic = sns.create_topic(Name=f"orders-{version}", Attributes={"SignatureVersion": str(version)})["TopicArn"]
        url = sqs.create_queue(QueueName=f"orders-{version}")["QueueUrl"]
        queue = f"arn:aws:sqs:us-east-1:000000000000:orders-{version}"
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue)
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=hook.url("/"))
        (asked,) = hook.wait_for("/")
        assert ask("GET", json.loads(asked.body)["SubscribeURL"].removeprefix(server.url)) == 200
        attributes = {"shop": {"DataType": "String", "StringValue": "eu"}}
        sns.publish(TopicArn=topic, Message="größer — 好 🎉", Subject="News", MessageAttributes=attributes)
        _, posted = hook.wait_for("/", 2)
        [message] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]

    said = complaints(asked.body, posted.body, message["Body"].encode(), hosts=r"^127\.0\.0\.1:\d+$")

    assert json.loads(asked.body)["SignatureVersion"] == str(version)
    assert said == [None, None, None]


def _aws(service, server, signing):
    """Return boto3's client of a service."""
    keys = {"aws_access_key_id": "anybody", "aws_secret_access_key": "anything", "region_name": "us-east-1"}
    return boto3.client(service, endpoint_url=server.url, verify=str(signing.authority), **keys)
