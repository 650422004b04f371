"""Pages of other sites in a real browser, and a server without a token: it executes nothing that they send."""

import json
import re
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.foreign import DELETE, GETS, POSTS
from tests.support.endpoint import endpoint
from tests.support.serving import Serving, serving

CREDENTIAL = "X-Amz-Credential=anybody/20260101/us-east-1/sqs/aws4_request"
WITHIN_S = 20.0
OURS = {"X-Request-Id": "not-the-browser"}
SIGNED = {
    **OURS,
    "Content-Type": "application/x-www-form-urlencoded",
    "Authorization": "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/sns/aws4_request, Signature=0",
}

TAKING_OR_DELETING = [
    f"/000000000000/orders?Action=DeleteQueue&{CREDENTIAL}",
    f"/?Action=PurgeQueue&QueueUrl=orders&{CREDENTIAL}",
    f"/000000000000/orders?Action=SendMessage&MessageBody=forged&{CREDENTIAL}",
    f"/000000000000/orders?Action=ReceiveMessage&{CREDENTIAL}",
    f"/?Action=CreateTopic&Name=forged&Version=2010-03-31&{CREDENTIAL}",
    f"/?Action=Unsubscribe&SubscriptionArn=orders&{CREDENTIAL}",
    "/queues/orders/receive",
    "/v1/messages?topic=orders",
    "/v1/queues/orders/messages",
]
"""GET requests that take or change something in some dialect, which a foreign page must not reach."""
POSTED = [
    ("/000000000000/orders", f"Action=DeleteQueue&{CREDENTIAL}"),
    ("/", '{"QueueUrl": "orders"}'),
    ("/queues/orders/purge", ""),
    ("/queues/orders/poll", ""),
    ("/queues/orders/messages", '{"payload": "forged"}'),
    ("/queues/orders/enqueue", '{"n": 1}'),
    ("/v1/messages", '{"topic": "orders", "message": "forged"}'),
    ("/v1/queues/orders/purge", ""),
    ("/v1/queues", '{"name": "forged"}'),
]


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if address := parse_qs(urlsplit(self.path).query).get("to"):
            self.send_response(302)
            self.send_header("Location", address[0])
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>evil</title><body>")

    def log_message(self, *_) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Yield the address of another site: each of its pages is blank, or redirects to the address in ``to``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Blank) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://evil.example:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Serving]:
    """Yield a server with default settings that logs every request, and a queue with one message."""
    flags = ("--durability", "fast", "--access-log", "all", "--delivery-allow", "127.0.0.1")
    with serving(tmp_path_factory.mktemp("server"), *flags) as server:
        assert server.call("POST", "/queues", {"name": "orders"}, OURS).status == 201
        assert server.call("POST", "/queues/orders/messages", {"payload": "real"}, OURS).status == 201
        yield server


@pytest.fixture
def evil(page: Page, site: str) -> Page:
    page.goto(site)
    return page


def answers(server: Serving) -> list[int]:
    """Return the statuses of the browser's requests so far, except for the icon that it fetches by itself."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.endswith("}")]
    requests = [line for line in lines if line.get("request_id") not in (None, OURS["X-Request-Id"])]
    return [line["status"] for line in requests if line["path"] != "/favicon.ico"]


def refused(server: Serving, before: int) -> bool:
    """Wait for requests after those before, and return True if all of them were refused."""
    deadline = time.monotonic() + WITHIN_S
    while len(found := answers(server)[before:]) == 0:
        assert time.monotonic() < deadline, "the browser has sent nothing"
        time.sleep(0.01)
    return all(status == 403 for status in found)


def everything(server: Serving) -> list[object]:
    """Return all state that a request could have changed, as a client without a browser sees it."""
    paths = ("/queues", "/queues/orders/peek", "/queues/orders/archive", "/queues/orders/stats")
    found = [server.call("GET", path, None, OURS) for path in paths]
    assert [answer.status for answer in found] == [200] * len(paths)
    queues, messages, archived, stats = [answer.json for answer in found]
    topics = server.call("POST", "/", urlencode({"Action": "ListTopics"}).encode(), SIGNED).body
    return [queues, messages, archived, stats["totals"], topics.partition(b"<ResponseMetadata>")[0]]


def attempt(page: Page, site: str, server: Serving, script: str, path: str, body: str = "") -> None:
    """Have another site's page send the request; raise unless the server refused it and nothing changed."""
    tab = page.context.new_page()
    tab.goto(site)
    seen = len(answers(server))
    tab.evaluate(script, [server.url + path, body])
    assert refused(server, seen), path
    tab.close()


@pytest.mark.parametrize("way", GETS)
def test_a_page_of_another_site_can_not_make_the_browser_get_what_takes_or_deletes(server, page, site, way):
    before = everything(server)

    for path in TAKING_OR_DELETING:
        attempt(page, site, server, GETS[way], path)

    assert everything(server) == before


@pytest.mark.parametrize("path", [path for path in TAKING_OR_DELETING if "Action=" in path])
def test_an_address_that_leads_astray_is_no_call_of_awss_though_it_was_typed(server, page, site, path):
    before, seen = everything(server), len(answers(server))

    # As when a link was followed in a mail program: no page has sent the browser there.
    page.goto(f"{site}?to={quote(server.url + path)}")

    assert refused(server, seen)
    assert everything(server) == before


@pytest.mark.parametrize("way", POSTS)
def test_a_page_of_another_site_can_not_post(server, page, site, way):
    before = everything(server)

    for path, body in POSTED:
        attempt(page, site, server, POSTS[way], path, body)

    assert everything(server) == before


def test_a_page_of_another_site_can_not_delete(server, page, site):
    before = everything(server)

    for path in ("/queues/orders", "/v1/queues/orders"):
        attempt(page, site, server, DELETE, path)

    assert everything(server) == before


def test_a_site_whose_name_was_made_to_mean_this_machine_can_not_call(server, page):
    before = everything(server)
    page.goto(f"http://evil.example:{server.port}/docs")

    got = [page.evaluate("path => fetch(path).then(answer => answer.status)", path) for path in TAKING_OR_DELETING]
    posted = [
        page.evaluate(
            """([path, body]) => fetch(path, {method: 'POST', body, headers: {'Content-Type': 'application/json'}})
            .then(answer => answer.status)""",
            call,
        )
        for call in POSTED
    ]

    assert {*got, *posted} == {403}
    assert everything(server) == before


def test_a_page_at_another_port_of_this_machine_is_another_site(server, page, site):
    before = everything(server)

    for path in TAKING_OR_DELETING:
        attempt(page, site.replace("evil.example", "127.0.0.1"), server, GETS["image"], path)

    assert everything(server) == before


# What must go on working


@pytest.mark.parametrize("path", ["/", "/docs", "/queues/orders", "/queues/orders/peek", "/metrics", "/livez"])
def test_a_link_on_another_site_opens_what_only_shows_something(server, evil, path):
    evil.evaluate("url => { document.body.innerHTML = `<a href='${url}'>look</a>` }", server.url + path)

    with evil.expect_navigation() as opened:
        evil.click("a")

    assert opened.value is not None
    assert opened.value.status == 200


def sns(server: Serving, **parameters: str) -> str:
    answer = server.call("POST", "/", urlencode({"Version": "2010-03-31", **parameters}).encode(), SIGNED)
    assert answer.status == 200, answer
    return answer.body.decode()


def between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def test_the_links_in_messages_of_sns_work_from_a_page_that_shows_mail(server, page, site):
    topic = between(sns(server, Action="CreateTopic", Name="news"), "<TopicArn>", "</TopicArn>")
    with endpoint() as hook:
        asked = sns(server, Action="Subscribe", TopicArn=topic, Protocol="http", Endpoint=hook.url("/news"))
        posted = json.loads(hook.wait_for("/news")[0].body)
        confirming = opened(page, site, posted["SubscribeURL"])
        arn = between(confirming, "<SubscriptionArn>", "</SubscriptionArn>")
        ending = opened(page, site, f"{server.url}/?Action=Unsubscribe&SubscriptionArn={arn}")
    sns(server, Action="DeleteTopic", TopicArn=topic)

    assert "pending" in asked
    assert arn.startswith(topic)
    assert "UnsubscribeResponse" in ending


def opened(page: Page, site: str, url: str) -> str:
    """Follow a link on another site, and return the text that it opens."""
    page.goto(site)
    page.evaluate("url => { document.body.innerHTML = '<a>follow</a>'; document.querySelector('a').href = url }", url)
    with page.expect_navigation() as navigation:
        page.click("a")
    assert navigation.value is not None
    assert navigation.value.status == 200
    return navigation.value.text()


def test_a_picture_of_such_a_link_does_nothing(server, evil):
    seen = len(answers(server))

    evil.evaluate(GETS["image"], [f"{server.url}/?Action=Unsubscribe&SubscriptionArn=arn:aws:sns:us-east-1:0:n:1"])

    assert refused(server, seen)


def test_requests_are_tried_out_on_the_page_at_docs(server, page):
    page.goto(f"{server.url}/docs")
    sending = re.compile(r"^POST\s*/queues/{queue}/messages")
    operation = page.locator("details", has=page.locator("summary", has_text=sending)).first
    operation.locator("summary").first.click()
    operation.locator("input[name=queue]").fill("tried")
    server.call("POST", "/queues", {"name": "tried"}, OURS)

    operation.locator("button[type=submit]").click()

    expect(operation.locator(".result")).to_contain_text("201")
    assert server.call("DELETE", "/queues/tried", None, OURS).status in (200, 204)
