"""The one gateway for AWS's clients: it finds the service, the action and the wire of a request.

``X-Amz-Target`` names the action in JSON. In the Query protocol a form does, or the URL's parameters if there is no
body. Actions that SNS has go to SNS, all others to SQS; if both have one, the version of the protocol decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated

import msgspec
from msgspec import Struct

from sqew.errors import SqewError
from sqew.http.dialects.aws.calls import Action, Answer, Api, AwsCall
from sqew.http.dialects.aws.identity import Identity, wrong_service
from sqew.http.dialects.aws.query import nested, parse
from sqew.http.dialects.aws.refusals import JSON_TYPE, XML_TYPE, AwsError, Wire
from sqew.http.dialects.aws.sns import SNS
from sqew.http.dialects.aws.sqs import SQS
from sqew.http.router import Batched, Dialect, Routes, harmful
from sqew.http.service import Service, refuse_head
from sqew.http.wire.exchange import TEXT, Request, Response, SharedCall

_JSON = b"application/x-amz-json"
_FORM = b"application/x-www-form-urlencoded"
_SNS_VERSION = "2010-03-31"
_LINKS = ("ConfirmSubscription", "Unsubscribe")
"""The actions that a link in a message of SNS may ask for: the link is secret, and not signed."""
_ON_QUEUE = {"account": Annotated[str, msgspec.Meta(pattern="^[0-9]+$")]}
"""The account in a queue's URL. Paths that differ are those of other dialects."""
APIS: tuple[Api, ...] = (SQS, SNS)
_TARGETS: dict[bytes, Action] = {
    (api.target + name).encode(): action for api in APIS for name, action in api.actions.items()
}


class AwsFailure(Struct, rename={"kind": "__type"}):
    """An error, as JSON has it; in the Query protocol it is XML."""

    kind: str
    message: str


def _wire(request: Request) -> Wire:
    kind = _content_type(request)
    return "json" if kind.startswith(_JSON) or b"x-amz-target" in request.headers else "query"


def _content_type(request: Request) -> bytes:
    return request.headers.get(b"content-type", b"").lower()


def _refuse(request: Request, error: SqewError) -> Response:
    action: Action | None = request.data
    return (SQS if action is None else action.api).refuse(_wire(request), error, request)


def _failure(error: SqewError, _status: int) -> bytes:
    return msgspec.json.encode(AwsFailure(error.code, error.public_text))


DIALECT = Dialect(
    "AWS",
    "What AWS's own clients speak, in JSON 1.0 and in the Query protocol.",
    _failure,
    AwsFailure,
    _refuse,
    (JSON_TYPE.decode(), XML_TYPE.decode()),
)
routes = Routes(DIALECT)


def _kind(service: Service, request: Request) -> Hashable:
    """Return the action and the credential: requests that share both are coalesced. None: the request goes alone."""
    action = _TARGETS.get(request.headers.get(b"x-amz-target", b""))
    if action is None or action.batched is None or request.query or not service.identities.trust_all:
        # A signature is checked with the body that it stands for.
        return None
    return action.name, request.headers.get(b"authorization")


def _call_batch(service: Service, requests: Sequence[Request]) -> SharedCall | None:
    first = requests[0]
    identity = service.identities.identify(first)
    action = _TARGETS[first.headers[b"x-amz-target"]]
    _admit(service, first, action, identity, len(requests))
    assert action.batched is not None
    return action.batched(AwsCall(service, first, "json", action, identity), requests)


_TOGETHER = Batched(_kind, _call_batch)


@routes.post("/", scope="signed", raw=True, answers={200: "application/x-amz-json-1.0"}, batched=_TOGETHER)
def call(service: Service, request: Request) -> Answer:
    """Call an action of SQS or SNS, named by `X-Amz-Target` (JSON 1.0) or by `Action` in a form (Query)."""
    return _answer(service, request)


@routes.post(
    "/{account}/{queue}",
    scope="signed",
    raw=True,
    path=_ON_QUEUE,
    answers={200: "application/x-amz-json-1.0"},
    batched=_TOGETHER,
)
def call_on_queue(service: Service, request: Request) -> Answer:
    """Call an action of SQS or SNS at a queue's URL."""
    return _answer(service, request)


@routes.get("/{account}/{queue}", scope="signed", raw=True, path=_ON_QUEUE, by_link=harmful, answers={200: "text/xml"})
def call_by_url(service: Service, request: Request) -> Answer:
    """Call an action of SQS or SNS with everything in the URL, as a presigned one has it."""
    refuse_head(request)
    return _answer(service, request)


def _is_link(request: Request) -> bool:
    """Return True if a request may come from a link: one in a message, or the way to the documentation."""
    return not request.query or (_is_bare(request) and parse(request.query).get("Action") in _LINKS)


@routes.get("/", scope="signed", raw=True, by_link=_is_link, answers={200: "text/xml", 307: None})
def call_by_link(service: Service, request: Request) -> Answer:
    """Call an action of SNS or SQS with everything in the URL; without one, redirect to the documentation."""
    if not request.query:
        return Response(307, content_type=TEXT, headers=((b"location", b"/docs"),))
    refuse_head(request)
    if _is_bare(request):
        parameters = parse(request.query)
        if parameters.get("Action") in _LINKS:
            return _by_form(service, request, service.identities.anybody(), parameters)
    return _answer(service, request)


def _is_bare(request: Request) -> bool:
    """Return True if a request is no more than its URL: not signed, and without a body that could ask for more."""
    return not request.body and b"authorization" not in request.headers and b"X-Amz-" not in request.query


def _answer(service: Service, request: Request) -> Answer:
    identity = service.identities.identify(request)
    target = request.headers.get(b"x-amz-target")
    if target is not None:
        action = _TARGETS.get(target)
        if action is None:
            raise _unknown_action(target.rpartition(b".")[2].decode("latin-1"))
        _admit(service, request, action, identity)
        return action.handler(AwsCall(service, request, "json", action, identity), action.decoded(request.body))
    if request.body and not _content_type(request).startswith(_FORM):
        raise AwsError(
            "InvalidAction",
            "Two protocols are spoken here: JSON 1.0 (application/x-amz-json-1.0 with X-Amz-Target) and Query "
            "(application/x-www-form-urlencoded with Action).",
        )
    return _by_form(service, request, identity, {**parse(request.query), **parse(request.body)})


def _by_form(service: Service, request: Request, identity: Identity, parameters: dict[str, str]) -> Answer:
    name = parameters.get("Action")
    if not name:
        raise AwsError("MissingAction", "The request must contain the parameter Action.")
    action = _action(name, parameters)
    _admit(service, request, action, identity)
    given = action.converted(nested(parameters, action.api.shapes))
    return action.handler(AwsCall(service, request, "query", action, identity), given)


def _admit(service: Service, request: Request, action: Action, identity: Identity, count: int = 1) -> None:
    """Raise unless the caller's signature is for this service, and backpressure allows ``count`` more sends."""
    request.data = action
    if identity.service and identity.service != action.api.name:
        raise wrong_service(action.api.name, identity.service)
    if action.sends:
        service.backpressure.check(count)


def _action(name: str, parameters: dict[str, str]) -> Action:
    found = [api.actions[name] for api in APIS if name in api.actions]
    if not found:
        raise _unknown_action(name)
    is_sns = parameters.get("Version") == _SNS_VERSION or "TopicArn" in parameters
    return found[-1] if is_sns else found[0]


def _unknown_action(name: str) -> AwsError:
    return AwsError("InvalidAction", f"The action {name[:100]} is not valid for this endpoint.")
