"""Requests signed by botocore and boto3, as a server receives them."""

import calendar
import time
from typing import NamedTuple
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sqew.http.dialects.aws.sigv4 import Scope

KEY, SECRET = "AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG=bPxRfiCYEXAMPLEKEY"
AT = "20260131T235930Z"
NOW = calendar.timegm(time.strptime(AT, "%Y%m%dT%H%M%SZ"))
HOST = "127.0.0.1:8888"
SCOPE = Scope(KEY, "20260131", "eu-west-1", "sqs")
TARGET = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
BODY = b'{"QueueUrl":"http://127.0.0.1:8888/000000000000/orders","MessageBody":"hi"}'


class Sent(NamedTuple):
    """A request as a server receives it."""

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes

    def with_header(self, name: bytes, value: bytes | None) -> "Sent":
        headers = {known: given for known, given in self.headers.items() if known != name}
        return self._replace(headers=headers if value is None else {**headers, name: value})

    @property
    def authorization(self) -> bytes:
        return self.headers[b"authorization"]


def signed(
    method="POST", target="/", headers=TARGET, body=BODY, at=AT, params=None, signer=SigV4Auth, token=None, **options
):
    """Return a request that botocore signed at that time. ``headers`` may be pairs, to repeat one."""
    credentials = Credentials(options.pop("key", KEY), options.pop("secret", SECRET), token)
    auth = signer(credentials, "sqs", "eu-west-1", **options)
    request = AWSRequest(method, f"http://{HOST}{target}", data=body, params=params)
    for name, value in headers.items() if isinstance(headers, dict) else headers:
        request.headers.add_header(name, value)
    return sign(request, auth, at)


def sign(request, auth, at=AT):
    # As add_auth does it, at a time of our choice.
    request.context["timestamp"] = at
    auth._modify_request_before_signing(request)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(text, request))
    return arrived(request.prepare(), request.headers)


def arrived(request, sent_headers):
    """Return the request as the server receives it: names in lower case, both values of a name that was sent twice."""
    url = urlsplit(request.url)
    headers = {b"host": url.netloc.encode()}
    for name, value in sent_headers.items():
        name, value = name.lower().encode(), value if isinstance(value, bytes) else value.encode()
        headers[name] = headers[name] + b", " + value.strip() if name in headers else value.strip()
    body = request.body or b""
    body = body if isinstance(body, bytes) else body.encode()
    return Sent(request.method.encode(), url.path.encode() or b"/", url.query.encode(), headers, body)


def presigned(target="/000000000000/orders?Action=ReceiveMessage", expires=60, **options):
    return signed("GET", target, {}, b"", signer=SigV4QueryAuth, expires=expires, **options)


class Caught(Exception):
    """An exception that carries a request out of boto3 in place of an answer."""


def sent_by_boto3(service, action, **parameters):
    def catch(request, **_):
        raise Caught(request)

    client = boto3_client(service)
    client.meta.events.register("before-send", catch)
    with pytest.raises(Caught) as caught:
        getattr(client, action)(**parameters)
    return arrived(caught.value.args[0], caught.value.args[0].headers)


def presigned_by_boto3(service, action, **parameters):
    url = urlsplit(boto3_client(service).generate_presigned_url(action, parameters))
    return Sent(b"POST", b"/", url.query.encode(), {b"host": HOST.encode()}, b"")


def boto3_client(service):
    return boto3.client(
        service,
        endpoint_url=f"http://{HOST}",
        region_name="eu-west-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        aws_session_token="token",
    )
