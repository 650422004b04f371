"""Actors for a dramatiq worker of the tests. Each reports through a queue."""

import boto3
import dramatiq
from dramatiq.middleware import CurrentMessage, Retries
from dramatiq_sqs import SQSBroker

RETRIES = Retries(max_retries=2, min_backoff=1000, max_backoff=1000)

broker = SQSBroker(
    namespace="dramatiq", dead_letter=True, middleware=[CurrentMessage(), RETRIES], region_name="us-east-1"
)
dramatiq.set_broker(broker)


def connect():
    """Connect the broker to the AWS that the environment names."""
    broker.sqs = boto3.resource("sqs")


def report(text):
    sqs = boto3.client("sqs")
    sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName="dramatiq-reports")["QueueUrl"], MessageBody=text)


@dramatiq.actor
def add(one, other):
    report(f"{one} + {other} = {one + other}")


@dramatiq.actor
def fails_always():
    report(f"try {CurrentMessage.get_current_message().options.get('retries', 0) + 1}")
    raise ConnectionError("never")
