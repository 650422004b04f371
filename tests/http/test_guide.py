"""Pages of the docs about the server: every curl line of each is sent, in order, to a new server."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from tests.support.serving import serving

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("http.md", "events.md", "schedules.md")
NAMES = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
"""Tokens and UUIDs: those on the page differ from those that the server will return."""

curl = argparse.ArgumentParser(prog="curl", exit_on_error=False, allow_abbrev=False)
curl.add_argument("url")
curl.add_argument("-X", dest="method", default="GET")
curl.add_argument("-H", dest="headers", action="append", default=[])
curl.add_argument("-d", dest="body", type=str.encode)


def examples(page):
    """Yield each command of the page with the output that the page shows."""
    for block in re.findall(r"```console\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def run(server, command):
    """Return the output that curl would show."""
    given = curl.parse_args(shlex.split(command)[1:])
    headers = dict(header.split(": ", 1) for header in given.headers)
    path = given.url.removeprefix("localhost:8888")
    return server.call(given.method, path, given.body, headers).body.decode()


def shows(said, answer):
    """Return True if an answer is what the page shows, where … may be anything."""
    pattern = ".*".join(re.escape(part) for part in NAMES.sub("NAME", said).strip().split("…"))
    return re.fullmatch(pattern, NAMES.sub("NAME", answer).strip(), re.DOTALL) is not None


@pytest.mark.parametrize("page", PAGES)
def test_every_curl_line_of_a_page_shows_what_it_is_said_to_show(tmp_path, page):
    known = {}
    # What is subscribed there is an example, and not to be posted to.
    with serving(tmp_path, "--durability", "fast", env={"SQEW_DELIVERY_ENABLED": "false"}) as server:
        for command, said in examples(page):
            answer = run(server, NAMES.sub(lambda name: known[name[0]], command))

            assert shows(said, answer), f"{command}\n{answer}"
            known.update(zip(NAMES.findall(said), NAMES.findall(answer), strict=True))
