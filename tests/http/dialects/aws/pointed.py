"""AWS's clients, connected to a server of ours."""

import contextlib

import boto3
from botocore.config import Config

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "anybody", "aws_secret_access_key": "anything"}


@contextlib.contextmanager
def client(server, service, region=REGION, *, config=None, **credentials):
    """Yield boto3's client of a service. It does not retry: a test must see the first answer."""
    usual = Config(retries={"total_max_attempts": 1}, max_pool_connections=50)
    made = boto3.session.Session(**(credentials or KEYS), region_name=region).client(
        service, endpoint_url=server.url, config=usual.merge(config) if config else usual
    )
    try:
        yield made
    finally:
        made.close()


def environment(server):
    """Return the variables by which AWS's tools find the server, without any settings of this machine."""
    return {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": KEYS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": KEYS["aws_secret_access_key"],
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
