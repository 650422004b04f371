"""SQS's two protocols by the bytes: requests as SDKs write them, and answers as SDKs read them."""

import contextlib
import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree as ET
from zlib import crc32

import boto3
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from sqew.http.dialects.aws.sqs.receipt_handles import handle_of, mark_of
from tests.support.serving import Answer, Serving

AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/sqs/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=00"
)
NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
ENTRY_NAMES = {
    # What the entries of a list are called in the Query protocol. The model that boto3 has now is for JSON.
    "AWSAccountIdList": "AWSAccountId",
    "ActionNameList": "ActionName",
    "AttributeNameList": "AttributeName",
    "MessageAttributeNameList": "MessageAttributeName",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "MessageList": "Message",
    "QueueUrlList": "QueueUrl",
    "TagKeyList": "TagKey",
    "BatchResultErrorEntryList": "BatchResultErrorEntry",
    "ListMessageMoveTasksResultEntryList": "ListMessageMoveTasksResultEntry",
    **{
        f"{action}Batch{kind}EntryList": f"{action}Batch{kind}Entry"
        for action in ("SendMessage", "DeleteMessage", "ChangeMessageVisibility")
        for kind in ("Request", "Result")
    },
}
MEMBER_NAMES = {
    "Attributes": "Attribute",
    "tags": "Tag",
    "Tags": "Tag",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "StringListValues": "StringListValue",
    "BinaryListValues": "BinaryListValue",
}


def service_model() -> ServiceModel:
    """Return boto3's model of SQS."""
    with contextlib.closing(boto3.session.Session(region_name="us-east-1").client("sqs")) as client:
        return client.meta.service_model


MODEL = service_model()
ACTIONS = sorted(MODEL.operation_names)


def _query_model() -> ServiceModel:
    """Return the model of SQS as SDKs had it before they spoke JSON."""
    described = deepcopy(MODEL._service_description)
    described["metadata"] |= {"protocol": "query", "protocols": ["query"], "xmlNamespace": NAMESPACE}
    for action in described["operations"].values():
        if "output" in action:
            action["output"]["resultWrapper"] = action["output"]["shape"]
    for name, shape in described["shapes"].items():
        if name in ENTRY_NAMES:
            shape["member"]["locationName"] = ENTRY_NAMES[name]
        if shape["type"] == "map":
            shape["key"]["locationName"] = "Key" if name == "TagMap" else "Name"
            shape["value"]["locationName"] = "Value"
        for member, written in MEMBER_NAMES.items():
            if shape["type"] == "structure" and member in shape["members"]:
                shape["members"][member]["locationName"] = written
    return ServiceModel(described, "sqs")


QUERY_MODEL = _query_model()


def form(action: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as an old SDK writes them in a form, in the same order."""
    serializer = create_serializer("query", include_validation=False)
    return serializer.serialize_to_request(parameters, QUERY_MODEL.operation_model(action))["body"]


def raw_json(action: str, body: bytes, path: str = "/", **headers: str) -> bytes:
    """Return a call in JSON, byte for byte as it goes over the wire."""
    return raw("POST", path, body, **{
        "X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0", **headers
    })  # fmt: skip


def raw_form(body: bytes, path: str = "/", **headers: str) -> bytes:
    """Return a call in the Query protocol, byte for byte as it goes over the wire."""
    return raw("POST", path, body, **{"Content-Type": "application/x-www-form-urlencoded; charset=utf-8", **headers})


def raw(
    method: str, path: str, body: bytes = b"", *, authorization: str | None = AUTHORIZATION, **headers: str
) -> bytes:
    lines = {"Host": "localhost", "Content-Length": str(len(body)), "Connection": "close", **headers}
    if authorization is not None:
        lines["Authorization"] = authorization
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def answer_to(server: Serving, request: bytes) -> Answer:
    """Send these bytes, and return the answer."""
    head, _, body = server.talk(request, timeout=30).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(body) == int(headers["content-length"])
    return Answer(int(first.split()[1]), headers, body)


def in_json(server: Serving, action: str, parameters: dict[str, Any]) -> Answer:
    return answer_to(server, raw_json(action, json.dumps(parameters).encode()))


def in_query(server: Serving, action: str, parameters: dict[str, Any], path: str = "/") -> Answer:
    return answer_to(server, raw_form(urlencode(form(action, parameters)).encode(), path))


def read_query(action: str, answer: Answer) -> dict[str, Any]:
    """Parse an answer strictly as XML first, then with botocore's parser for the Query protocol."""
    root = ET.fromstring(answer.body)
    kind = "ErrorResponse" if answer.status >= 300 else f"{action}Response"
    assert root.tag == f"{{{NAMESPACE}}}{kind}"
    parsed = create_parser("query").parse(
        {"status_code": answer.status, "headers": answer.headers, "body": answer.body},
        QUERY_MODEL.operation_model(action).output_shape,
    )
    parsed.pop("ResponseMetadata")
    return parsed


@contextlib.contextmanager
def queue_named(server: Serving, name: str, **attributes: str) -> Iterator[str]:
    """Make a queue for the block, and yield its URL."""
    made = in_json(server, "CreateQueue", {"QueueName": name, "Attributes": attributes})
    assert made.status == 200, made.body
    yield made.json["QueueUrl"]
    in_json(server, "DeleteQueue", {"QueueUrl": made.json["QueueUrl"]})


def handle_of_nobody(queue: str) -> str:
    """Return a receipt handle in the queue's form, of a message that is not in flight."""
    return handle_of(1, "00" * 16, mark_of(queue))


def arn_of(url: str, region: str = "us-east-1") -> str:
    _, account, name = urlsplit(url).path.split("/")
    return f"arn:aws:sqs:{region}:{account}:{name}"


def name_of(request: Any) -> str:
    """Return a name that no other test has: tests share a server."""
    words = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in request.node.name)
    return f"{crc32(request.node.nodeid.encode()):08x}-{words}"[:80]
