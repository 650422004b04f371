"""Messages of SQS: their attributes, their checksums, and their largest size."""

import hashlib

import pytest
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sns.topics import subscribed
from tests.http.dialects.aws.sqs_wires import in_json, in_query, read_query
from tests.support.serving import serving

LIMIT = 1_048_576
IPV = "com.amazonaws.sqs#InvalidParameterValueException"
ILLEGAL = "com.amazonaws.sqs#InvalidMessageContents"
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
BAD_TRACES = {
    "binary that is not Base64": ({"DataType": "Binary", "BinaryValue": "x"}, IPV),
    "binary": ({"DataType": "Binary", "BinaryValue": "AAAA"}, IPV),
    "nothing": ({}, IPV),
    "no value": ({"DataType": "String"}, IPV),
    "an empty value": ({"DataType": "String", "StringValue": ""}, IPV),
    "a number": ({"DataType": "Number", "StringValue": "1"}, IPV),
    "a type of its own": ({"DataType": "String.x", "StringValue": TRACE}, IPV),
    "no type": ({"StringValue": TRACE}, IPV),
    "illegal characters": ({"DataType": "String", "StringValue": "\x00"}, ILLEGAL),
}
each_bad_trace = pytest.mark.parametrize(("trace", "type_"), BAD_TRACES.values(), ids=list(BAD_TRACES))
each_wire = pytest.mark.parametrize("wire", [in_json, in_query], ids=["JSON", "Query"])


def text(value, kind="String"):
    return {"DataType": kind, "StringValue": value}


def received(sqs, url, **parameters):
    given = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"], **parameters}
    return sqs.receive_message(QueueUrl=url, **given).get("Messages", [])


def send_elsewhere(server, url, headers):
    """Send a message to the queue in another dialect."""
    name = url.rpartition("/")[2]
    answer = server.call("POST", f"/queues/{name}/messages", {"payload": 1, "headers": headers})
    assert answer.status < 300, answer.body


# What belongs to the system


@each_bad_trace
def test_a_trace_that_is_none_was_sent_and_answered_with_a_failure(shared_server, sqs, queue, trace, type_):
    system = {"AWSTraceHeader": trace}

    answer = in_json(
        shared_server, "SendMessage", {"QueueUrl": queue, "MessageBody": "x", "MessageSystemAttributes": system}
    )

    assert (answer.status, answer.json["__type"]) == (400, type_)
    assert received(sqs, queue) == []


@each_bad_trace
def test_a_batch_fails_for_the_entry_alone_whose_trace_is_none(shared_server, sqs, queue, trace, type_):
    bad = {"Id": "bad", "MessageBody": "x", "MessageSystemAttributes": {"AWSTraceHeader": trace}}
    good = {"Id": "good", "MessageBody": "y"}

    answer = in_json(shared_server, "SendMessageBatch", {"QueueUrl": queue, "Entries": [bad, good]})

    assert answer.status == 200
    assert [entry["Id"] for entry in answer.json["Successful"]] == ["good"]
    assert [entry["Id"] for entry in answer.json["Failed"]] == ["bad"]
    assert [message["Body"] for message in received(sqs, queue)] == ["y"]


@each_wire
def test_a_trace_comes_with_its_message(shared_server, sqs, queue, wire):
    system = {"AWSTraceHeader": text(TRACE)}

    answer = wire(
        shared_server, "SendMessage", {"QueueUrl": queue, "MessageBody": "x", "MessageSystemAttributes": system}
    )

    sent = answer.json if wire is in_json else read_query("SendMessage", answer)
    [message] = received(sqs, queue)
    assert message["Attributes"]["AWSTraceHeader"] == TRACE
    assert "MessageAttributes" not in message
    assert sent["MD5OfMessageSystemAttributes"] == md5_of({"AWSTraceHeader": ("String", TRACE)})


def md5_of(attributes):
    """Return the checksum of string attributes as AWS's documentation describes it."""
    digest = hashlib.md5(usedforsecurity=False)
    for name, (kind, value) in sorted(attributes.items()):
        for part in (name, kind):
            digest.update(len(part).to_bytes(4, "big") + part.encode())
        digest.update(b"\x01" + len(value).to_bytes(4, "big") + value.encode())
    return digest.hexdigest()


# What other dialects send

NO_ATTRIBUTES = {
    "binary that is not Base64": {"h": {"DataType": "Binary", "BinaryValue": "x"}},
    "binary that is text": {"h": {"DataType": "Binary", "StringValue": "x"}},
    "text that is binary": {"h": {"DataType": "String", "BinaryValue": "AAAA"}},
    "an unknown type": {"h": {"DataType": "Blob", "StringValue": "x"}},
    "a number that is none": {"h": {"DataType": "Number", "StringValue": "x"}},
    "an empty text": {"h": ""},
    "what XML can't hold": {"h": "\x00", "i": {"DataType": "String", "StringValue": "\ufffe"}},
    "numbers that are too large": {"h": 1e300, "i": 10**40 + 1},
    "an object": {"h": {"a": 1}, "i": [1], "j": None, "k": True},
    "a name that no attribute has": {"a:b": "x", "": "y", ".c": "z"},
    "a trace that is an object": {"aws:AWSTraceHeader": {"a": 1}},
    "an empty trace": {"aws:AWSTraceHeader": ""},
}


@each_wire
@pytest.mark.parametrize("headers", NO_ATTRIBUTES.values(), ids=list(NO_ATTRIBUTES))
def test_a_header_that_is_no_attribute_failed_the_receive_of_all_messages(shared_server, sqs, queue, wire, headers):
    sqs.send_message(QueueUrl=queue, MessageBody="good", MessageAttributes={"a": text("b")})
    send_elsewhere(shared_server, queue, headers)
    asked = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], "MessageAttributeNames": ["All"]}

    answer = wire(shared_server, "ReceiveMessage", {"QueueUrl": queue, **asked})

    assert answer.status == 200
    read = answer.json if wire is in_json else read_query("ReceiveMessage", answer)
    good, other = read["Messages"]
    assert good["MessageAttributes"] == {"a": text("b")}
    assert "MessageAttributes" not in other
    assert "AWSTraceHeader" not in other["Attributes"]


def test_plain_headers_of_other_dialects_are_attributes(shared_server, sqs, queue):
    send_elsewhere(shared_server, queue, {"_h": "x", "n": 7, "f": -0.5, "aws:AWSTraceHeader": TRACE})

    [message] = received(sqs, queue)

    assert message["MessageAttributes"] == {"_h": text("x"), "n": text("7", "Number"), "f": text("-0.5", "Number")}
    assert message["Attributes"]["AWSTraceHeader"] == TRACE


# Names


@pytest.mark.parametrize("name", ["_n", "__", "_aws_trace", "_event", "_schedule", "AWSTraceHeader"])
def test_an_attribute_was_dropped_for_the_underscore_that_its_name_begins_with(sqs, queue, name):
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes={name: text("mine"), "a": text("b")})

    [message] = received(sqs, queue)

    assert message["MessageAttributes"] == {name: text("mine"), "a": text("b")}
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert "AWSTraceHeader" not in message["Attributes"]


def test_raw_delivery_dropped_attributes_whose_names_begin_with_an_underscore(sns, sqs, topic, queue):
    subscribed(sns, topic, queue, RawMessageDelivery="true")

    sns.publish(TopicArn=topic, Message="x", MessageAttributes={"_n": text("1", "Number"), "_aws_trace": text("x")})

    [message] = received(sqs, queue)
    assert message["MessageAttributes"] == {"_n": text("1", "Number"), "_aws_trace": text("x")}
    assert "AWSTraceHeader" not in message["Attributes"]


# Sizes


def test_attributes_were_refused_beyond_64_kib(sqs, queue):
    attributes = {"a": text("x" * 500_000), "b": {"DataType": "Binary", "BinaryValue": bytes(500_000)}}
    body = "x" * (LIMIT - 1_000_000 - len("aStringbBinary"))

    sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=attributes)

    [message] = received(sqs, queue)
    assert message["Body"] == body
    assert message["MessageAttributes"] == attributes


@pytest.mark.parametrize("value", [text("x" * 100_000), {"DataType": "Binary", "BinaryValue": bytes(100_000)}])
def test_body_and_attributes_have_one_limit(sqs, queue, value):
    body = "x" * (LIMIT - 100_000 - len("a") - len(value["DataType"]) + 1)

    with pytest.raises(ClientError) as raised:
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes={"a": value})

    assert raised.value.response["Error"]["Message"] == (
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."
    )


def test_a_batch_was_refused_for_one_entry_with_large_attributes(sqs, queue):
    large = {"Id": "large", "MessageBody": "x", "MessageAttributes": {"a": text("x" * 100_000)}}

    result = sqs.send_message_batch(QueueUrl=queue, Entries=[large, {"Id": "small", "MessageBody": "y"}])

    assert [entry["Id"] for entry in result["Successful"]] == ["large", "small"]
    assert "Failed" not in result


def test_a_batch_counts_the_bytes_that_base64_stands_for(sqs, queue):
    # Each of these has a byte of its last three, and two of padding.
    entries = [
        {"Id": f"e{n}", "MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": b"x"}}}
        for n in range(9)
    ]
    used = sum(len("x" + "a" + "Binary") + 1 for _ in entries)
    entries.append({"Id": "last", "MessageBody": "x" * (LIMIT - used)})

    fits = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    entries[-1]["MessageBody"] += "x"
    with pytest.raises(ClientError) as raised:
        sqs.send_message_batch(QueueUrl=queue, Entries=entries)

    assert len(fits["Successful"]) == 10
    assert raised.value.response["Error"]["Message"].endswith(f"You have sent {LIMIT + 1} bytes.")


@pytest.mark.parametrize(
    "value", [text("x" * 500), {"DataType": "Binary", "BinaryValue": bytes(500)}], ids=["String", "Binary"]
)
def test_the_limit_of_a_queue_did_not_count_attributes(sqs, name, value):
    url = sqs.create_queue(QueueName=name, Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]
    room = 1024 - 500 - len("a") - len(value["DataType"])
    attributes = {"a": value}

    sqs.send_message(QueueUrl=url, MessageBody="x" * room, MessageAttributes=attributes)
    with pytest.raises(ClientError) as raised:
        sqs.send_message(QueueUrl=url, MessageBody="x" * (room + 1), MessageAttributes=attributes)

    assert raised.value.response["Error"]["Message"] == (
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
    )
    assert len(received(sqs, url)) == 1


def test_the_limit_of_a_queue_counts_the_attributes_of_each_entry(sqs, name):
    url = sqs.create_queue(QueueName=name, Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]
    large = {"Id": "large", "MessageBody": "x" * 1020, "MessageAttributes": {"a": text("x" * 500)}}

    result = sqs.send_message_batch(QueueUrl=url, Entries=[large, {"Id": "small", "MessageBody": "x" * 1020}])

    assert [entry["Id"] for entry in result["Successful"]] == ["small"]
    assert [(entry["Id"], entry["Code"]) for entry in result["Failed"]] == [("large", "InvalidParameterValue")]


def test_a_trace_does_not_count(sqs, name):
    url = sqs.create_queue(QueueName=name, Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]

    sqs.send_message(QueueUrl=url, MessageBody="x" * 1024, MessageSystemAttributes={"AWSTraceHeader": text("x" * 1000)})

    assert len(received(sqs, url)) == 1


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    limits = ("--max-body-bytes", "2000", "--max-headers-bytes", "1000")
    with (
        serving(tmp_path_factory.mktemp("small"), "--durability", "fast", *limits) as server,
        client(server, "sqs") as pointed,
    ):
        yield pointed


@pytest.mark.parametrize(
    "bad",
    [
        {"MessageBody": "x" * 2001},
        {"MessageBody": "x" * 500, "MessageAttributes": {"a": text("x" * 1500)}},
        {"MessageBody": "x", "MessageSystemAttributes": {"AWSTraceHeader": text("x" * 1000)}},
    ],
    ids=["body", "attributes", "trace"],
)
def test_a_batch_was_refused_for_one_entry_over_the_limits_of_the_server(small, name, bad):
    url = small.create_queue(QueueName=name)["QueueUrl"]

    result = small.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "bad", **bad}, {"Id": "good", "MessageBody": "x" * 2000}]
    )

    assert [entry["Id"] for entry in result["Successful"]] == ["good"]
    assert [(entry["Id"], entry["Code"]) for entry in result["Failed"]] == [("bad", "InvalidParameterValue")]


# Types


@pytest.mark.parametrize(
    "number",
    ["0", "-0.0", "+7", "1.", ".5", "1e126", "-1E+126", "1e-128", "9" * 38, "0" * 50 + "9" * 38 + "." + "0" * 50],
)
def test_a_number_is_taken_as_it_is(sqs, queue, number):
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes={"n": text(number, "Number")})

    [message] = received(sqs, queue)
    assert message["MessageAttributes"] == {"n": text(number, "Number")}


@pytest.mark.parametrize(
    "number",
    ["٣", "1e9999", "9" * 500, "9" * 39, "1." + "1" * 38, "1.1e126", "1e127", "1e-129", "1e" + "9" * 40, "x", "0x1"],
)
def test_a_number_that_no_number_of_aws_can_be_was_taken(sqs, queue, number):
    with pytest.raises(ClientError) as raised:
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes={"n": text(number, "Number")})

    assert raised.value.response["Error"]["Message"] == (
        "Can't cast the value of message (user) attribute 'n' to a number."
    )


@pytest.mark.parametrize("type_", ["String.\ufffe", "String.\x00", "Blob", "string", "String.", "Number." + "x" * 250])
def test_a_type_that_no_attribute_can_have_was_taken(sqs, queue, type_):
    with pytest.raises(ClientError) as raised:
        sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes={"n": text("1", type_)})

    assert raised.value.response["Error"]["Message"] == (
        "The type of message (user) attribute 'n' is invalid. "
        "You must use only the following supported type prefixes: Binary, Number, String."
    )


# Batches to a queue that is not there

BAD_BATCHES = {
    "SendMessageBatch": {"Id": "a", "MessageBody": ""},
    "DeleteMessageBatch": {"Id": "a", "ReceiptHandle": "garbage"},
    "ChangeMessageVisibilityBatch": {"Id": "a", "ReceiptHandle": "garbage", "VisibilityTimeout": 1},
}


@each_wire
@pytest.mark.parametrize(("action", "entry"), BAD_BATCHES.items(), ids=list(BAD_BATCHES))
def test_a_batch_of_bad_entries_was_answered_by_a_queue_that_does_not_exist(shared_server, wire, action, entry):
    answer = wire(shared_server, action, {"QueueUrl": "http://h/000000000000/nope", "Entries": [entry]})

    assert answer.status == 400
    assert b"NonExistentQueue" in answer.body or b"QueueDoesNotExist" in answer.body


@pytest.mark.parametrize(("action", "entry"), BAD_BATCHES.items(), ids=list(BAD_BATCHES))
def test_a_batch_of_bad_entries_names_them(shared_server, queue, action, entry):
    answer = in_json(shared_server, action, {"QueueUrl": queue, "Entries": [entry]})

    assert answer.status == 200
    assert [entry["Id"] for entry in answer.json["Failed"]] == ["a"]
    assert answer.json["Successful"] == []


@pytest.mark.parametrize("name", ["AWS.a", "aws.a", "Amazon.a", "aMaZoN.", ".a", "a.", "a..b", "a b", "é", "x" * 257])
def test_a_message_attribute_may_not_be_called_so(shared_server, queue, name):
    attributes = {name: text("x")}

    alone = in_json(
        shared_server, "SendMessage", {"QueueUrl": queue, "MessageBody": "x", "MessageAttributes": attributes}
    )
    entry = {"Id": "a", "MessageBody": "x", "MessageAttributes": attributes}
    batch = in_json(shared_server, "SendMessageBatch", {"QueueUrl": queue, "Entries": [entry]})

    message = f"Message (user) attribute name '{name[:100]}' is not valid."
    assert (alone.status, alone.json["__type"], alone.json["message"]) == (400, IPV, message)
    assert [(one["Code"], one["Message"]) for one in batch.json["Failed"]] == [("InvalidParameterValue", message)]


@pytest.mark.parametrize("name", ["AWSa", "amazon", "a.AWS.b", "a.b.c", "_", "-"])
def test_a_message_attribute_may_be_called_so(sqs, queue, name):
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes={name: text("x")})

    [message] = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]
    assert message["MessageAttributes"] == {name: text("x")}
