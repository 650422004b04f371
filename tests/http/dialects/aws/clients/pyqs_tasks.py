"""Tasks for a pyqs worker of the tests. Each reports through a queue."""

import boto3
from pyqs import task


@task(queue="pyqs-work")
def add(one, other):
    sqs = boto3.client("sqs")
    queue = sqs.get_queue_url(QueueName="reports-of-pyqs")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody=f"{one} + {other} = {one + other}")
