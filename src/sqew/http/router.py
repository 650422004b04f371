"""The table of routes, and the walk from a path to the handler that answers it.

The OpenAPI document is made from the same table, so a route says everything about itself: the types of its query, its
body and its answers, and the scope that a key needs for it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from sqew.errors import BadRequest, BadValue, MethodNotAllowed, RouteNotFound, SqewError
from sqew.http.statuses import status_of
from sqew.http.wire.duplicate_fields import required_name
from sqew.http.wire.exchange import JSON, Call, Request, Response, SharedCall, Stream, is_json

if TYPE_CHECKING:
    from sqew.http.service import Service

Scope = Literal["send", "receive", "admin", "open", "signed"]
"""Scopes that a key may have. ``open`` needs no key; for ``signed`` the handler checks AWS signatures, if set up."""
KEYLESS: frozenset[Scope] = frozenset({"open", "signed"})

Answer = Response | Stream | Call | Awaitable[Response | Stream | Call]
Handler = Callable[["Service", Request], Answer]
H = TypeVar("H", bound=Handler)
K = TypeVar("K")
V = TypeVar("V")

_REMEMBERED = 4_096
"""Most paths that the router caches the route of."""
_LONGEST_REMEMBERED = 256
"""Longest path that is cached: otherwise made-up ones could fill the memory."""


class Dialect(Struct, frozen=True):
    """An HTTP vocabulary, and the way it words failures."""

    name: str
    doc: str
    failure: Callable[[SqewError, int], bytes]
    """The body of a refusal, as JSON."""
    shape: Any = None
    """The type of that body."""
    refuse: Callable[[Request, SqewError], Response] | None = None
    """The whole response of a refusal, for a dialect in which more than its body depends on the request."""
    refusal_types: tuple[str, ...] = (JSON.decode(),)
    """The content types that a refusal may have."""
    status: Callable[[SqewError], int] = status_of
    """The status of a refusal."""
    exact: bool = False
    """True if its routes take only the methods that they name, so not OPTIONS, and no slash at the end of the path."""


class Batched(Struct, frozen=True):
    """A way to answer requests to one path, each about one message, as a batch if they come together. It must make no
    other difference.
    """

    kind: Callable[[Service, Request], Hashable]
    """Returns the kind of a request: those of one kind are batched. None: the request goes alone."""
    call: Callable[[Service, Sequence[Request]], SharedCall | None]
    """Returns one operation for all of them; None, or an error: each must go alone."""
    differ_in_path: bool = False
    """True if each names a message in its path, and has no body: then each is admitted by itself before they meet."""


def plain_kind(_service: Service, request: Request) -> bool | None:
    """Return True for a request with a JSON body and no query: all of these are of one kind."""
    return True if not request.query and is_json(request) else None


def harmless(_request: Request) -> bool:
    """Return True: any link may lead here."""
    return True


def harmful(_request: Request) -> bool:
    """Return False: no link of another site may lead here, as GET takes messages, or more."""
    return False


class NoParameters(Struct, frozen=True):
    """Parameters of a route that takes none: any are ignored, as on the server that its clients were written for.

    Not for routes that delete: there an ignored parameter would be one that says how little to delete.
    """


class Route(Struct, frozen=True, kw_only=True):
    """A method on a path, and all that is to be known about it."""

    method: str
    pattern: str
    handler: Handler
    dialect: Dialect
    summary: str
    scope: Scope
    path: Mapping[str, Any] = {}  # msgspec copies it
    """The types of the values in the path; a string if not given. A path leads elsewhere if a value does not match the
    pattern that its type has.
    """
    query: type[Struct] | None = None
    headers: Mapping[str, str] = {}  # msgspec copies it
    """The headers that the handler reads, and the purpose of each."""
    body: Any = None
    """The type of a JSON body."""
    misfit: type[SqewError] = BadValue
    """The error for a body that is JSON of another shape."""
    decoder: msgspec.json.Decoder[Any] | None = None
    required: bytes = b""
    """The name of a field that the body must have, as it is written there."""
    answers: Mapping[int, Any] = {}  # msgspec copies it
    """The type of the answer by status; None: no body. A string: a content type other than JSON; or several of them."""
    guest: Dialect | None = None
    """The other dialect that shares this route."""
    is_guest: Callable[[Request], bool] | None = None
    """Returns True if a request is in the guest dialect."""
    guest_summary: str = ""
    """The docstring for the guest dialect: its requests have parameters in the URL alone, all others a body alone."""
    guest_answers: tuple[int, ...] = ()
    """The statuses of the answers in the guest dialect."""
    streams: bool = False
    """True if the handler reads the body while it arrives."""
    any_type: bool = False
    """True if the body is JSON, whatever its Content-Type says."""
    reads_body: bool = False
    """True if the handler reads the body itself: it may be lines of JSON as well."""
    body_optional: bool = False
    ignores_body: bool = False
    """True if a body is ignored although the route takes none, unless it is large."""
    raw: bool = False
    """True if the handler reads the URL's parameters and the body itself."""
    keeps_to_queue: bool = False
    """True if the path names no queue, and the handler touches only `Request.only_queue` where that is set."""
    long: bool = False
    """True if it may take any time: no request timeout."""
    batched: Batched | None = None
    by_link: Callable[[Request], bool] = harmless
    """Returns True if a link on another site may lead to the route. It is called for GET only."""
    is_all_head: bool = False
    """True if it has no body, and always answers the same head with the same `Call`."""

    @property
    def finds_fifo(self) -> bool:
        """True if a FIFO queue is found there without the suffix of its name, as it may be made without it."""
        return self.pattern.startswith("/v1/queues/{name}")

    @property
    def names_one(self) -> bool:
        """True if there is an id in its path, so that the same head hardly comes again."""
        return "{id}" in self.pattern

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters in the pattern, in order."""
        return [part[1:-1] for part in self.pattern.split("/") if part.startswith("{")]


class Routes:
    """The routes of one dialect, added by decorators."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.routes: list[Route] = []

    def add(self, method: str, pattern: str, *, scope: Scope, body: Any = None, **more: Any) -> Callable[[H], H]:
        """Return a decorator: the function answers this method on this path. Its docstring is the route's summary."""

        def register(handler: H) -> H:
            decoder = None if body is None else msgspec.json.Decoder(body)
            summary = (handler.__doc__ or "").strip()
            route = Route(
                method=method,
                pattern=pattern,
                handler=handler,
                dialect=self.dialect,
                summary=summary,
                scope=scope,
                body=body,
                decoder=decoder,
                required=required_name(body),
                **more,
            )
            self.routes.append(route)
            return handler

        return register

    def get(self, pattern: str, **more: Any) -> Callable[[H], H]:
        return self.add("GET", pattern, **more)

    def post(self, pattern: str, **more: Any) -> Callable[[H], H]:
        return self.add("POST", pattern, **more)

    def put(self, pattern: str, **more: Any) -> Callable[[H], H]:
        return self.add("PUT", pattern, **more)

    def patch(self, pattern: str, **more: Any) -> Callable[[H], H]:
        return self.add("PATCH", pattern, **more)

    def delete(self, pattern: str, **more: Any) -> Callable[[H], H]:
        return self.add("DELETE", pattern, **more)


class _Node:
    """A step of a path."""

    __slots__ = ("children", "methods", "parameter", "pattern")

    def __init__(self, pattern: str = "") -> None:
        self.children: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.methods: dict[str, Route] = {}
        self.pattern = re.compile(pattern) if pattern else None

    def parameter_for(self, value: str) -> _Node | None:
        """Return the node for a value that is not the name of a child."""
        node = self.parameter
        return None if node is None or not value or (node.pattern and not node.pattern.search(value)) else node


class Router:
    """A map from a method and a path to a route and the values in its path."""

    def __init__(self) -> None:
        self._root = _Node()
        self.routes: list[Route] = []
        self._known: dict[tuple[bytes, bytes], tuple[Route, tuple[str, ...]]] = {}
        # What leads to a number at the end, and nothing but a parameter takes numbers: the route, and what is before.
        self._numbered: dict[tuple[bytes, bytes], tuple[Route, tuple[str, ...]]] = {}

    def include(self, routes: Routes) -> None:
        """Add the routes of a dialect. Two routes for one request are a mistake in the code."""
        for route in routes.routes:
            node = self._root
            for part in route.pattern.strip("/").split("/"):
                if part.startswith("{"):
                    node.parameter = node.parameter or _Node(_pattern_of(route.path.get(part[1:-1])))
                    node = node.parameter
                else:
                    node = node.children.setdefault(part, _Node())
            if route.method in node.methods:
                raise ValueError(f"{route.method} {route.pattern} has two routes")
            node.methods[route.method] = route
            self.routes.append(route)

    def find(self, method: bytes, path: bytes) -> tuple[Route, tuple[str, ...]]:
        """Return the route and the values of its parameters; raise `RouteNotFound` or `MethodNotAllowed`."""
        known = self._known.get((method, path))
        if known is not None:
            return known
        before, _, last = path.rpartition(b"/")
        is_numbered = last.isdigit()
        if is_numbered and (numbered := self._numbered.get((method, before))) is not None:
            route, params = numbered
            return route, (*params, last.decode())
        found = route, params = self._find(method.decode("latin-1"), path)
        if len(path) <= _LONGEST_REMEMBERED:
            if is_numbered and route.path.get(route.parameters[-1]) is int:
                _remember(self._numbered, (method, before), (route, params[:-1]))
            elif not route.names_one:
                _remember(self._known, (method, path), found)
        return found

    def _find(self, method: str, path: bytes) -> tuple[Route, tuple[str, ...]]:
        try:
            parts = path.decode("ascii").strip("/").split("/")
            if b"%" in path:
                parts = [unquote(part, errors="strict") for part in parts]
        except UnicodeDecodeError as error:
            raise BadRequest("The path is not valid UTF-8, percent-encoded.") from error
        found = _walk(self._root, parts, 0, ())
        if found is None:
            raise RouteNotFound(shown_path(path))
        node, params = found
        if path.endswith(b"/") and _is_exact(node):
            raise RouteNotFound(shown_path(path))
        route = node.methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodNotAllowed(method, shown_path(path), allowed_methods(node))
        return route, params

    def nearest(self, path: bytes) -> Route | None:
        """Return the route that shares most of the path: its dialect is the one that was meant, if any was."""
        node = self._root
        for part in path.decode("latin-1").strip("/").split("/"):
            child = node.children.get(part) or node.parameter_for(part)
            if child is None:
                break
            node = child
        return None if node is self._root else _first_route(node)

    def methods(self, path: bytes) -> list[str]:
        """Return the methods that are allowed at a path; none if there is no such path."""
        try:
            self._find("", path)
        except MethodNotAllowed as error:
            return list(error.allowed)
        except SqewError:
            return []
        return []


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[key] = value


def _walk(node: _Node, parts: list[str], at: int, params: tuple[str, ...]) -> tuple[_Node, tuple[str, ...]] | None:
    if at == len(parts):
        return (node, params) if node.methods else None
    child = node.children.get(parts[at])
    if child is not None and (found := _walk(child, parts, at + 1, params)) is not None:
        return found
    if (parameter := node.parameter_for(parts[at])) is not None:
        return _walk(parameter, parts, at + 1, (*params, parts[at]))
    return None


def _pattern_of(kind: Any) -> str:
    """Return the pattern that values of a type match, if it has one."""
    return next((said.pattern for said in get_args(kind) if isinstance(said, msgspec.Meta) and said.pattern), "")


def _first_route(node: _Node) -> Route | None:
    children = [*node.children.values(), *([node.parameter] if node.parameter is not None else [])]
    own = next(iter(node.methods.values()), None)
    return own or next((route for child in children if (route := _first_route(child)) is not None), None)


def _is_exact(node: _Node) -> bool:
    dialects = [dialect for route in node.methods.values() for dialect in (route.dialect, route.guest)]
    return any(dialect is not None and dialect.exact for dialect in dialects)


def allowed_methods(node: _Node) -> list[str]:
    methods = set(node.methods) if _is_exact(node) else {*node.methods, "OPTIONS"}
    if "GET" in methods:
        methods.add("HEAD")
    return sorted(methods)


def shown_path(path: bytes) -> str:
    """Return a path as it may stand in a sentence."""
    text = path.decode("latin-1")
    return text if len(text) <= 100 else text[:97] + "..."
