"""The Query protocol by the bytes: every action as an old SDK sends it, and its answer as such an SDK reads it."""

import json
from urllib.parse import quote, urlencode

import pytest

from tests.http.dialects.aws.sqs_wires import (
    ACTIONS,
    NAMESPACE,
    answer_to,
    arn_of,
    form,
    in_json,
    in_query,
    queue_named,
    raw,
    raw_form,
    read_query,
)

PATH = "/000000000000/query-wire"
VERSION = b"&Version=2012-11-05"


@pytest.fixture
def at(shared_server):
    """Yield the URL of an empty queue."""
    with queue_named(shared_server, "query-wire") as url:
        yield url


@pytest.fixture
def letters(shared_server):
    """Yield the URL of a dead-letter queue, and of the queue that it belongs to."""
    with queue_named(shared_server, "query-dead") as dead:
        policy = json.dumps({"deadLetterTargetArn": arn_of(dead), "maxReceiveCount": 3})
        with queue_named(shared_server, "query-source", RedrivePolicy=policy) as source:
            yield dead, source


def done(action, answer):
    """Return the bytes of an answer without a result."""
    id = answer.headers["x-amzn-requestid"]
    return (
        f'<?xml version="1.0"?><{action}Response xmlns="{NAMESPACE}">'
        f"<ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{action}Response>"
    ).encode()


def told(action, inner, answer):
    """Return the bytes of an answer with a result."""
    return done(action, answer).replace(
        b"<ResponseMetadata>", f"<{action}Result>{inner}</{action}Result><ResponseMetadata>".encode()
    )


def asked(server, action, parameters, path="/"):
    answer = in_query(server, action, parameters, path)
    assert answer.status == 200, answer.body
    return read_query(action, answer)


def sent(server, url, body="x", **parameters):
    return asked(server, "SendMessage", {"QueueUrl": url, "MessageBody": body, **parameters})


def received(server, url, **parameters):
    return asked(server, "ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 5, **parameters})["Messages"]


def test_create_queue(shared_server):
    body = (
        b"Action=CreateQueue&QueueName=query-made&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=40"
        b"&Attribute.2.Name=DelaySeconds&Attribute.2.Value=5&Tag.1.Key=team&Tag.1.Value=a%26b" + VERSION
    )

    answer = answer_to(shared_server, raw_form(body))

    url = f"{shared_server.url}/000000000000/query-made"
    assert answer.body == told("CreateQueue", f"<QueueUrl>{url}</QueueUrl>", answer)
    attributes = in_json(shared_server, "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]}).json
    assert attributes["Attributes"]["VisibilityTimeout"] == "40"
    assert attributes["Attributes"]["DelaySeconds"] == "5"
    assert in_json(shared_server, "ListQueueTags", {"QueueUrl": url}).json == {"Tags": {"team": "a&b"}}


def test_get_queue_url(shared_server, at):
    answer = answer_to(shared_server, raw_form(b"Action=GetQueueUrl&QueueName=query-wire" + VERSION))

    assert answer.body == told("GetQueueUrl", f"<QueueUrl>{at}</QueueUrl>", answer)


def test_list_queues(shared_server):
    with queue_named(shared_server, "query-list-a") as a, queue_named(shared_server, "query-list-b") as b:
        answer = answer_to(shared_server, raw_form(b"Action=ListQueues&QueueNamePrefix=query-list" + VERSION))
        first = asked(shared_server, "ListQueues", {"QueueNamePrefix": "query-list", "MaxResults": 1})
        second = asked(
            shared_server,
            "ListQueues",
            {"QueueNamePrefix": "query-list", "MaxResults": 1, "NextToken": first["NextToken"]},
        )

    assert answer.body == told("ListQueues", f"<QueueUrl>{a}</QueueUrl><QueueUrl>{b}</QueueUrl>", answer)
    assert (first["QueueUrls"], second["QueueUrls"]) == ([a], [b])
    assert "NextToken" not in second


def test_send_message(shared_server, at):
    body = f"Action=SendMessage&QueueUrl={quote(at, safe='')}&MessageBody=hello+world%21&DelaySeconds=0"

    answer = answer_to(shared_server, raw_form(body.encode() + VERSION))

    [message] = received(shared_server, at)
    assert answer.body == told(
        "SendMessage",
        f"<MD5OfMessageBody>{message['MD5OfBody']}</MD5OfMessageBody><MessageId>{message['MessageId']}</MessageId>",
        answer,
    )
    assert message["Body"] == "hello world!"


def test_send_message_at_the_url_of_its_queue(shared_server, at):
    answer = answer_to(shared_server, raw_form(b"Action=SendMessage&MessageBody=x" + VERSION, PATH))

    assert answer.status == 200
    assert [message["Body"] for message in received(shared_server, at)] == ["x"]


def test_message_attributes_of_every_type(shared_server, at):
    attributes = {
        "text": {"DataType": "String", "StringValue": "<é&>"},
        "count": {"DataType": "Number.int", "StringValue": "5"},
        "data": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}

    answer = sent(shared_server, at, MessageAttributes=attributes, MessageSystemAttributes=system)

    [message] = received(
        shared_server, at, MessageAttributeNames=["All"], AttributeNames=["AWSTraceHeader", "ApproximateReceiveCount"]
    )
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == answer["MD5OfMessageAttributes"]
    assert message["Attributes"] == {"AWSTraceHeader": "Root=1", "ApproximateReceiveCount": "1"}


def test_an_old_form_of_message_attributes_by_the_bytes(shared_server, at):
    body = (
        b"Action=SendMessage&MessageBody=x&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String"
        b"&MessageAttribute.1.Value.StringValue=b" + VERSION
    )

    answer_to(shared_server, raw_form(body, PATH))

    [message] = received(shared_server, at, MessageAttributeNames=["a"])
    assert message["MessageAttributes"] == {"a": {"DataType": "String", "StringValue": "b"}}


def test_lists_of_values_are_not_supported_as_in_json(shared_server, at):
    lists = {"a": {"DataType": "String", "StringListValues": ["x"]}}
    parameters = {"QueueUrl": at, "MessageBody": "x", "MessageAttributes": lists}

    answers = [in_json(shared_server, "SendMessage", parameters), in_query(shared_server, "SendMessage", parameters)]

    assert [answer.status for answer in answers] == [400, 400]
    assert read_query("SendMessage", answers[1])["Error"]["Code"] == "AWS.SimpleQueueService.UnsupportedOperation"


def test_receive_message_without_messages(shared_server, at):
    answer = answer_to(shared_server, raw_form(b"Action=ReceiveMessage" + VERSION, PATH))

    assert answer.body == told("ReceiveMessage", "", answer)


def test_receive_message_by_the_bytes(shared_server, at):
    sent(shared_server, at, "one\rtwo\nthree\ttab <&> \U0001f600")
    body = b"Action=ReceiveMessage&AttributeName.1=ApproximateReceiveCount&MaxNumberOfMessages=10" + VERSION

    answer = answer_to(shared_server, raw_form(body, PATH))

    [message] = read_query("ReceiveMessage", answer)["Messages"]
    assert message["Body"] == "one\rtwo\nthree\ttab <&> \U0001f600"
    assert answer.body == told(
        "ReceiveMessage",
        f"<Message><MessageId>{message['MessageId']}</MessageId><ReceiptHandle>{message['ReceiptHandle']}</ReceiptHandle>"
        f"<MD5OfBody>{message['MD5OfBody']}</MD5OfBody>"
        "<Body>one&#xD;two\nthree\ttab &lt;&amp;&gt; \U0001f600</Body>"
        "<Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute></Message>",
        answer,
    )


def test_a_body_of_another_dialect_that_xml_can_not_hold_is_still_xml(shared_server, at):
    shared_server.call("POST", "/queues/query-wire/messages", {"payload": "a\x00b", "format": "text"})

    [message] = received(shared_server, at)

    assert message["Body"] == "a�b"


def test_delete_message(shared_server, at):
    sent(shared_server, at)
    [message] = received(shared_server, at)

    answer = in_query(shared_server, "DeleteMessage", {"QueueUrl": at, "ReceiptHandle": message["ReceiptHandle"]})

    assert answer.body == done("DeleteMessage", answer)
    counts = asked(shared_server, "GetQueueAttributes", {"QueueUrl": at, "AttributeNames": ["All"]})["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_change_message_visibility(shared_server, at):
    sent(shared_server, at)
    [message] = received(shared_server, at)
    parameters = {"QueueUrl": at, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}

    answer = in_query(shared_server, "ChangeMessageVisibility", parameters)

    assert answer.body == done("ChangeMessageVisibility", answer)
    assert [again["MessageId"] for again in received(shared_server, at)] == [message["MessageId"]]


def test_send_message_batch(shared_server, at):
    body = (
        b"Action=SendMessageBatch&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=x"
        b"&SendMessageBatchRequestEntry.2.Id=b&SendMessageBatchRequestEntry.2.MessageBody=%08" + VERSION
    )

    answer = answer_to(shared_server, raw_form(body, PATH))

    result = read_query("SendMessageBatch", answer)
    [good], [bad] = result["Successful"], result["Failed"]
    assert (good["Id"], good["MD5OfMessageBody"]) == ("a", "9dd4e461268c8034f5c8564e155c67a6")
    assert (bad["Id"], bad["Code"], bad["SenderFault"]) == ("b", "InvalidMessageContents", True)
    assert b"<SendMessageBatchResultEntry><Id>a</Id>" in answer.body
    assert b"<BatchResultErrorEntry><Id>b</Id><SenderFault>true</SenderFault>" in answer.body


def test_entries_are_in_the_order_of_their_numbers(shared_server, at):
    numbered = [
        (f"SendMessageBatchRequestEntry.{n}.{field}", f"{prefix}{n}")
        for n in (10, 9, 2, 1)
        for field, prefix in (("Id", "id"), ("MessageBody", "m"))
    ]

    answer = answer_to(
        shared_server, raw_form(urlencode([("Action", "SendMessageBatch"), ("QueueUrl", at), *numbered]).encode())
    )

    assert [entry["Id"] for entry in read_query("SendMessageBatch", answer)["Successful"]] == [
        "id1",
        "id2",
        "id9",
        "id10",
    ]


def test_delete_message_batch_and_change_message_visibility_batch(shared_server, at):
    for body in "ab":
        sent(shared_server, at, body)
    messages = received(shared_server, at, MaxNumberOfMessages=10)
    handles = [{"Id": f"id{n}", "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)]

    changed = asked(
        shared_server,
        "ChangeMessageVisibilityBatch",
        {"QueueUrl": at, "Entries": [{**handle, "VisibilityTimeout": 30} for handle in handles]},
    )
    deleted = asked(shared_server, "DeleteMessageBatch", {"QueueUrl": at, "Entries": handles})

    assert changed == deleted == {"Successful": [{"Id": "id0"}, {"Id": "id1"}]}


def test_queue_attributes(shared_server, at):
    body = b"Action=SetQueueAttributes&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=7" + VERSION

    changed = answer_to(shared_server, raw_form(body, PATH))
    answer = answer_to(
        shared_server,
        raw_form(b"Action=GetQueueAttributes&AttributeName.1=VisibilityTimeout" + VERSION, PATH),
    )

    assert changed.body == done("SetQueueAttributes", changed)
    inner = "<Attribute><Name>VisibilityTimeout</Name><Value>7</Value></Attribute>"
    assert answer.body == told("GetQueueAttributes", inner, answer)


def test_one_attribute_without_a_number_as_the_oldest_sdks_set_it(shared_server, at):
    body = b"Action=SetQueueAttributes&Attribute.Name=VisibilityTimeout&Attribute.Value=9" + VERSION

    changed = answer_to(shared_server, raw_form(body, PATH))

    assert changed.body == done("SetQueueAttributes", changed)
    shown = asked(shared_server, "GetQueueAttributes", {"QueueUrl": at, "AttributeNames": ["VisibilityTimeout"]})
    assert shown == {"Attributes": {"VisibilityTimeout": "9"}}


def test_tags(shared_server, at):
    tagged = answer_to(
        shared_server,
        raw_form(b"Action=TagQueue&Tag.1.Key=a&Tag.1.Value=1&Tag.2.Key=b&Tag.2.Value=2", PATH),
    )
    untagged = answer_to(shared_server, raw_form(b"Action=UntagQueue&TagKey.1=a", PATH))
    answer = answer_to(shared_server, raw_form(b"Action=ListQueueTags", PATH))

    assert tagged.body == done("TagQueue", tagged)
    assert untagged.body == done("UntagQueue", untagged)
    assert answer.body == told("ListQueueTags", "<Tag><Key>b</Key><Value>2</Value></Tag>", answer)


def test_permissions(shared_server, at):
    added = answer_to(
        shared_server,
        raw_form(
            b"Action=AddPermission&Label=l&AWSAccountId.1=111111111111&ActionName.1=SendMessage&ActionName.2=*",
            PATH,
        ),
    )
    shown = asked(shared_server, "GetQueueAttributes", {"QueueUrl": at, "AttributeNames": ["Policy"]})["Attributes"]
    removed = answer_to(shared_server, raw_form(b"Action=RemovePermission&Label=l", PATH))

    assert added.body == done("AddPermission", added)
    [statement] = json.loads(shown["Policy"])["Statement"]
    assert statement["Action"] == ["SQS:SendMessage", "SQS:*"]
    assert removed.body == done("RemovePermission", removed)
    assert asked(shared_server, "GetQueueAttributes", {"QueueUrl": at, "AttributeNames": ["Policy"]}) == {}


def test_purge_queue_and_delete_queue(shared_server):
    with queue_named(shared_server, "query-gone") as url:
        sent(shared_server, url)

        purged = in_query(shared_server, "PurgeQueue", {"QueueUrl": url})
        left = asked(shared_server, "ReceiveMessage", {"QueueUrl": url})
        deleted = in_query(shared_server, "DeleteQueue", {"QueueUrl": url})

    assert purged.body == done("PurgeQueue", purged)
    assert left == {}
    assert deleted.body == done("DeleteQueue", deleted)


def test_list_dead_letter_source_queues(shared_server, letters):
    dead, source = letters

    answer = in_query(shared_server, "ListDeadLetterSourceQueues", {"QueueUrl": dead})

    assert answer.body == told("ListDeadLetterSourceQueues", f"<QueueUrl>{source}</QueueUrl>", answer)


def test_message_move_tasks(shared_server, letters):
    dead, _ = letters
    for _ in range(30):
        sent(shared_server, dead)

    started = asked(
        shared_server,
        "StartMessageMoveTask",
        {"SourceArn": arn_of(dead), "DestinationArn": arn_of(letters[1]), "MaxNumberOfMessagesPerSecond": 1},
    )
    [task] = asked(shared_server, "ListMessageMoveTasks", {"SourceArn": arn_of(dead)})["Results"]
    cancelled = asked(shared_server, "CancelMessageMoveTask", started)

    assert task["TaskHandle"] == started["TaskHandle"]
    assert (task["Status"], task["ApproximateNumberOfMessagesToMove"]) == ("RUNNING", 30)
    assert cancelled["ApproximateNumberOfMessagesMoved"] <= 30


def test_every_action_is_spoken(shared_server):
    unknown = []
    for action in ACTIONS:
        answer = answer_to(shared_server, raw_form(urlencode(form(action, {})).encode()))
        if b"InvalidAction" in answer.body:
            unknown.append(action)

    assert len(ACTIONS) == 23
    assert unknown == []


@pytest.mark.parametrize("action", ["ReceiveMessage", "GetQueueAttributes", "ListQueueTags"])
def test_get_on_the_url_of_a_queue(shared_server, at, action):
    answer = answer_to(shared_server, raw("GET", f"/000000000000/query-wire?Action={action}&Version=2012-11-05"))

    assert answer.status == 200
    assert read_query(action, answer) == {}


def test_get_sends_a_message(shared_server, at):
    query = urlencode({"Action": "SendMessage", "MessageBody": "by GET & co", "Version": "2012-11-05"})

    answer = answer_to(shared_server, raw("GET", f"/000000000000/query-wire?{query}"))

    assert answer.status == 200
    assert [message["Body"] for message in received(shared_server, at)] == ["by GET & co"]


def test_head_takes_no_messages(shared_server, at):
    sent(shared_server, at)

    head = shared_server.talk(raw("HEAD", "/000000000000/query-wire?Action=ReceiveMessage"))

    assert head.startswith(b"HTTP/1.1 405")
    assert len(received(shared_server, at)) == 1


def test_the_name_of_a_request_does_not_break_the_xml(shared_server, at):
    answer = answer_to(shared_server, raw_form(b"Action=ListQueueTags", PATH, **{"X-Request-Id": "<&>"}))
    refused = answer_to(shared_server, raw_form(b"Action=Nothing", PATH, **{"X-Request-Id": "<&>"}))

    assert read_query("ListQueueTags", answer) == {}
    assert read_query("ListQueueTags", refused)["Error"]["Code"] == "InvalidAction"


@pytest.mark.parametrize("body", [b"QueueName=x", b"", b"Action=", b"&&=&"], ids=["other", "empty", "blank", "nothing"])
def test_a_form_without_an_action_is_told_so(shared_server, body):
    answer = answer_to(shared_server, raw_form(body))

    assert answer.status == 400
    assert b"<Code>MissingAction</Code>" in answer.body


@pytest.mark.parametrize(
    "body",
    [
        b"Action=SendMessage&MessageBody=%ff",
        b"Action=SendMessage&" + b".".join([b"a"] * 2_000) + b"=x",
        b"Action=SendMessage&" + b"&".join([b"a=b"] * 6_000),
        b"Action=SendMessage&MessageAttribute.99999999999999999999.Name=x",
        b"Action=ReceiveMessage&MaxNumberOfMessages=many",
        b"Action=ReceiveMessage&MaxNumberOfMessages=" + b"9" * 5_000,
        b"Action=SendMessage&MessageBody.1=x&MessageBody=y",
    ],
)
def test_a_form_that_makes_no_sense_is_refused(shared_server, body):
    answer = answer_to(shared_server, raw_form(body, "/000000000000/nope"))

    assert answer.status == 400
    assert b"<Type>Sender</Type>" in answer.body
