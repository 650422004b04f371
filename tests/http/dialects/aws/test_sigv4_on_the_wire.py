"""Authentication by signatures, which real clients make and a real server checks."""

import json
import time
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import answer_to, raw, raw_json
from tests.support.serving import serving

KEY, SECRET = "AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG=bPxRfiCYEXAMPLEKEY"
TOKEN = "the-servers-own-token"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Yield a server with credentials."""
    folder = tmp_path_factory.mktemp("guarded")
    with serving(folder, "--durability", "fast", env={"SQEW_AWS_CREDENTIALS": f"{KEY}:{SECRET}, other:one"}) as server:
        yield server


@pytest.fixture(scope="module")
def with_token(tmp_path_factory):
    """Yield a server with a token and no credentials."""
    with serving(tmp_path_factory.mktemp("token"), "--durability", "fast", "--auth-token", TOKEN) as server:
        yield server


def test_a_token_that_ends_in_a_newline_was_another_one_for_sqs(tmp_path):
    with serving(tmp_path, "--durability", "fast", env={"SQEW_AUTH_TOKEN": f" {TOKEN}\n"}) as server:
        with signed_by(server, "sqew", TOKEN) as sqs:
            sqs.create_queue(QueueName="signed")
        answer = server.call("GET", "/queues/signed", None, {"Authorization": f"Bearer {TOKEN}"})

    assert answer.status == 200


def signed_by(server, key=KEY, secret=SECRET, region="us-east-1"):
    return client(server, "sqs", region, aws_access_key_id=key, aws_secret_access_key=secret)


def refusal(sqs):
    """Return the error code with which a call is refused."""
    with pytest.raises(ClientError) as raised:
        sqs.list_queues()
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    return raised.value.response["Error"]["Code"]


def presigned(server, action, at=None, secret=SECRET, expires=60, service="sqs", **parameters):
    """Return the path and query of a presigned URL."""
    query = {"Action": action, "Version": "2012-11-05", **parameters}
    request = AWSRequest("GET", f"{server.url}/000000000000/signed", params=query)
    auth = SigV4QueryAuth(Credentials(KEY, secret), service, "us-east-1", expires=expires)
    _sign(auth, request, at)
    url = urlsplit(request.prepare().url)
    return f"{url.path}?{url.query}"


def signed_request(server, body, at=None, target="AmazonSQS.ListQueues", service="sqs", **more):
    """Return the headers of a signed request as it would be sent."""
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0", **more}
    request = AWSRequest("POST", server.url + "/", data=body, headers=headers)
    _sign(SigV4Auth(Credentials(KEY, SECRET), service, "us-east-1"), request, at)
    prepared = request.prepare()
    return {**headers, **dict(prepared.headers), "Host": urlsplit(server.url).netloc}


def _sign(auth, request, at):
    request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at or time.time()))
    auth._modify_request_before_signing(request)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(text, request))


def get(server, target, **headers):
    return answer_to(server, raw("GET", target, authorization=None, Host=urlsplit(server.url).netloc, **headers))


def post(server, body, headers):
    authorization = headers.pop("Authorization")
    return answer_to(server, raw("POST", "/", body, authorization=authorization, **headers))


def test_who_signs_with_a_known_key_is_let_in(guarded):
    with signed_by(guarded) as sqs:
        url = sqs.create_queue(QueueName="known")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="x")

        [message] = sqs.receive_message(QueueUrl=url)["Messages"]

    assert message["Body"] == "x"


def test_every_key_that_is_configured_opens(guarded):
    with signed_by(guarded, "other", "one") as sqs:
        assert sqs.list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_a_wrong_secret_is_refused(guarded):
    with signed_by(guarded, KEY, "wrong") as sqs:
        assert refusal(sqs) == "SignatureDoesNotMatch"


def test_an_unknown_key_is_refused(guarded):
    with signed_by(guarded, "nobody", SECRET) as sqs:
        assert refusal(sqs) == "InvalidClientTokenId"


def test_no_signature_is_refused(guarded):
    answer = answer_to(guarded, raw_json("ListQueues", b"{}", authorization=None))

    assert answer.status == 403
    assert answer.json["__type"] == "com.amazonaws.sqs#MissingAuthenticationToken"


def test_a_signed_request_is_taken_by_the_bytes(guarded):
    body = b'{"QueueNamePrefix":"nothing"}'

    answer = post(guarded, body, signed_request(guarded, body))

    assert (answer.status, answer.json) == (200, {})


@pytest.mark.parametrize("changed", ["body", "action", "host"])
def test_a_request_that_was_tampered_with_is_refused(guarded, changed):
    body = b'{"QueueNamePrefix":"a"}'
    headers = signed_request(guarded, body)
    match changed:
        case "body":
            body = b'{"QueueNamePrefix":"b"}'
        case "action":
            headers["X-Amz-Target"] = "AmazonSQS.CreateQueue"
        case "host":
            headers["Host"] = "localhost"

    answer = post(guarded, body, headers)

    assert answer.status == 403
    assert answer.json["__type"] == "com.amazonaws.sqs#SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("signed_for", "target", "called"),
    [
        ("s3x", "AmazonSQS.ListQueues", "sqs"),
        ("sns", "AmazonSQS.ListQueues", "sqs"),
        ("sqs", "AmazonSNS.ListTopics", "sns"),
    ],
)
def test_a_signature_for_another_service_is_refused(guarded, signed_for, target, called):
    answer = post(guarded, b"{}", signed_request(guarded, b"{}", target=target, service=signed_for))

    assert answer.status == 403
    assert answer.json["__type"] == f"com.amazonaws.{called}#SignatureDoesNotMatch"
    assert answer.json["message"].startswith(f"Credential should be scoped to correct service: '{called}'.")


def test_a_url_that_was_presigned_for_another_service_is_refused(guarded):
    answer = get(guarded, presigned(guarded, "ReceiveMessage", service="sns"))

    assert answer.status == 403
    assert b"<Message>Credential should be scoped to correct service: 'sqs'." in answer.body


def test_each_service_is_signed_for_by_its_own_name(guarded):
    answer = post(guarded, b"{}", signed_request(guarded, b"{}", target="AmazonSNS.ListTopics", service="sns"))

    assert answer.status == 200


def test_the_body_of_a_request_that_says_it_is_not_signed_can_not_be_swapped(guarded):
    headers = signed_request(guarded, b"{}", **{"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})

    answer = post(guarded, b'{"QueueNamePrefix":"b"}', headers)

    assert answer.status == 403
    assert answer.json["__type"] == "com.amazonaws.sqs#SignatureDoesNotMatch"


@pytest.mark.parametrize("service", ["sqs", "sns"])
def test_who_signs_with_a_session_token_is_let_in(guarded, service):
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "aws_session_token": "of a session"}
    with client(guarded, service, **keys) as boto:
        answer = boto.list_queues() if service == "sqs" else boto.list_topics()

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("skew_s", [-1_000, 1_000])
def test_a_signature_of_another_time_is_refused(guarded, skew_s):
    answer = post(guarded, b"{}", signed_request(guarded, b"{}", time.time() + skew_s))

    assert answer.status == 403
    assert answer.json["__type"] == "com.amazonaws.sqs#SignatureDoesNotMatch"


@pytest.mark.parametrize("skew_s", [-800, 800])
def test_a_clock_that_is_a_little_wrong_is_forgiven(guarded, skew_s):
    answer = post(guarded, b"{}", signed_request(guarded, b"{}", time.time() + skew_s))

    assert answer.status == 200


def test_the_region_is_the_one_that_was_signed_for(guarded):
    with signed_by(guarded, region="eu-west-1") as europe, signed_by(guarded) as america:
        europe.create_queue(QueueName="regional")

        with pytest.raises(america.exceptions.QueueDoesNotExist):
            america.get_queue_url(QueueName="regional")


def test_a_presigned_url_is_good_for_a_while(guarded):
    with signed_by(guarded) as sqs:
        sqs.send_message(QueueUrl=sqs.create_queue(QueueName="signed")["QueueUrl"], MessageBody="presigned")

    answer = get(guarded, presigned(guarded, "ReceiveMessage"))

    assert answer.status == 200
    assert b"<Body>presigned</Body>" in answer.body


def test_a_presigned_url_works_on_a_page_of_another_site(guarded):
    with signed_by(guarded) as sqs:
        sqs.create_queue(QueueName="signed")

    answer = get(guarded, presigned(guarded, "ReceiveMessage"), **{"Sec-Fetch-Site": "cross-site"})

    assert answer.status == 200


def test_a_presigned_url_that_was_tampered_with_is_refused(guarded):
    target = presigned(guarded, "ReceiveMessage").replace("Action=ReceiveMessage", "Action=PurgeQueue")

    answer = get(guarded, target)

    assert answer.status == 403
    assert b"<Code>SignatureDoesNotMatch</Code>" in answer.body


def test_a_presigned_url_that_has_expired_is_refused(guarded):
    answer = get(guarded, presigned(guarded, "ReceiveMessage", at=time.time() - 120, expires=60))

    assert answer.status == 400
    assert b"<Code>RequestExpired</Code>" in answer.body


def test_the_servers_token_is_the_secret_of_the_access_key_sqew(with_token):
    with signed_by(with_token, "sqew", TOKEN) as sqs:
        assert sqs.create_queue(QueueName="mine")["QueueUrl"]


@pytest.mark.parametrize(("key", "secret"), [("sqew", "guess"), ("anybody", TOKEN)])
def test_a_server_with_a_token_is_closed_to_who_does_not_know_it(with_token, key, secret):
    with signed_by(with_token, key, secret) as sqs:
        assert refusal(sqs) in ("SignatureDoesNotMatch", "InvalidClientTokenId")


@pytest.mark.parametrize("authorization", [None, f"Bearer {TOKEN}"])
def test_a_server_with_a_token_wants_it_signed_with_and_not_sent(with_token, authorization):
    answer = answer_to(with_token, raw_json("ListQueues", b"{}", authorization=authorization))

    assert answer.status in (400, 403)
    assert answer.json["__type"].partition("#")[2] in ("MissingAuthenticationToken", "IncompleteSignature")


def test_anybody_may_come_where_there_is_nothing_to_check_by(shared_server):
    with client(shared_server, "sqs", aws_access_key_id="any", aws_secret_access_key="thing") as sqs:
        assert sqs.list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_the_region_of_an_unchecked_signature_counts_too(shared_server):
    def urls(region):
        credential = (
            f"AWS4-HMAC-SHA256 Credential=a/20260101/{region}/sqs/aws4_request, SignedHeaders=host, Signature=0"
        )
        body = json.dumps({"QueueName": f"unchecked-{region}"}).encode()
        answer_to(shared_server, raw_json("CreateQueue", body, authorization=credential))
        found = answer_to(
            shared_server, raw_json("ListQueues", b'{"QueueNamePrefix":"unchecked-"}', authorization=credential)
        )
        return [url.rpartition("/")[2] for url in found.json["QueueUrls"]]

    assert [urls(region) for region in ("eu-west-1", "us-east-1", "eu-west-1")] == [
        ["unchecked-eu-west-1"],
        ["unchecked-us-east-1"],
        ["unchecked-eu-west-1"],
    ]


def test_the_region_is_found_wherever_the_credential_stands(shared_server):
    def attributes(region):
        credential = (
            f"AWS4-HMAC-SHA256 SignedHeaders=host, Credential=a/20260101/{region}/sqs/aws4_request, Signature=0"
        )
        body = json.dumps({"QueueName": f"behind-{region}"}).encode()
        url = answer_to(shared_server, raw_json("CreateQueue", body, authorization=credential)).json["QueueUrl"]
        asked = json.dumps({"QueueUrl": url, "AttributeNames": ["QueueArn"]}).encode()
        found = answer_to(shared_server, raw_json("GetQueueAttributes", asked, authorization=credential)).json
        return found["Attributes"]["QueueArn"].split(":")[3]

    assert [attributes(region) for region in ("eu-west-1", "us-west-2")] == ["eu-west-1", "us-west-2"]
