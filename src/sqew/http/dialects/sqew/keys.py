"""The keys of a queue, in the Sqew dialect."""

from __future__ import annotations

from msgspec import Struct

from sqew import operations as ops
from sqew.envelopes.request_signature import new_key
from sqew.errors import Conflict
from sqew.http.dialects.sqew.dialect import DIALECT, encode
from sqew.http.router import Routes
from sqew.http.service import NO_STORE, Service
from sqew.http.wire.exchange import Call, Request, Response
from sqew.model import KeyInfo, KeyScope

routes = Routes(DIALECT)


class KeyRequest(Struct, forbid_unknown_fields=True):
    """A key to make, with the scopes that it allows. `signing`: every request with it must be signed."""

    scopes: list[KeyScope]
    label: str = ""
    signing: bool = False


class KeyView(Struct):
    """A key, as far as it may be shown."""

    id: str
    queue: str
    scopes: tuple[KeyScope, ...]
    label: str
    signing: bool
    created_at: int


class CreatedKey(KeyView, omit_defaults=True, kw_only=True):
    """A new key: `key`, and `signing_secret` if requests must be signed, are shown this once."""

    key: str
    """The key itself, which opens the queue. It is shown this once."""
    signing_secret: str | None = None


class Keys(Struct):
    keys: list[KeyView]


def _view(info: KeyInfo) -> KeyView:
    return KeyView(info.id, info.queue, info.scopes, info.label, info.signing, info.created_at)


@routes.post("/queues/{queue}/keys", scope="admin", body=KeyRequest, answers={201: CreatedKey})
async def create_key(service: Service, request: Request) -> Response:
    """Make a key for this queue alone, with the given scopes. It is shown once, and can't be shown again."""
    given: KeyRequest = request.data
    if not service.settings.auth_token:
        raise Conflict(
            "Without a server token everybody may do everything, so a key would protect nothing. "
            "Start the server with auth_token (SQEW_AUTH_TOKEN) set, then make keys."
        )
    made = new_key(request.params[0], given.scopes, given.label, signing=given.signing)
    info = await service.broker.run(made.creation)
    await service.keys.refresh()
    view = CreatedKey(
        info.id, info.queue, info.scopes, info.label, info.signing, info.created_at,
        key=made.key, signing_secret=made.secret,
    )  # fmt: skip
    return Response(201, encode(view), headers=NO_STORE)


@routes.get("/queues/{queue}/keys", scope="admin", answers={200: Keys})
def list_keys(_service: Service, request: Request) -> Call:
    """List the keys of a queue, without their secrets."""
    return Call(
        ops.ListKeys(request.params[0]),
        lambda found: Response(200, encode(Keys([_view(info) for info in found]))),
    )


@routes.delete("/queues/{queue}/keys/{id}", scope="admin", answers={204: None})
async def delete_key(service: Service, request: Request) -> Response:
    """Delete a key: from now on it opens nothing."""
    queue, id = request.params
    await service.broker.run(ops.DeleteKey(queue, id))
    await service.keys.refresh()
    return Response(204)
