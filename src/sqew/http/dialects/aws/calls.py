"""A call of an AWS client: its caller, its action and its wire, and the answers to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from sqew.errors import SqewError
from sqew.formats.entry_limits import LARGE, Crowd
from sqew.http.dialects.aws.identity import Identity
from sqew.http.dialects.aws.query import Elements, Shapes, as_xml, escape
from sqew.http.dialects.aws.refusals import JSON_TYPE, XML_TYPE, AwsError, Wire, in_aws_words, missing
from sqew.http.service import Service
from sqew.http.statuses import headers_of
from sqew.http.wire.exchange import Call, Headers, Request, Response, SharedCall

encode = msgspec.json.Encoder().encode

Answer = Response | Call | Awaitable[Response | Call]

_IN_QUERY = {"QueueDoesNotExist": "The specified queue does not exist for this wsdl version."}
"""Messages that the older protocol says in other words."""


def request_id(request: Request) -> bytes:
    """Return the request's id, a UUID as AWS's are: a new one if the client has chosen the id itself."""
    return request.connection.server.new_id() if b"x-request-id" in request.headers else request.id


class AwsCall:
    """A call of an action, with what its handler gets besides the parameters."""

    __slots__ = ("action", "identity", "names", "request", "service", "wire")

    def __init__(self, service: Service, request: Request, wire: Wire, action: Action, identity: Identity) -> None:
        self.service, self.request, self.wire, self.action = service, request, wire, action
        self.identity, self.names = identity, identity.names

    def queue(self, url: str | None) -> str:
        """Return the queue that a URL, or the path of the request, names."""
        if url:
            queue = self.names.queue_of_url(url)
        elif self.request.params:
            queue = self.names.queue(self.request.params[-1])
        else:
            raise missing("QueueUrl")
        self.request.queue = queue
        return queue

    def refuse(self, error: SqewError) -> Response:
        """Return the answer to a call that failed, and count the failure."""
        self.service.counters.failed(error, self.request.queue)
        return self.action.api.refuse(self.wire, error, self.request)

    @property
    def is_signed(self) -> bool:
        """True if the caller has signed, and does not only follow a link."""
        return self.identity.is_signed

    def ok(self, result: Struct | None = None) -> Response:
        """Return the answer to a call that succeeded."""
        id = request_id(self.request)
        if self.wire == "json":
            return Response(200, b"" if result is None else encode(result), JSON_TYPE, ((b"x-amzn-requestid", id),))
        return Response(200, self._xml(result, id.decode()), XML_TYPE, ((b"x-amzn-requestid", id),))

    def _xml(self, result: Struct | None, id: str) -> bytes:
        name, api = self.action.name, self.action.api
        inner = "" if result is None else f"<{name}Result>{as_xml(result, api.elements)}</{name}Result>"
        return (
            f'<?xml version="1.0"?><{name}Response xmlns="{api.namespace}">{inner}'
            f"<ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{name}Response>"
        ).encode()


Handler = Callable[[AwsCall, Any], Answer]
BatchHandler = Callable[[AwsCall, Sequence[Request]], SharedCall | None]
"""A handler of several requests like this call, in JSON; None, or an error: each must be answered by itself."""
H = TypeVar("H", bound=Handler)


class Action(Struct, frozen=True):
    """An action of a service."""

    name: str
    api: Api
    shape: type[Struct]
    decoder: msgspec.json.Decoder[Any]
    crowd: Crowd[Any]
    """The decoder of its parameters if they are large."""
    handler: Handler
    required: tuple[str, ...]
    sends: bool
    """True if backpressure applies: the caller must wait while there is more to write than can be written."""
    batched: BatchHandler | None = None

    def decoded(self, body: bytes) -> Any:
        """Return the parameters, decoded from JSON."""
        try:
            given = self.decoder.decode(body or b"{}") if len(body) <= LARGE else self.crowd.decode(body)
            return self._checked(given) if self.required else given
        except msgspec.ValidationError as error:
            raise AwsError("SerializationException", f"The request can't be read: {error}.") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise AwsError("SerializationException", "The body is not valid JSON.") from error

    def converted(self, parameters: dict[str, Any]) -> Any:
        """Return the parameters, converted from a form."""
        try:
            return self._checked(msgspec.convert(parameters, self.shape, strict=False))
        except msgspec.ValidationError as error:
            raise AwsError("InvalidParameterValueException", f"A parameter is not right: {error}.") from error

    def _checked(self, given: Any) -> Any:
        for field in self.required:
            if not getattr(given, field):
                raise missing(field)
        return given


class Api(Struct, frozen=True):
    """A service: its actions by name, and its way to write answers."""

    name: str
    target: str
    """The prefix of the action's name in ``X-Amz-Target``."""
    namespace: str
    elements: Elements
    shapes: Shapes
    words: Callable[[SqewError], AwsError] = in_aws_words
    """The conversion of errors into its words."""
    actions: dict[str, Action] = {}  # msgspec copies it

    def refuse(self, wire: Wire, error: SqewError, request: Request) -> Response:
        """Return the answer that refuses a request."""
        said, id = self.words(error), request_id(request)
        more: Headers = ((b"x-amzn-requestid", id), *headers_of(error))
        fault = "Receiver" if said.status >= 500 else "Sender"
        if wire == "json":
            extra: Headers = (
                # Without the prefix: Java's SDKs (1, and 2 up to 2.38) take the header as it is for the type's name.
                (b"x-amzn-errortype", said.type.encode()),
                (b"x-amzn-query-error", f"{said.aws_code};{fault}".encode()),
            )
            body = encode({"__type": f"com.amazonaws.{self.name}#{said.type}", "message": str(said)})
            return Response(said.status, body, JSON_TYPE, extra + more)
        message = _IN_QUERY.get(said.type) or str(said)
        text = (
            f'<?xml version="1.0"?><ErrorResponse xmlns="{self.namespace}"><Error><Type>{fault}</Type>'
            f"<Code>{escape(said.aws_code)}</Code><Message>{escape(message)}</Message><Detail/></Error>"
            f"<RequestId>{id.decode()}</RequestId></ErrorResponse>"
        )
        return Response(said.status, text.encode(), XML_TYPE, more)

    def action(
        self, shape: type[Struct], *required: str, sends: bool = False, batched: BatchHandler | None = None
    ) -> Callable[[H], H]:
        """Register the decorated function as the handler of the action that is named as its shape is."""

        def register(handler: H) -> H:
            name = shape.__name__
            decoder = msgspec.json.Decoder(shape)
            crowd = Crowd(shape, decoder.decode)
            self.actions[name] = Action(name, self, shape, decoder, crowd, handler, required, sends, batched)
            return handler

        return register
