"""A server for requests made up from the OpenAPI document, and a check that it answers as the document says."""

import json
import re

import pytest
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from sqew.http.docs.openapi import document
from sqew.http.routes import make_router
from sqew.settings import Settings
from tests.support.serving import serving

TOKEN = "a-token-for-the-test"
QUEUES = ("orders", "steps.fifo")

# A subscription to events goes on until its reader leaves.
routes = [route for route in make_router().routes if "text/event-stream" not in route.answers.values()]
schema = schemathesis.openapi.from_dict(document(routes, Settings()))


@schemathesis.serializer("application/x-ndjson")
def as_lines(_context, value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


@schema.hook
def map_path_parameters(_context, path_parameters):
    """Replace names that could be a queue's by those of queues that exist."""
    for name in ("queue", "name"):
        given = (path_parameters or {}).get(name)
        if isinstance(given, str) and re.fullmatch(r"[\w-]{1,80}(\.fifo)?", given, re.ASCII):
            path_parameters[name] = QUEUES[len(given) % 2]
    return path_parameters


@pytest.fixture(scope="module")
def furnished_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemathesis")
    flags = ("--durability", "fast", "--max-wait-ms", "10")
    with serving(folder, *flags, env={"SQEW_AUTH_TOKEN": TOKEN}) as running:
        furnish(running)
        yield running


def furnish(server):
    """Create queues with some messages in them."""
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    for queue in QUEUES:
        server.call("POST", "/queues", {"name": queue}, allowed)
        server.call("POST", f"/queues/{queue}/messages", [{"payload": n} for n in range(20)], allowed)


def is_wrong_in(case):
    """Return the parts of a request that were made wrong on purpose."""
    data = case.meta.phase.data if case.meta is not None else None
    return {str(mutation.parameter_location.value) for mutation in getattr(data, "mutations", ())}


def answers_as_documented(case, server):
    response = case.call(base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20)
    if case.path == "/{account}/{queue}" and "route_not_found" in response.text:
        # What is not an account leads to no route at all.
        assert (response.status_code, response.headers["content-type"]) == (404, ["application/json"])
        return
    # A schema can't say which lanes a queue has.
    excluded = [positive_data_acceptance]
    if '"ok":false' in response.text or case.media_type == "application/x-ndjson":
        # A batch is answered entry by entry; and any text may be lines.
        excluded.append(negative_data_rejection)
    if case.method == "DELETE" and is_wrong_in(case) <= {"path", "header"}:
        # What can't be there is as gone as what is not: 204. (A wrong Authorization is replaced by the right one.)
        excluded.append(negative_data_rejection)
    case.validate_response(response, excluded_checks=excluded)
    if case.method == "DELETE":
        furnish(server)
