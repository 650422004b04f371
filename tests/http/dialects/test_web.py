"""The page of recent messages, and answers that are compressed on request."""

import gzip
import re

import pytest

from tests.support.postgres import new_database
from tests.support.serving import STORES, serving

HTML = "text/html; charset=utf-8"
GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture(scope="module", params=STORES)
def server(request, tmp_path_factory):
    database = new_database() if request.param == "postgres" else None
    with serving(tmp_path_factory.mktemp("web"), "--durability", "fast", database=database) as server:
        yield server


@pytest.fixture
def jobs(server):
    server.call("POST", "/queues?name=jobs&max_attempts=2&visibility_timeout_seconds=30")
    yield "jobs"
    server.call("DELETE", "/queues/jobs")


def rows(page):
    """Return the cells of each row."""
    assert page.headers["content-type"] == HTML
    return [
        re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>(<td>.*?)</tr>", page.body.decode())
    ]


def test_the_page_says_where_there_is_nothing(server):
    page = server.call("GET", "/web")

    assert (page.status, rows(page)) == (200, [])
    assert "There are no messages." in page.body.decode()


def test_the_page_lists_the_newest_first_with_how_each_is_doing(server, jobs):
    ids = [server.call("POST", "/queues/jobs/enqueue", {"n": n}).json["message_id"] for n in range(4)]
    for _ in range(3):
        server.call("GET", "/queues/jobs/receive")
    server.call("PUT", f"/messages/{ids[0]}/complete")
    server.call("PUT", f"/messages/{ids[1]}/fail")

    listed = rows(server.call("GET", "/web"))

    # (What is completed is gone: the queue keeps nothing.)
    assert [(queue, id, attempts, state) for queue, id, _, attempts, state, *_ in listed] == [
        ("jobs", ids[3], "0", "ready"), ("jobs", ids[2], "1", "leased"), ("jobs", ids[1], "1", "dead"),
    ]  # fmt: skip
    assert [args for _, _, args, *_ in listed] == [f"{{&quot;n&quot;: {n}}}" for n in (3, 2, 1)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d [\d:]{8}\.\d{3}", created) for *_, created, _ in listed)


def test_what_senders_write_is_text_on_the_page(server):
    server.call("POST", "/queues?name=%3Cb%3E&max_attempts=2&visibility_timeout_seconds=30")
    server.call("POST", "/queues/%3Cb%3E/enqueue", "<script>alert(1)</script>")

    page = server.call("GET", "/web")

    assert rows(page)[0][0] == "&lt;b&gt;"
    assert b"<script>" not in page.body
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert server.call("DELETE", "/queues/%3Cb%3E").status == 200


def test_long_bodies_are_cut_short_and_a_hundred_messages_are_enough(server, jobs):
    for body in (b'"' + b"x" * 1_500_000 + b'"', b'"' + b"y" * 1_000 + b'"'):
        server.call("POST", "/queues/jobs/enqueue", body)
    listed = rows(server.call("GET", "/web"))
    assert [args for _, _, args, *_ in listed] == ["&quot;" + "y" * 199 + " …", "(1,500,002 bytes)"]

    server.call("POST", "/queues/jobs/messages", [{"payload": "z" * 1_500}] * 150)
    page = server.call("GET", "/web")

    assert len(rows(page)) == 100
    assert len(page.body) < 100_000


def test_a_browser_is_asked_for_the_token_that_it_can_not_send_by_itself(tmp_path):
    with serving(tmp_path, "--auth-token", "secret") as server:
        refused = server.call("GET", "/web")
        shown = server.call("GET", "/web", None, {"Authorization": "Bearer secret"})

        assert (refused.status, refused.headers["content-type"]) == (401, HTML)
        assert b'<script type="module" src="/web/web.js">' in refused.body
        assert (shown.status, b"<script" in shown.body) == (200, False)
        for name in ("web.css", "web.js"):
            assert server.call("GET", f"/web/{name}").status == 200
        assert server.call("GET", "/web/nothing").status == 404


@pytest.mark.parametrize("count", [20, 200], ids=["at once", "beside the loop"])
def test_an_answer_is_compressed_for_those_who_ask(server, jobs, count):
    server.call("POST", "/queues/jobs/messages", [{"payload": "z" * 100}] * count)
    path = f"/queues/jobs/peek?limit={count}"

    plain, packed = server.call("GET", path), server.call("GET", path, None, GZIP)

    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 4


@pytest.mark.parametrize(
    ("asked", "is_packed"),
    [
        ("gzip, deflate, br", True), ("deflate;q=0.5,GZIP;q=1.0", True), ("x-gzip", False), ("gzip;q=0.001", True),
        ("gzip; q=0", False), ("gzip;q=0.0", False), ("identity", False), ("*", False),
    ],
)  # fmt: skip
def test_what_a_client_says_of_gzip_is_heeded(server, jobs, asked, is_packed):
    server.call("POST", "/queues/jobs/messages", [{"payload": "z" * 1_000}] * 5)

    answer = server.call("GET", "/queues/jobs/peek", None, {"Accept-Encoding": asked})

    assert ("content-encoding" in answer.headers) is is_packed


def test_small_answers_streams_and_aws_are_left_as_they_are(server, jobs):
    server.call("POST", "/queues/jobs/messages", [{"payload": "z" * 1_000}] * 5)
    sqs = {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "Content-Type": "application/x-amz-json-1.0", **GZIP}
    sqs["Authorization"] = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/sqs/aws4_request, Signature=0"

    small = server.call("GET", "/healthz", None, GZIP)
    stream = server.call("GET", "/queues/jobs/export", None, GZIP)
    aws = server.call("POST", "/", {"QueueUrl": "jobs", "MaxNumberOfMessages": 5}, sqs)

    assert len(aws.body) > 5_000
    assert all("content-encoding" not in answer.headers for answer in (small, stream, aws))


def test_a_file_that_is_compressed_is_known_again(server):
    packed = server.call("GET", "/v1/openapi.json", None, GZIP)
    again = server.call("GET", "/v1/openapi.json", None, {**GZIP, "If-None-Match": packed.headers["etag"]})

    assert packed.headers["etag"].startswith('W/"')
    assert (again.status, again.body) == (304, b"")
