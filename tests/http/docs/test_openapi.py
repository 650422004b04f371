"""The OpenAPI document, which describes the server truly, and the page at /docs that shows it."""

import json
import re
from typing import Annotated, Any
from uuid import UUID

import pytest
from msgspec import Meta, Raw, Struct
from openapi_spec_validator import OpenAPIV31SpecValidator

from sqew.http.docs.openapi import document
from sqew.http.router import Dialect, Routes
from sqew.http.routes import make_router
from sqew.http.wire.exchange import Response
from sqew.settings import Settings


class Refusal(Struct):
    why: str


DIALECT = Dialect("Post office", "Letters.", lambda error, _status: str(error).encode(), Refusal)


class Inner(Struct):
    """A parcel ``inside``."""

    weight: int = 3
    """The weight
    in grams."""


class Letter(Struct, forbid_unknown_fields=True):
    payload: Raw
    inner: Inner | None = None


class Stamp(Struct):
    value: int


class Parameters(Struct, frozen=True):
    count: Annotated[int, Meta(ge=2, le=9)]
    lane: str | None = None
    loud: bool = False


def operation(**more: Any) -> dict[str, Any]:
    """Return the document's description of one route that is made with these options."""
    return whole(**more)["paths"]["/letters/{queue}/{id}"]["post"]


def whole(**more: Any) -> dict[str, Any]:
    routes = Routes(DIALECT)

    @routes.post("/letters/{queue}/{id}", **{"scope": "send", "answers": {200: None}, **more})
    def post_letter(_service: Any, _request: Any) -> Response:
        """Post a letter. It is on its
        way then."""
        return Response(200)

    made = document(routes.routes, Settings())
    assert list(OpenAPIV31SpecValidator(made).iter_errors()) == []
    return made


def test_the_document_of_all_dialects_is_valid_openapi_3_1():
    made = document(make_router().routes, Settings())

    assert made["openapi"] == "3.1.0"
    assert list(OpenAPIV31SpecValidator(made).iter_errors()) == []


def test_every_route_is_in_the_document_under_a_name_of_its_own():
    routes = make_router().routes

    paths = document(routes, Settings())["paths"]
    operations = {(method.upper(), path): told for path, methods in paths.items() for method, told in methods.items()}

    assert set(operations) == {(route.method, route.pattern) for route in routes}
    assert len({told["operationId"] for told in operations.values()}) == len(routes)
    assert all(told["summary"] for told in operations.values())


def test_every_field_that_a_client_writes_is_explained():
    made = document(make_router().routes, Settings())

    parameters = [
        (path, parameter["name"], parameter.get("description"))
        for path, methods in made["paths"].items()
        for told in methods.values()
        for parameter in told.get("parameters", ())
    ]
    fields = [
        (name, field, schema.get("description"))
        for name, component in made["components"]["schemas"].items()
        if component.get("additionalProperties") is False
        for field, schema in component["properties"].items()
    ]

    unexplained = [entry[:2] for entry in parameters + fields if not entry[2]]
    assert unexplained == [], "write a docstring below the field, or a word into sqew/http/docs/glossary.py"


def test_every_refusal_is_said_to_name_its_error_in_a_header():
    refusals = document(make_router().routes, Settings())["components"]["responses"].values()

    assert refusals
    assert all("X-Sqew-Error" in refusal["headers"] for refusal in refusals)


def test_a_docstring_is_the_summary_and_the_description():
    told = operation()

    assert told["operationId"] == "post_office_post_letter"
    assert told["summary"] == "Post a letter"
    assert told["description"] == "Post a letter. It is on its way then."
    assert told["tags"] == ["Post office"]


def test_parameters_come_from_the_pattern_the_query_and_the_headers():
    told = operation(path={"id": UUID}, query=Parameters, headers={"Idempotency-Key": "Once."})
    queue, id, count, lane, loud, key = told["parameters"]

    assert (queue["in"], queue["required"], queue["schema"]["pattern"]) == (
        "path",
        True,
        r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]{1,256}$",
    )
    assert (id["in"], id["schema"]["format"]) == ("path", "uuid")
    assert (count["in"], count["required"]) == ("query", True)
    assert (count["schema"]["minimum"], count["schema"]["maximum"]) == (2, 9)
    assert (lane["required"], lane["schema"]["type"]) == (False, "string")
    assert (loud["required"], loud["schema"]["default"]) == (False, False)
    assert (key["in"], key["description"]) == ("header", "Once.")


def test_bounds_that_are_settings_are_those_of_this_server():
    made = document(make_router().routes, Settings(max_batch=77))

    (batch,) = [p for p in made["paths"]["/queues/{queue}/poll"]["post"]["parameters"] if p["name"] == "batch"]

    assert batch["schema"]["maximum"] == 77


def test_a_body_may_be_one_or_several_and_shows_an_example_of_each():
    content = operation(body=Letter | list[Letter])["requestBody"]["content"]["application/json"]

    assert [way.get("$ref", way.get("type")) for way in content["schema"]["anyOf"]] == [
        "#/components/schemas/Letter",
        "array",
    ]
    assert content["examples"] == {
        "one": {"value": {"payload": {"sku": 7}}},
        "several": {"value": [{"payload": {"sku": 7}}]},
    }


def test_a_raw_field_is_any_json():
    letter = whole(body=Letter)["components"]["schemas"]["Letter"]

    assert "type" not in letter["properties"]["payload"]
    assert letter["required"] == ["payload"]
    assert letter["additionalProperties"] is False


def test_a_docstring_below_a_field_is_its_description():
    inner = whole(body=Letter)["components"]["schemas"]["Inner"]

    assert inner["description"] == "A parcel `inside`."
    assert inner["properties"]["weight"]["description"] == "The weight in grams."


def test_an_answer_may_be_one_of_several_types():
    told = operation(answers={200: Letter | Stamp, 204: None, 206: "text/event-stream"})["responses"]

    assert told["200"]["content"]["application/json"]["schema"] == {
        "anyOf": [{"$ref": "#/components/schemas/Letter"}, {"$ref": "#/components/schemas/Stamp"}]
    }
    assert told["204"] == {"description": "No Content"}
    assert told["206"]["content"] == {"text/event-stream": {"schema": {"type": "string"}}}


def test_a_refusal_has_the_shape_of_its_dialect():
    made = whole()

    default = made["paths"]["/letters/{queue}/{id}"]["post"]["responses"]["default"]
    content = made["components"]["responses"]["post_office_failure"]["content"]

    assert default == {"$ref": "#/components/responses/post_office_failure"}
    assert content == {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}


def test_a_streamed_body_is_lines_of_json():
    assert list(operation(streams=True)["requestBody"]["content"]) == ["application/x-ndjson"]


@pytest.mark.parametrize(
    ("scope", "wanted"), [("open", []), ("send", [{"token": ["send"]}, {"key": ["send"]}])], ids=["open", "send"]
)
def test_a_scope_says_which_key_is_needed(scope, wanted):
    assert operation(scope=scope)["security"] == wanted


def test_structs_of_the_same_name_are_named_after_their_dialects():
    schemas = document(make_router().routes, Settings())["components"]["schemas"]

    assert {"SqewFailure", "HqFailure"} <= set(schemas)
    assert not [name for name in schemas if "." in name]


def test_every_error_is_told_with_its_status():
    errors = document([], Settings())["x-errors"]

    assert {"status": 404, "code": "queue_not_found", "description": "No queue of that name."} in errors
    assert all(error["description"] for error in errors)


def test_the_server_serves_the_document_of_its_own_routes(shared_server):
    answer = shared_server.call("GET", "/v1/openapi.json")

    made = document(make_router().routes, Settings())
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == json.loads(json.dumps(made))


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/docs", "/docs/docs.js"])
def test_what_a_client_has_already_is_not_sent_again(shared_server, path):
    first = shared_server.call("GET", path)

    tag = first.headers["etag"]
    same = shared_server.call("GET", path, headers={"If-None-Match": f'"other", W/{tag}'})
    other = shared_server.call("GET", path, headers={"If-None-Match": '"other"'})

    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    assert (other.status, other.body) == (200, first.body)


def test_the_page_loads_nothing_from_elsewhere(shared_server):
    page = shared_server.call("GET", "/docs")
    loaded = re.findall(r'(?:src|href)="(/[^"]+)"', page.body.decode())
    parts = {path: shared_server.call("GET", path) for path in loaded}
    modules = [
        shared_server.call("GET", f"/docs/{name}")
        for name in re.findall(r'from "\./(\w+\.js)"', parts["/docs/docs.js"].body.decode())
    ]

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert {"/docs/docs.css", "/docs/docs.js"} <= set(loaded)
    assert len(modules) == 2
    assert {part.status for part in [*parts.values(), *modules]} == {200}
    # The document shows an endpoint as an example, which nobody loads.
    parts.pop("/v1/openapi.json")
    everything = b"".join(part.body for part in [page, *parts.values(), *modules])
    assert set(re.findall(rb"https?://[^/\"' ]+", everything)) <= {b"http://www.w3.org"}


def test_a_part_that_the_page_does_not_have_is_not_found(shared_server):
    answer = shared_server.call("GET", "/docs/..%2F..%2Frun.py")

    assert answer.status == 404
    assert answer.json["error"]["code"] == "route_not_found"


def test_the_address_alone_leads_to_the_documentation(shared_server):
    answer = shared_server.call("GET", "/")

    assert (answer.status, answer.headers["location"]) == (307, "/docs")
