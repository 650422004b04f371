"""Signature Version 4: botocore's signatures are accepted, and no others."""

import contextlib
import hashlib
import time
from urllib.parse import quote, urlencode

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import (
    AwsAuthError,
    BadSetting,
    IncompleteSignature,
    InvalidClientTokenId,
    MissingAuthenticationToken,
    RequestExpired,
    SignatureDoesNotMatch,
)
from sqew.http.dialects.aws.sigv4 import Scope, Verifier, credentials_of, scope_of
from tests.http.dialects.aws.aws_signed import (
    BODY,
    KEY,
    NOW,
    SCOPE,
    SECRET,
    TARGET,
    presigned,
    presigned_by_boto3,
    sent_by_boto3,
    sign,
    signed,
)


def check(sent, now=NOW):
    return Verifier({KEY: SECRET, "other": "secret"}).check(*sent, now)


def refused(kind, sent, now=NOW):
    with pytest.raises(kind) as caught:
        check(sent, now)
    assert caught.type is kind
    return str(caught.value)


def test_a_request_that_is_signed_in_its_header_is_accepted():
    assert check(signed()) == SCOPE


def test_a_presigned_request_is_accepted():
    assert check(presigned()) == SCOPE


def test_the_signature_of_a_plain_request_is_the_one_that_botocore_makes():
    credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    request = AWSRequest("GET", "http://example.amazonaws.com/")
    sent = sign(request, SigV4Auth(credentials, "service", "us-east-1"), "20150830T123600Z")

    scope = Verifier({credentials.access_key: credentials.secret_key}).check(*sent, 1440938160)

    assert sent.authorization.startswith(
        b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        b"SignedHeaders=host;x-amz-date, Signature="
    )
    assert scope == Scope("AKIDEXAMPLE", "20150830", "us-east-1", "service")


@pytest.mark.parametrize(
    ("service", "action", "parameters"),
    [
        ("sqs", "send_message", {"QueueUrl": "http://localhost/000000000000/a", "MessageBody": "grüße"}),
        ("sns", "publish", {"TopicArn": "arn:aws:sns:eu-west-1:000000000000:a", "Message": "a b+c"}),
    ],
)
def test_what_boto3_sends_is_accepted(service, action, parameters):
    sent = sent_by_boto3(service, action, **parameters)

    assert check(sent, time.time()).service == service


def test_a_url_that_boto3_presigns_is_accepted():
    sent = presigned_by_boto3("sns", "create_topic", Name="a b+ü")

    assert check(sent, time.time()).service == "sns"


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
segments = st.lists(st.one_of(words, st.sampled_from([".", "..", "", "%", "a~b", "orders.fifo"])), max_size=4)
queries = st.lists(st.tuples(words, words), max_size=4)
targets = st.builds(
    lambda path, query: "/" + "/".join(map(quote, path)) + "?" * bool(query) + urlencode(query, quote_via=quote),
    segments,
    queries,
)
printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
blanks = st.sampled_from(["", " ", "   ", "\t"])
values = st.builds("{}{}{}{}{}".format, blanks, printable, blanks, printable, blanks)
extra = st.dictionaries(st.sampled_from(["X-One", "x-two", "X-Amz-Meta"]), values)
methods = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD"])


@given(methods, targets, extra, st.binary(max_size=64))
def test_whatever_botocore_signs_in_a_header_is_accepted(method, target, headers, body):
    assert check(signed(method, target, headers, body)) == SCOPE


@given(methods, targets, extra, st.integers(1, 604_800))
def test_whatever_botocore_presigns_is_accepted(method, target, headers, expires):
    assert check(signed(method, target, headers, b"", signer=SigV4QueryAuth, expires=expires)) == SCOPE


@given(queries)
def test_blanks_that_are_sent_as_plus_and_signed_as_percent_20_are_accepted(query):
    assert check(signed("GET", params=query)) == SCOPE


@pytest.mark.parametrize("query", ["a=2&a=1&a=10", "a", "a=", "=", "&&", "b=1&a-b=2&a=3&a~=4", "A=1&a=2&%C3%A9=3"])
def test_a_query_with_repeated_empty_and_unsorted_names_is_accepted(query):
    assert check(signed("GET", f"/?{query}")) == SCOPE


@pytest.mark.parametrize("order", [("one", "two"), ("b", "a", "b")])
def test_a_header_that_is_sent_more_than_once_is_accepted(order):
    sent = signed(headers=[("X-Thing", value) for value in order])

    assert sent.headers[b"x-thing"] == ", ".join(order).encode()
    assert check(sent) == SCOPE


def test_a_header_with_a_list_in_it_is_accepted():
    assert check(signed(headers={"X-Thing": "one,  two, three"})) == SCOPE


def test_headers_that_are_not_signed_may_come_and_change():
    sent = signed().with_header(b"user-agent", b"curl").with_header(b"x-amzn-trace-id", b"Root=1")

    assert check(sent) == SCOPE


def test_the_fields_of_the_header_may_come_in_any_order_and_without_blanks():
    algorithm, _, fields = signed().authorization.partition(b" ")
    turned = b",".join(reversed(fields.split(b", ")))

    assert check(signed().with_header(b"authorization", algorithm + b" " + turned)) == SCOPE


def test_a_request_may_be_dated_by_the_header_date_alone():
    sent = signed(headers={**TARGET, "Date": "now"})

    assert b"x-amz-date" not in sent.headers
    assert check(sent) == SCOPE


def with_one_byte_changed(text, mask):
    return [text[:at] + bytes([byte ^ mask]) + text[at + 1 :] for at, byte in enumerate(text)]


one_bit = pytest.mark.parametrize("mask", [1, 2, 128])


@one_bit
@pytest.mark.parametrize("part", ["method", "path", "query", "body"])
def test_a_request_of_which_one_byte_was_changed_is_refused(part, mask):
    sent = signed(target="/000000000000/orders?Action=SendMessage&b=%2Fx")

    for altered in with_one_byte_changed(getattr(sent, part), mask):
        refused(SignatureDoesNotMatch, sent._replace(**{part: altered}))


@one_bit
@pytest.mark.parametrize("name", [b"host", b"content-type", b"x-amz-date", b"x-amz-target", b"x-amz-security-token"])
def test_a_signed_header_of_which_one_byte_was_changed_is_refused(name, mask):
    sent = signed(token="token")

    for altered in with_one_byte_changed(sent.headers[name], mask):
        with pytest.raises(AwsAuthError):
            check(sent.with_header(name, altered))


@one_bit
def test_a_signature_of_which_one_byte_was_changed_is_refused(mask):
    sent = signed()

    for altered in with_one_byte_changed(sent.authorization, mask):
        with pytest.raises(AwsAuthError):
            check(sent.with_header(b"authorization", altered))


@one_bit
def test_a_presigned_query_of_which_one_byte_was_changed_is_refused(mask):
    sent = presigned(token="token")

    for altered in with_one_byte_changed(sent.query, mask):
        with pytest.raises(AwsAuthError):
            check(sent._replace(query=altered))


@pytest.mark.parametrize(
    ("written", "instead", "why"),
    [
        ("20260131", "20260130", "Use the same day"),
        ("eu-west-1", "us-east-1", "does not fit"),
        ("sqs", "sns", "does not fit"),
        (KEY, "other", "does not fit"),
    ],
)
def test_a_signature_for_another_day_region_service_or_key_is_refused(written, instead, why):
    sent = signed()
    authorization = sent.authorization.replace(written.encode(), instead.encode())

    assert why in refused(SignatureDoesNotMatch, sent.with_header(b"authorization", authorization))


def test_a_signature_with_another_secret_is_refused():
    assert "Check the secret" in refused(SignatureDoesNotMatch, signed(secret="wrong"))


def test_an_access_key_that_is_not_known_is_refused():
    assert "'nobody'" in refused(InvalidClientTokenId, signed(key="nobody"))


def test_a_request_that_is_not_signed_is_refused():
    refused(MissingAuthenticationToken, signed().with_header(b"authorization", None))


def test_a_signed_header_that_has_not_come_is_refused():
    assert "content-type" in refused(SignatureDoesNotMatch, signed().with_header(b"content-type", None))


@pytest.mark.parametrize("name", [b"host", b"x-amz-target", b"x-amz-security-token"])
def test_a_header_that_decides_where_a_request_goes_or_whose_it_is_must_be_signed(name):
    sent = signed(token="token")
    authorization = sent.authorization.replace(b";" + name, b"")

    sentence = refused(SignatureDoesNotMatch, sent.with_header(b"authorization", authorization))

    assert f"{name.decode()} is not signed" in sentence


def test_a_presigned_url_can_not_be_given_another_target():
    sent = presigned().with_header(b"x-amz-target", b"AmazonSQS.DeleteQueue")

    assert "x-amz-target is not signed" in refused(SignatureDoesNotMatch, sent)


@pytest.mark.parametrize("sent", [signed(), presigned()], ids=["header", "presigned"])
def test_a_token_that_was_added_after_signing_is_refused(sent):
    with_token = sent.with_header(b"x-amz-security-token", b"whatever")

    assert "x-amz-security-token is not signed" in refused(SignatureDoesNotMatch, with_token)


@pytest.mark.parametrize("ahead", [-900, 900])
def test_a_clock_that_is_a_quarter_of_an_hour_off_is_good_enough(ahead):
    assert check(signed(), NOW + ahead) == SCOPE


def test_a_signature_from_longer_ago_has_expired():
    assert refused(SignatureDoesNotMatch, signed(), NOW + 901).startswith(
        "Signature expired: 20260131T235930Z is now earlier than 20260131T235931Z (20260201T001431Z - 15 min.)"
    )


def test_a_signature_from_further_ahead_is_not_yet_current():
    assert refused(SignatureDoesNotMatch, signed(), NOW - 901).startswith(
        "Signature not yet current: 20260131T235930Z is still later than 20260131T235929Z (20260131T234429Z + 15 min.)"
    )


def test_a_presigned_url_is_good_until_it_expires():
    sent = presigned(expires=3600)

    assert check(sent, NOW + 3600) == SCOPE
    assert refused(RequestExpired, sent, NOW + 3601).startswith("Request has expired: 20260201T005930Z")


def test_a_presigned_url_from_the_future_is_refused():
    assert "not yet current" in refused(SignatureDoesNotMatch, presigned(), NOW - 901)


@pytest.mark.parametrize("expires", [0, -1, 604_801, "soon", "1e3", ""])
def test_a_presigned_url_must_say_for_how_long_it_is_good(expires):
    assert "X-Amz-Expires" in refused(IncompleteSignature, presigned(expires=expires))


@pytest.mark.parametrize("body", [BODY, b"another", b""])
def test_a_body_that_is_said_not_to_be_signed_is_refused(body):
    sent = signed(headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})

    assert "not the hash of the body" in refused(SignatureDoesNotMatch, sent._replace(body=body))


def test_a_signed_hash_must_be_that_of_the_body():
    sent = signed(headers={"X-Amz-Content-SHA256": hashlib.sha256(BODY).hexdigest()})

    assert check(sent) == SCOPE
    assert "not the hash of the body" in refused(SignatureDoesNotMatch, sent._replace(body=b"another"))


def test_a_body_that_is_signed_in_chunks_is_refused():
    sent = signed(headers={"X-Amz-Content-SHA256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"})

    assert "as a whole" in refused(IncompleteSignature, sent)


@pytest.mark.parametrize("field", ["Credential", "SignedHeaders", "Signature"])
def test_a_header_without_one_of_its_fields_is_incomplete(field):
    authorization = signed().authorization.replace(field.encode(), b"Other")

    assert f"has no {field}" in refused(IncompleteSignature, signed().with_header(b"authorization", authorization))


@pytest.mark.parametrize("name", ["Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature"])
def test_a_presigned_query_without_one_of_its_parts_or_with_two_is_incomplete(name):
    sent, name = presigned(), f"X-Amz-{name}"
    part = next(pair for pair in sent.query.split(b"&") if pair.startswith(name.encode()))

    assert f"has no {name}" in refused(IncompleteSignature, sent._replace(query=sent.query.replace(part, b"a=b")))
    assert f"{name} more than once" in refused(IncompleteSignature, sent._replace(query=sent.query + b"&" + part))


@pytest.mark.parametrize("date", [b"", b"now", b"20260131", b"20261331T000000Z", b"2026-01-31T23:59:30Z", b"\xff" * 16])
def test_a_date_that_can_not_be_read_is_incomplete(date):
    assert "date can't be read" in refused(IncompleteSignature, signed().with_header(b"x-amz-date", date))


def test_a_request_without_a_signed_date_is_incomplete():
    sent = signed()
    unsigned = sent.authorization.replace(b"x-amz-date;", b"")

    assert "has no date" in refused(IncompleteSignature, sent.with_header(b"x-amz-date", None))
    assert "x-amz-date is not signed" in refused(IncompleteSignature, sent.with_header(b"authorization", unsigned))


words_of_signatures = st.sampled_from([b"AWS4-HMAC-SHA256 ", b"Credential=", b"=", b",", b";", b"%"])
junk = st.binary(max_size=40) | words_of_signatures


@given(st.data())
def test_nothing_malformed_raises_anything_but_what_aws_would_answer(data):
    sent = data.draw(st.sampled_from([signed(), presigned(), signed(headers={"Date": "now"})]))
    for name in data.draw(st.sets(st.sampled_from([*sorted(sent.headers), b"x-amz-content-sha256"]), max_size=3)):
        sent = sent.with_header(name, spoilt(data, sent.headers.get(name, b"")))
    sent = sent._replace(query=spoilt(data, sent.query), path=spoilt(data, sent.path))

    with contextlib.suppress(AwsAuthError):
        check(sent)
    with contextlib.suppress(AwsAuthError):
        scope_of(sent.headers.get(b"authorization"), sent.query)


def spoilt(data, text):
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    return text[:start] + data.draw(junk) + text[end:]


def test_the_scope_is_read_from_either_form():
    assert scope_of(signed().authorization, b"") == SCOPE
    assert scope_of(None, presigned().query) == SCOPE


def test_a_request_that_is_not_signed_has_no_scope():
    assert scope_of(None, b"Action=ListQueues&MessageBody=X-Amz-Credential") is None


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "AKID",
        "AKID/20260131/eu-west-1/sqs",
        "AKID/2026/eu-west-1/sqs/aws4_request",
        "AKID/20260131//sqs/aws4_request",
        "AKID/20260131/eu west/sqs/aws4_request",
        "/20260131/eu-west-1/sqs/aws4_request",
        "é/20260131/eu-west-1/sqs/aws4_request",
    ],
)
def test_a_credential_that_can_not_be_read_is_incomplete(credential):
    with pytest.raises(IncompleteSignature):
        scope_of(f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host".encode(), b"")
    with pytest.raises(IncompleteSignature):
        scope_of(None, b"X-Amz-Credential=" + quote(credential, safe="").encode())


@pytest.mark.parametrize("authorization", [b"", b"Bearer token", b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256-SHA256 a"])
def test_another_kind_of_authorization_is_incomplete(authorization):
    with pytest.raises(IncompleteSignature):
        scope_of(authorization, b"")


def test_credentials_are_pairs_with_commas_between():
    assert credentials_of(f" {KEY}:{SECRET} , other:a:b ") == {KEY: SECRET, "other": "a:b"}
    assert credentials_of(" ") == {}


@pytest.mark.parametrize("setting", ["a:b,hush", "a:b,:hush", "a:b,c:", "a:b,", "a:b,a:hush", "a:b,c d:hush"])
def test_credentials_that_can_not_be_read_are_refused_by_position_and_stay_secret(setting):
    with pytest.raises(BadSetting, match="pair 2") as caught:
        credentials_of(setting)

    assert "hush" not in str(caught.value)
