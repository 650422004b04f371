"""docs/sqs.md, docs/migrating-to-sqew.md and the README's lines for boto3: their examples run as they stand there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sqew.settings import DEFINITIONS
from tests.http.dialects.aws.clients.programs import receive_one, script
from tests.http.dialects.aws.pointed import KEYS, REGION, client, environment
from tests.support.serving import serving

ROOT = Path(__file__).parents[5]
DOCS = ROOT / "docs"
PAGES = ("sqs.md", "migrating-to-sqew.md")
PACKAGES = ROOT / ".node" / "aws" / "node_modules"
USUAL = "http://127.0.0.1:8888"


def examples(page, language):
    text = (DOCS / page).read_text()
    return [block.replace("\n  ", "\n") for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)]


def named(pattern):
    """Return the words between backquotes in the pages' prose that match a pattern, each once."""
    prose = "".join(re.sub(r"```.*?```", "", (DOCS / page).read_text(), flags=re.DOTALL) for page in PAGES)
    return sorted(set(re.findall(f"`({pattern})`", prose)))


def run(server, *command, **variables):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, **environment(server), "PATH": path, **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def with_orders(tmp_path_factory):
    """Yield a server with the queue that the pages speak of."""
    with serving(tmp_path_factory.mktemp("pages"), "--durability", "fast") as server:
        with client(server, "sqs") as sqs:
            sqs.create_queue(QueueName="orders")
        yield server


@pytest.mark.parametrize(
    ("example", "shown"),
    list(
        zip(
            re.findall(r"```python\n(.*?)```", (DOCS / "sqs.md").read_text(), re.DOTALL),
            ["hello\n", "sqs://any:**@127.0.0.1:8888//\n", "http://127.0.0.1:8888\n"],
            strict=True,
        )
    ),
)
def test_an_example_in_python_works_on_a_server(shared_server, example, shown):
    here, port = example.replace(USUAL, shared_server.url), str(shared_server.port)

    assert run(shared_server, sys.executable, "-c", here.replace("8888", port)) == shown.replace("8888", port)


def test_the_readme_s_lines_for_boto3_work_on_a_server(with_orders):
    (example,) = re.findall(r"```python\n(import boto3\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    run(with_orders, sys.executable, "-c", example.replace(USUAL, with_orders.url))

    assert with_orders.call("GET", "/queues/shipments/peek").json["messages"][0]["payload"] == "hello"


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_for_the_aws_cli_work_on_a_server(tmp_path, page):
    blocks = [block for block in examples(page, "sh") if block.startswith("aws ")]

    with serving(tmp_path) as server:
        for block in blocks:
            run(server, "bash", "-euc", re.sub(r"http://[\w.]+:8888", server.url, block))
            listed = run(server, *script("aws"), "--endpoint-url", server.url, "sqs", "list-queues")

            assert "/000000000000/orders" in listed


def test_the_example_in_javascript_works_on_a_server(with_orders):
    (example,) = examples("sqs.md", "js")
    command = [shutil.which("node"), "-e", example.replace("8888", str(with_orders.port))]
    environ = {**os.environ, "NODE_PATH": str(PACKAGES)}

    with client(with_orders, "sqs") as sqs:
        sqs.send_message(QueueUrl=f"{with_orders.url}/000000000000/orders", MessageBody="hello")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as consumer:
        try:
            assert "hello\n" in consumer.stdout
        finally:
            consumer.kill()


def test_the_fixture_that_takes_the_place_of_mock_aws_works(tmp_path, shared_server):
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "migrating-to-sqew.md").read_text(), re.DOTALL)
    (tmp_path / "test_orders.py").write_text(example)

    shown = run(shared_server, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))

    assert "1 passed" in shown


@pytest.mark.parametrize("command", named(r"sqew (?!serve)[^`]+"))
def test_the_pages_named_a_command_that_there_is_not(with_orders, command):
    run(with_orders, *shlex.split(command), SQEW_URL=with_orders.url)


@pytest.mark.parametrize("flags", [*named(r"--[^`]+"), *named(r"sqew serve --[^`]+")])
def test_every_flag_that_the_pages_name_is_one_of_the_server(shared_server, flags):
    name, *value = shlex.split(flags.removeprefix("sqew serve "))
    setting = next(setting for setting in DEFINITIONS.values() if setting.flag == name)

    if value or setting.kind == "switch":
        shown = run(shared_server, "sqew", "config", "show", name, *value)
        assert f"flag {name}" in shown


@pytest.mark.parametrize("request_line", named(r"(?:GET|POST) /(?!moto-api)[^`]+"))
def test_every_route_that_the_pages_name_is_there(with_orders, request_line):
    method, path = request_line.split()

    assert with_orders.call(method, path).status == 200


@pytest.mark.parametrize(
    ("sent", "body"), [({"payload": "hi"}, '"hi"'), ({"payload": "hi", "format": "text"}, "hi")], ids=["json", "text"]
)
def test_a_text_of_another_dialect_arrives_as_the_page_says(shared_server, sqs, queue, sent, body):
    shared_server.call("POST", f"/queues/{queue.rpartition('/')[2]}/messages", sent)

    assert receive_one(sqs, queue) == body


def test_presigned_urls_work_as_the_page_says(sqs, sns, queue, name):
    for_sns = sns.generate_presigned_url("create_topic", {"Name": name}, HttpMethod="GET")
    for_sqs = sqs.generate_presigned_url("send_message", {"QueueUrl": queue, "MessageBody": "hi"}, HttpMethod="GET")
    by_hand = AWSRequest("GET", f"{queue}?Action=SendMessage&MessageBody=hi")
    SigV4QueryAuth(Credentials(*KEYS.values()), "sqs", REGION).add_auth(by_hand)

    assert [fetched(url)[0] for url in (for_sns, for_sqs, by_hand.url)] == [200, 400, 200]
    assert b"MissingAction" in fetched(for_sqs)[1]


def fetched(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()
