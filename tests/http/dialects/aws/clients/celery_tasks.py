"""Tasks for a Celery worker of the tests. Each reports through a queue."""

import os
import time

import boto3
from celery import Celery
from celery.signals import worker_ready
from kombu.common import Broadcast

app = Celery("tests.http.dialects.aws.clients.celery_tasks", broker=os.environ.get("CELERY_BROKER", "memory://"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_default_queue="celery-work",
    task_acks_late=True,
    broker_transport_options={
        "region": "us-east-1",
        "visibility_timeout": 3,
        "wait_time_seconds": 5,
        "polling_interval": 0,
        "supports_fanout": True,
    },
)
if "CELERY_BROADCAST" in os.environ:
    app.conf.task_queues = (Broadcast("everybody"),)


def report(**facts):
    queue = boto3.client("sqs").get_queue_url(QueueName="celery-reports")["QueueUrl"]
    boto3.client("sqs").send_message(QueueUrl=queue, MessageBody=app.backend.encode(facts))


@worker_ready.connect
def say_so(**_):
    if "CELERY_BROADCAST" in os.environ:
        report(ready=os.getpid())


@app.task
def greet(name):
    report(greeted=name, worker=os.getpid())


@app.task
def add(one, other):
    report(sum=one + other)


@app.task(bind=True, autoretry_for=(ConnectionError,), max_retries=2, default_retry_delay=1, retry_backoff=False)
def fails_twice(self):
    report(retries=self.request.retries)
    if self.request.retries < 2:
        raise ConnectionError("not yet")


@app.task
def say_when():
    report(at=time.time())


@app.task
def outlive(first):
    """Report the process; then, in the worker that ``first`` names, never end."""
    report(worker=os.getpid())
    if os.environ.get("CELERY_WORKER") == first:
        time.sleep(300)
