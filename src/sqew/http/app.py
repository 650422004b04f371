"""The way from a request to its response: find the route, admit, decode, call the handler, and word what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from inspect import isawaitable
from time import monotonic
from typing import Any, get_args
from urllib.parse import unquote_plus

import msgspec
from msgspec import Struct

from sqew.core.checks import check_operation
from sqew.core.loop_executors import Awaited, Unwanted
from sqew.errors import (
    BadBody,
    BadRequest,
    BadValue,
    QueueNotFound,
    RequestTimeout,
    SqewError,
    WrongContentType,
    nearest,
    quoted,
    shortened,
)
from sqew.formats.entry_limits import LARGE, Crowd
from sqew.http.lanes import RepeatedRequest, RequestLane, RequestLanes
from sqew.http.router import Dialect, Route
from sqew.http.security.guard import Guard, queue_of
from sqew.http.service import Service
from sqew.http.statuses import headers_of
from sqew.http.wire.compression import AT_ONCE_BYTES, asks_for_gzip, compressed, may_be_compressed, plain
from sqew.http.wire.duplicate_fields import check_repeats
from sqew.http.wire.exchange import BodyStream, Call, Request, Response, Stream, is_json
from sqew.model import Received
from sqew.operations import GetQueue, OpenConsumer, Receive
from sqew.rules.names import FIFO_SUFFIX

_log = logging.getLogger("sqew.http")

_REMEMBERED = 4_096
_LONGEST_REMEMBERED = 1_024
"""Longest query string, in bytes, that is cached decoded: otherwise made-up ones could fill the memory."""
_LONGEST_ID = 128
_LONGEST_SENTENCE = 300
"""Longest part of an error message to quote: msgspec quotes a value that is not allowed at any length."""
_SMALL_BODY = 16_384
_CHECKED_AT_ONCE = 1_048_576
"""Messages in a larger body are checked in a thread: to parse the JSON of 14 MiB of small objects takes 0.4 s."""
_BLANKS = b" \t\r\n"
"""Whitespace that JSON allows between tokens."""
_CLIENT_LEFT = 499
"""Status in logs and metrics for a request whose client did not wait for the response."""
_TAKING = frozenset({Receive, OpenConsumer})
"""Operations that take something away: messages, or a consumer from its holder."""


class App:
    """The application that handles requests. Implements `sqew.http.wire.contract.Application`."""

    def __init__(self, service: Service, guard: Guard, fallback: Dialect) -> None:
        self.service = service
        self._router = service.router
        self._broker = service.broker
        self._guard = guard
        self._counters = service.counters
        self._tracing = service.counters.tracing
        # How to word failures where no route says whose dialect it is.
        self._fallback = fallback
        self._options: dict[tuple[int, bytes], Any] = {}
        self._request_timeout_s = service.settings.request_timeout_ms / 1000
        self._tasks: dict[asyncio.Task[None], Request] = {}
        self._lanes = RequestLanes(self)
        self._crowds: dict[int, Crowd[Any]] = {}

    # The connection's side

    def begin(self, request: Request) -> None:
        """Find the route, and check that the request is admitted at all before its body is read."""
        server = request.connection.server
        given = request.headers.get(b"x-request-id")
        request.id = given if given is not None and _is_id(given) else server.new_id()
        if self._tracing is not None:
            request.trace = self._tracing.begin(request.headers)
        if request.method == b"OPTIONS":
            return
        request.route, request.params = self._router.find(request.method, request.path)
        self._guard.admit(request)
        if request.route.scope == "signed" and _has_large_body(request):
            # Of others' bodies nothing is held before it is known that they may call at all.
            self.service.identities.check_head(request)
        if request.route.streams:
            request.stream = BodyStream(request.connection)

    def expect_large(self, request: Request) -> None:
        """Raise unless the request's route takes a body: /livez and OPTIONS, for example, need no token."""
        route = request.route
        if route is None:
            raise BadBody("OPTIONS takes no body. Leave it out.")
        if route.decoder is None and not (route.raw or route.streams):
            raise BadBody(_takes_no_body(route))

    def handle(self, request: Request) -> None:
        """Answer a request: at once, at the end of this tick together with others, or from a task."""
        route = request.route
        if route is not None and route.batched is not None and route.batched.differ_in_path and not request.refusal:
            lane = self._lanes.of_begun(request)
            if lane is not None:
                lane.join(request)
                return
        self.handle_alone(request)

    def handle_alone(self, request: Request) -> None:
        """Answer a request by itself."""
        try:
            if request.refusal is not None:
                raise request.refusal
            if request.route is None:
                self._answer(request, self._guard.options(request, self._router.methods(request.path)))
                return
            self._decode(request, request.route)
            answer = request.route.handler(self.service, request)
            if type(answer) is Call:
                if request.trace is not None:
                    request.trace.through(answer.operation)
                if len(request.body) > _CHECKED_AT_ONCE:
                    self._keep(request, self._submit_checked(request, answer))
                else:
                    self.submit(request, answer)
            elif type(answer) is Response:
                self._answer(request, answer)
            else:
                self._start(request, answer)
        except SqewError as error:
            self._answer(request, self.failure(request, error))
        except Exception:  # noqa: BLE001 (it is logged, and the client must get an answer)
            self._answer(request, self.mistake(request))

    def still_admits(self, route: Route, key_id: str) -> bool:
        """Return True if a request with a head and a key that were admitted before can skip the checks."""
        return not self._broker.is_closed and self._guard.still_admits(route, key_id)

    def submit(self, request: Request, call: Call, *, is_checked: bool = False) -> None:
        """Submit a call, and answer the request with its result. ``is_checked``: the operation was checked before."""
        takes = type(call.operation) in _TAKING
        done = _Taking(self, request, call) if takes else partial(self.done, request, call)
        self._broker.submit(call.operation, done, is_checked=is_checked)

    async def _submit_checked(self, request: Request, call: Call) -> None:
        """Check a large call in a thread, so that others are answered meanwhile; then submit it."""
        try:
            await asyncio.to_thread(check_operation, call.operation, self._broker.limits)
            self.submit(request, call, is_checked=True)
        except SqewError as error:
            self._answer(request, self.failure(request, error))
        except Exception:  # noqa: BLE001 (it is logged, and the client must get an answer)
            self._answer(request, self.mistake(request))
        finally:
            request.task = None

    def call_of(self, request: Request, route: Route) -> Call:
        """Return the call with which a route always answers this head."""
        self._decode(request, route)
        call = route.handler(self.service, request)
        assert isinstance(call, Call)
        check_operation(call.operation, self._broker.limits)
        return call

    def handler_of_head(self, request: Request) -> RequestLane | RepeatedRequest | None:
        """Return the lane for requests with this head, if they may share one."""
        return self._lanes.of(request)

    @property
    def may_coalesce(self) -> bool:
        """True if no observer needs per-request events: then requests may be coalesced."""
        return not self._counters.notes_all and self._guard.leaves_answers

    def failure(self, request: Request | None, error: SqewError) -> Response:
        """Return the response for an error, in the words of the dialect that was spoken."""
        dialect = self._fallback if request is None else self._dialect(request)
        self._counters.failed(error, None if request is None else queue_of(request))
        if dialect.refuse is not None and request is not None:
            return dialect.refuse(request, error)
        status = dialect.status(error)
        return Response(status, dialect.failure(error, status), headers=headers_of(error))

    def _dialect(self, request: Request) -> Dialect:
        route = request.route or self._router.nearest(request.path)
        if route is None:
            return self._fallback
        if route.guest is not None and route.is_guest is not None and route.is_guest(request):
            return route.guest
        return route.dialect

    def refuse(self, request: Request, error: SqewError) -> None:
        """Answer a request that never arrived in full, or whose transaction failed with those of others."""
        self._answer(request, self.failure(request, error))

    def mistake(self, request: Request) -> Response:
        """Log an unexpected exception and its traceback; return a response with the request id to find it by."""
        _log.exception("request %s failed", request.id.decode("latin-1"))
        id = request.id.decode("latin-1")
        return self.failure(
            request, SqewError(f"Something went wrong in the server; its log says what (request {id}).")
        )

    def keep_up(self) -> None:
        """End the requests whose key has been deleted since they began. To be called once a second."""
        for task, request in list(self._tasks.items()):
            if request.key_id and not self._guard.still_opens(request):
                request.connection.abandon(request)
                task.cancel()

    # Reading

    def _decode(self, request: Request, route: Route) -> None:
        if route.raw:
            return
        if route.query is not None:
            request.options = self._options_of(route, route.query, request.query)
        elif request.query:
            names = shortened(", ".join(sorted(_pairs(request.query))), _LONGEST_SENTENCE)
            raise BadValue(f"{route.method} {route.pattern} takes no parameters in its URL ({names}). Remove them.")
        if request.stream is not None:
            return
        if request.key is not None:
            self._guard.verify_body(request, request.key)
        if route.decoder is None:
            # An empty object says nothing either: some clients always send one with POST.
            if request.body and not route.ignores_body and request.body.translate(None, _BLANKS) != b"{}":
                raise BadBody(_takes_no_body(route))
            return
        if not request.body:
            if route.body_optional:
                return
            raise BadBody(f"{route.method} {route.pattern} needs a JSON body. See /docs for its fields.")
        if route.reads_body:
            return
        if not route.any_type:
            check_json_type(request)
        decode = route.decoder.decode if len(request.body) <= LARGE else self._crowd(route, route.decoder).decode
        try:
            request.data = decode(request.body)
        except msgspec.ValidationError as error:
            raise route.misfit(f"The body is not right: {_explained(error, route.body)}.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadBody(f"The body is not valid JSON: {error}.") from error
        except RecursionError as error:
            raise BadBody("The body is nested too deep. Flatten it.") from error
        if route.required:
            check_repeats(request.body, request.data, route.required)

    def _crowd(self, route: Route, decoder: msgspec.json.Decoder[Any]) -> Crowd[Any]:
        """Return the decoder for the large bodies of a route."""
        crowd = self._crowds.get(id(route))
        if crowd is None:
            crowd = self._crowds[id(route)] = Crowd(route.body, decoder.decode, self.service.settings.max_batch)
        return crowd

    def _options_of(self, route: Route, kind: type[Struct], query: bytes) -> Any:
        # Most requests of a client have the same query, and what it is decoded to is frozen.
        known = self._options.get((id(route), query))
        if known is not None:
            return known
        pairs = _pairs(query)
        try:
            options = msgspec.convert(pairs, kind, strict=False)
        except msgspec.ValidationError as error:
            raise BadValue(f"The URL's parameters are not right: {_explained(error, kind)}.") from error
        for name in pairs:
            if getattr(options, name, name) is None:
                # msgspec takes the word for nothing at all.
                raise BadValue(f"The parameter '{name}' can't be null. Leave it out, or give it a value.")
        if len(query) <= _LONGEST_REMEMBERED:
            if len(self._options) >= _REMEMBERED:
                self._options.clear()
            self._options[id(route), query] = options
        return options

    # Answering

    def done(self, request: Request, call: Call, result: Any) -> None:
        """Answer with the result of a call: the transaction is over."""
        try:
            operation = call.operation
            if type(result) is list:
                if call.looked_up is not None and (looked_up := call.looked_up(result)) is not None:
                    self._start(request, looked_up)
                    return
                response = call.render(result)
            elif isinstance(result, SqewError):
                answer = self._in_a_fifo(request, result) if call.otherwise is None else call.otherwise(result)
                if answer is not None:
                    self._start(request, answer)
                    return
                response = self.failure(request, result)
            elif isinstance(result, Exception):
                raise result
            elif type(operation) is Receive:
                if not result.messages and (wait_ms := self.service.patience_ms(call.wait_ms, result)):
                    if self._came_to_nobody(request, operation, result):
                        return
                    request.waits = True
                    self._start(request, self._wait(request, operation, call, wait_ms))
                    return
                if result.messages and self._came_to_nobody(request, operation, result):
                    return
                request.rows = len(result.messages)
                response = call.render(result)
            else:
                response = call.render(result)
        except Exception:  # noqa: BLE001 (it is logged, and the client must get an answer)
            response = self.mistake(request)
        self._answer(request, response)

    def _in_a_fifo(self, request: Request, error: SqewError) -> Awaitable[Any] | None:
        """Answer for the FIFO queue of that name, where there is no other and the path may leave the suffix out."""
        if not isinstance(error, QueueNotFound) or request.route is None or not request.route.finds_fifo:
            return None
        name = request.params[0]
        if error.queue != name or name.endswith(FIFO_SUFFIX):
            return None
        return self._with_suffix(request, request.route, error)

    async def _with_suffix(self, request: Request, route: Route, missing: QueueNotFound) -> Any:
        params = request.params
        request.params = (params[0] + FIFO_SUFFIX, *params[1:])
        try:
            await self._broker.run(GetQueue(request.params[0]))
        except QueueNotFound:
            request.params = params
            raise missing from None
        answer = route.handler(self.service, request)
        return await answer if isawaitable(answer) else answer

    def _came_to_nobody(self, request: Request, operation: Receive, received: Received) -> bool:
        """Return True if the client has left since. Its messages go back at once, not when their leases run out.

        Messages that were taken for good can't go back: to answer is the only chance left, and a client that has only
        closed its sending side still reads.
        """
        if (operation.finish and received.messages) or not request.is_gone:
            return False
        self._broker.give_back(operation, received)
        self.abandon(request)
        return True

    def abandon(self, request: Request) -> None:
        """Give up a request whose client has left."""
        self._counters.answered(request, _CLIENT_LEFT, 0)
        request.connection.abandon(request)

    async def _wait(self, request: Request, operation: Receive, call: Call, wait_ms: int) -> Response:
        begun = monotonic()
        received = await self._broker.wait(operation, wait_ms, request.is_wanted)
        request.waited_s = min(monotonic() - begun, wait_ms / 1000)
        self._came_to_nobody(request, operation, received)
        request.rows = len(received.messages)
        return call.render(received)

    def _start(self, request: Request, answer: Any) -> None:
        self._keep(request, self._carry_out(request, answer))

    def _keep(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        """Start a task for a request; it ends with the request's connection."""
        task = asyncio.get_running_loop().create_task(work)
        request.task = task
        self._tasks[task] = request
        task.add_done_callback(self._tasks.pop)

    async def _answer_of(self, request: Request, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except QueueNotFound as error:
            found = self._in_a_fifo(request, error)
            if found is None:
                raise
            return await found

    async def _carry_out(self, request: Request, answer: Any) -> None:
        try:
            if not isinstance(answer, Stream):
                assert request.route is not None
                async with asyncio.timeout(None if request.route.long else self._request_timeout_s):
                    answer = await self._answer_of(request, answer)
            if isinstance(answer, Stream):
                await request.connection.stream(request, self._guard.finish(request, answer))
                self._counters.answered(request, answer.status, 0)
                return
            if isinstance(answer, Call):
                self.submit(request, answer)
                return
            response: Response = answer
        except Unwanted:
            self.abandon(request)
            return
        except TimeoutError:
            response = self.failure(
                request, RequestTimeout("It took longer than request_timeout_ms allows. Ask for less, or wait less.")
            )
        except SqewError as error:
            response = self.failure(request, error)
        except Exception:  # noqa: BLE001 (it is logged, and the client must get an answer)
            response = self.mistake(request)
        finally:
            request.task = None
        self._answer(request, response)

    def answer_all(self, requests: Sequence[Request], responses: Sequence[Response]) -> None:
        """Answer requests to one route that were handled together."""
        self._counters.answered_all(requests, responses)
        for request, response in zip(requests, responses, strict=True):
            request.connection.respond(request, response)

    def _answer(self, request: Request, response: Response) -> None:
        response = self._guard.finish(request, response)
        if may_be_compressed(response):
            if not asks_for_gzip(request):
                response = plain(response)
            elif len(response.body) > AT_ONCE_BYTES:
                self._keep(request, self._send_compressed(request, response))
                return
            else:
                response = compressed(response)
        self._send(request, response)

    async def _send_compressed(self, request: Request, response: Response) -> None:
        self._send(request, await asyncio.to_thread(compressed, response))

    def _send(self, request: Request, response: Response) -> None:
        self._counters.answered(request, response.status, len(response.body))
        request.connection.respond(request, response)


class _Taking(Awaited):
    """A callback that answers a request for messages or a consumer, unless its client has left when its turn comes."""

    __slots__ = ("_app", "_call", "_request")

    def __init__(self, app: App, request: Request, call: Call) -> None:
        self._app, self._request, self._call = app, request, call

    def __call__(self, result: Any, /) -> None:
        self._app.done(self._request, self._call, result)

    def is_wanted(self) -> bool:
        return self._request.is_wanted()

    def drop(self) -> None:
        self._app.abandon(self._request)


def check_json_type(request: Request) -> None:
    """Raise unless Content-Type is JSON or missing: any web page could send what a form can send."""
    if not is_json(request):
        shown = request.headers[b"content-type"].partition(b";")[0].decode("latin-1").strip().lower()[:60]
        raise WrongContentType(f"The body must be JSON, not {shown}. Add the header 'Content-Type: application/json'.")


def _has_large_body(request: Request) -> bool:
    """Return True if the body is larger than those that usually come with their heads."""
    headers = request.headers
    return b"transfer-encoding" in headers or int(headers.get(b"content-length", 0)) > _SMALL_BODY


def _takes_no_body(route: Route) -> str:
    names = ", ".join(route.query.__struct_encode_fields__) if route.query is not None else ""
    instead = f" What it is to do stands in its URL: {names}." if names else ""
    return f"{route.method} {route.pattern} takes no body. Leave it out.{instead}"


def _is_id(given: bytes) -> bool:
    return 0 < len(given) <= _LONGEST_ID and given.isascii() and given.decode("ascii").isprintable()


def _pairs(query: bytes) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in query.split(b"&"):
        if not part:
            continue
        try:
            name, _, value = (unquote_plus(text, errors="strict") for text in part.decode("ascii").partition("="))
        except UnicodeDecodeError as error:
            raise BadRequest("The URL's parameters are not valid UTF-8, percent-encoded.") from error
        if name in pairs:
            raise BadRequest(f"The URL has the parameter '{name}' twice. Give it once.")
        pairs[name] = value
    return pairs


def _explained(error: msgspec.ValidationError, kind: Any) -> str:
    """Return msgspec's sentence, with the nearest name where a field is misspelt."""
    sentence = shortened(str(error), _LONGEST_SENTENCE)
    _, unknown, rest = sentence.partition("unknown field `")
    # One message or an array of them: the fields are those of the message.
    kinds = (kind, *get_args(kind))
    found = [getattr(one, "__struct_encode_fields__", ()) for one in kinds]
    fields: tuple[str, ...] = next(filter(None, found), ())
    if not unknown or not fields:
        return sentence
    name = rest.partition("`")[0]
    return f"there is no {quoted(name)}{nearest(name, fields)}; the fields are: {', '.join(fields)}"
