"""FIFO queues by their bare names: ``orders.fifo`` is ``orders`` under ``/v1``.

A plain queue may be called ``orders`` too, where another dialect made it. Then that one is meant by the bare name, and
the FIFO queue is shown by its whole name.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqew import operations as ops
from sqew.http.service import Service
from sqew.rules.rules import FIFO_SUFFIX


async def shown_name(service: Service, name: str) -> str:
    """The name that a queue is shown by, and found by."""
    return (await shown_names(service, [name], after=name))[0]


async def shown_names(service: Service, names: Sequence[str], prefix: str = "", after: str = "") -> list[str]:
    """The names that queues are shown by, for all queues of one prefix that come after a name.

    A plain queue comes before the FIFO queue of its name. So if there is one, it is among them, or was left out for
    the sake of ``prefix`` or ``after``: only then the store is asked. No more than 80 names are on that edge.
    """
    found = set(names)
    bare_names = [name.removesuffix(FIFO_SUFFIX) for name in names]
    on_edge = [
        bare
        for name, bare in zip(names, bare_names, strict=True)
        if bare != name and bare not in found and (bare <= after or not bare.startswith(prefix))
    ]
    if on_edge:
        pages = await service.broker.look(*[_first(bare) for bare in on_edge])
        found.update(info.name for page in pages for info in page)
    return [name if bare in found else bare for name, bare in zip(names, bare_names, strict=True)]


async def name_after(service: Service, shown: str) -> str:
    """The whole name of the queue that a page ended with, so that the next page begins after it."""
    if not shown or shown.endswith(FIFO_SUFFIX):
        return shown
    pages = await service.broker.look(_first(shown), _first(shown + FIFO_SUFFIX))
    names = {info.name for page in pages for info in page}
    return shown + FIFO_SUFFIX if shown not in names and shown + FIFO_SUFFIX in names else shown


def _first(prefix: str) -> ops.ListQueues:
    """The queue of that very name is the first of those whose names begin so, if there is one."""
    return ops.ListQueues(prefix, limit=1)
