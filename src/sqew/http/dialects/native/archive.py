"""The archive of a queue, in the native dialect: deleting messages that are kept elsewhere."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from sqew import operations as ops
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.dialects.native.queues import Purged
from sqew.http.router import Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Call, Request, Response
from sqew.model import Finished
from sqew.rules.values import LARGEST_ID

routes = Routes(DIALECT)


class FinishedRef(Struct, forbid_unknown_fields=True):
    """A message in the archive, as `export` shows it: a dead one that is requeued keeps its id, and may come again."""

    id: int
    finished_at: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LARGEST_ID})]
    """The time when it was acked or died, in epoch milliseconds."""


class FinishedMessages(Struct, forbid_unknown_fields=True):
    """Finished messages to delete, as many as a batch may hold."""

    messages: list[FinishedRef]


@routes.delete("/v1/queues/{name}/archive", scope="admin", body=FinishedMessages, answers={200: Purged})
def delete_archived(_service: Service, request: Request) -> Call:
    """Delete finished messages from the archive: those named that are still there as they were."""
    given: list[FinishedRef] = request.data.messages
    request.rows = len(given)
    return Call(
        ops.DeleteArchived(request.params[0], [Finished(one.id, one.finished_at) for one in given]),
        lambda count: Response(200, encode(Purged(count))),
    )
