"""The OpenAPI document, made from the table that routes: what is served is what is documented."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any

import sqew
from sqew.errors import BadSignature, DeliveryFailed, ServerError, SparkError, SqewError
from sqew.http.docs.glossary import words
from sqew.http.docs.schemas import Schemas, paragraph, without_null
from sqew.http.router import KEYLESS, Dialect, Route
from sqew.http.statuses import status_of
from sqew.http.wire.exchange import JSON, NDJSON
from sqew.settings import Settings

_TEXT = {"schema": {"type": "string"}}
_CODE = {"X-Sqew-Error": {"description": "Which error it is: one of the codes in `x-errors`.", **_TEXT}}
_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The server's token (auth_token), which allows everything, or a queue's key. "
        "A server that was given no token asks for none.",
    },
    "key": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "A queue's key, which allows what its scopes say (send, receive, admin) with its queue alone. "
        "With one that was made for signing, each request needs the header `X-Sqew-Signature: t=TIME,v1=HMAC`: the "
        "time in epoch seconds, and in hex the HMAC-SHA256, by the key's signing secret, of `t.METHOD.PATH?QUERY.` "
        "and the body after it.",
    },
}
_ABOUT = (
    "A durable message queue, in several HTTP dialects over the same queues: what is sent in one can be received "
    "in every other. Times are milliseconds since 1970 unless they say otherwise. A request that is refused is "
    "answered with a sentence that says what to do."
)


def document(routes: Sequence[Route], settings: Settings) -> dict[str, Any]:
    """Return the document of a server with these routes and settings."""
    asked = [kind for route in routes for kind in (route.query, route.body) if kind is not None]
    schemas = Schemas(_kinds(routes), words(settings.max_batch), asked)
    dialects = list({route.dialect.name: route.dialect for route in routes}.values())
    paths: dict[str, dict[str, Any]] = {}
    for route, name in zip(routes, _operation_ids(routes), strict=True):
        paths.setdefault(route.pattern, {})[route.method.lower()] = _operation(route, name, schemas)
    spelt_out = {schemas.name(route.query) for route in routes if route.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sqew",
            "version": sqew.__version__,
            "description": _ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": dialect.name, "description": dialect.doc} for dialect in dialects],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in schemas.components.items() if name not in spelt_out},
            "responses": {_failure_name(dialect): _failure(dialect, schemas) for dialect in dialects},
            "securitySchemes": _SCHEMES,
        },
        "x-errors": _errors(),
    }


def _kinds(routes: Iterable[Route]) -> Iterator[Any]:
    """Yield every type that the document is about."""
    yield str
    for route in routes:
        candidates = (route.query, route.body, route.dialect.shape, *route.path.values(), *route.answers.values())
        yield from (kind for kind in candidates if kind is not None and not isinstance(kind, str | tuple))


def _operation_ids(routes: Sequence[Route]) -> list[str]:
    """Return a name for each route: its handler's, or its path's if a handler has several."""
    names = [_words(f"{route.dialect.name} {route.handler.__name__}") for route in routes]
    uses = Counter(names)
    return [
        name if uses[name] == 1 else _words(f"{route.dialect.name} {route.method} {route.pattern}")
        for route, name in zip(routes, names, strict=True)
    ]


def _words(text: str) -> str:
    return "_".join(re.findall(r"[a-z0-9]+", text.lower()))


def _operation(route: Route, name: str, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": name, "tags": [route.dialect.name], **_described(route.summary)}
    if parameters := [*_in_path(route, schemas), *_in_query(route, schemas), *_in_headers(route)]:
        operation["parameters"] = parameters
    if (body := _request_body(route, schemas)) is not None:
        operation["requestBody"] = body
    operation["responses"] = {
        **{str(status): _answer(status, kind, schemas) for status, kind in route.answers.items()},
        "default": _failures(route, schemas),
    }
    if route.guest is not None:
        _distinguish(operation, route, route.guest)
    operation["security"] = [] if route.scope in KEYLESS else [{scheme: [route.scope]} for scheme in _SCHEMES]
    return operation


def _distinguish(operation: dict[str, Any], route: Route, guest: Dialect) -> None:
    """Say which part of an operation belongs to which dialect, if two share it: OpenAPI has one for a method on a path.

    ``x-ways`` has what programs that show it as two need: for each dialect its parameters, answers, and whether there
    is a body.
    """
    asked = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
    statuses = {
        route.dialect.name: [str(status) for status in route.answers if status not in route.guest_answers],
        guest.name: [str(status) for status in route.guest_answers],
    }
    for name, answers in statuses.items():
        for status in answers:
            operation["responses"][status]["description"] += f", to what {name} asks"
    operation["tags"] = [route.dialect.name, guest.name]
    own: dict[str, Any] = {"parameters": [], "requestBody": True, **_described(route.summary)}
    theirs: dict[str, Any] = {"parameters": asked, "requestBody": False, **_described(route.guest_summary)}
    operation["x-ways"] = [
        {"tag": name, "responses": statuses[name], **way}
        for name, way in ((route.dialect.name, own), (guest.name, theirs))
    ]


def _described(docstring: str) -> dict[str, str]:
    """Return a docstring's first sentence as the summary; and all of it as the description, if there is more."""
    whole = paragraph(docstring)
    sentence, _, rest = whole.partition(". ")
    described = {"summary": sentence.partition("\n")[0].rstrip(".")}
    return {**described, "description": whole} if rest else described


def _in_path(route: Route, schemas: Schemas) -> Iterator[dict[str, Any]]:
    for name in route.parameters:
        schema = schemas.of(route.path.get(name, str))
        yield _parameter(name, "path", schemas.explained(name, schema), required=True)


def _in_query(route: Route, schemas: Schemas) -> Iterator[dict[str, Any]]:
    if route.query is not None:
        fields = schemas.components[schemas.name(route.query)]
        for name, schema in fields["properties"].items():
            yield _parameter(name, "query", without_null(schema), required=name in fields.get("required", ()))


def _parameter(name: str, place: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    schema = dict(schema)
    doc = schema.pop("description", None)
    described = {} if doc is None else {"description": doc}
    return {"name": name, "in": place, "required": required, **described, "schema": schema}


def _in_headers(route: Route) -> Iterator[dict[str, Any]]:
    for name, doc in route.headers.items():
        yield {"name": name, "in": "header", "required": False, "description": doc, **_TEXT}


def _request_body(route: Route, schemas: Schemas) -> dict[str, Any] | None:
    if route.streams:
        return {"required": False, "content": {NDJSON.decode(): _TEXT}}
    if route.body is None:
        return None
    content = {"schema": schemas.of(route.body), "examples": schemas.examples(route.body)}
    lines = {NDJSON.decode(): _TEXT} if route.reads_body else {}
    return {"required": not route.body_optional, "content": {JSON.decode(): content, **lines}}


def _answer(status: int, kind: Any, schemas: Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if isinstance(kind, str | tuple):
        answer["content"] = dict.fromkeys((kind,) if isinstance(kind, str) else kind, _TEXT)
    elif kind is not None:
        answer["content"] = {JSON.decode(): {"schema": schemas.of(kind)}}
    return answer


def _failures(route: Route, schemas: Schemas) -> dict[str, Any]:
    if route.guest is None:
        return {"$ref": f"#/components/responses/{_failure_name(route.dialect)}"}
    shapes = [schemas.of(dialect.shape) for dialect in (route.dialect, route.guest) if dialect.shape is not None]
    content = {JSON.decode(): {"schema": {"anyOf": shapes}}}
    described = "What is wrong, in the words of the dialect that was spoken."
    return {"description": described, "headers": _CODE, "content": content}


def _failure(dialect: Dialect, schemas: Schemas) -> dict[str, Any]:
    shape = {} if dialect.shape is None else schemas.of(dialect.shape)
    content = {kind: {"schema": shape if "json" in kind else {}} for kind in dialect.refusal_types}
    return {"description": "What is wrong, and what to do about it.", "headers": _CODE, "content": content}


def _failure_name(dialect: Dialect) -> str:
    return f"{_words(dialect.name)}_failure"


def _errors() -> list[dict[str, Any]]:
    """Return every error that a response may be, by status."""
    described = [
        {"status": status_of(kind.__new__(kind)), "code": kind.code, "description": paragraph(kind.__doc__ or "")}
        for kind in _kinds_of_error(SqewError)
    ]
    return sorted(described, key=lambda error: (error["status"], error["code"]))


def _kinds_of_error(kind: type[SqewError]) -> Iterator[type[SqewError]]:
    for child in kind.__subclasses__():
        if child.__module__ != SqewError.__module__:
            continue  # of the lab or of somebody else's program: a server has none of them
        if child in (ServerError, BadSignature, DeliveryFailed, SparkError):
            continue  # what one side says of the other when it is the client: no server answers with it
        yield child
        yield from _kinds_of_error(child)
