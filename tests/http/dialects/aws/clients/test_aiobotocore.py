"""aiobotocore: boto3's client for asyncio, with many calls at a time."""

import asyncio
import contextlib

import pytest
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import KEYS, REGION

WITHIN_S = 30


@pytest.fixture
def ran(shared_server):
    """Return a function that runs a coroutine function with a client."""

    async def work(function):
        async with contextlib.AsyncExitStack() as stack:
            made = get_session().create_client("sqs", region_name=REGION, endpoint_url=shared_server.url, **KEYS)
            sqs = await stack.enter_async_context(made)
            async with asyncio.timeout(WITHIN_S):
                return await function(sqs)

    return lambda function: asyncio.run(work(function))


def test_many_calls_at_a_time_are_all_answered(ran):
    async def work(sqs):
        url = (await sqs.create_queue(QueueName="aio-many"))["QueueUrl"]
        await asyncio.gather(*(sqs.send_message(QueueUrl=url, MessageBody=f"m{number}") for number in range(100)))
        answers = await asyncio.gather(*(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10) for _ in range(20)))
        messages = [message for answer in answers for message in answer.get("Messages", [])]
        await asyncio.gather(
            *(sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"]) for message in messages)
        )
        counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        left = await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=counts)
        return sorted(message["Body"] for message in messages), left["Attributes"]

    bodies, left = ran(work)

    assert bodies == sorted(f"m{number}" for number in range(100))
    assert set(left.values()) == {"0"}


def test_several_long_polls_get_a_message_each(ran):
    async def work(sqs):
        url = (await sqs.create_queue(QueueName="aio-polls"))["QueueUrl"]
        async with asyncio.TaskGroup() as group:
            polls = [group.create_task(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)) for _ in range(5)]
            await sqs.list_queue_tags(QueueUrl=url)
            for number in range(5):
                await sqs.send_message(QueueUrl=url, MessageBody=f"m{number}")
        return sorted(message["Body"] for poll in polls for message in poll.result()["Messages"])

    assert ran(work) == [f"m{number}" for number in range(5)]


def test_a_long_poll_that_is_cancelled_takes_nothing_with_it(ran):
    async def work(sqs):
        url = (await sqs.create_queue(QueueName="aio-cancelled"))["QueueUrl"]
        poll = asyncio.create_task(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20))
        await asyncio.wait([poll], timeout=0.3)
        poll.cancel()
        await asyncio.wait([poll])
        await sqs.send_message(QueueUrl=url, MessageBody="for the next one")
        return await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)

    assert [message["Body"] for message in ran(work)["Messages"]] == ["for the next one"]


def test_a_refusal_raises_the_exception_of_its_name(ran):
    async def work(sqs):
        with pytest.raises(sqs.exceptions.QueueDoesNotExist) as refused:
            await sqs.send_message(QueueUrl="http://elsewhere:1/000000000000/nowhere", MessageBody="x")
        return refused.value

    assert isinstance(ran(work), ClientError)
