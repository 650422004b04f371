"""FIFO queues by their bare names: ``orders.fifo`` is ``orders`` under ``/v1``.

A plain queue may be called ``orders`` too, if another dialect made it. Then the bare name means the plain queue, and
the FIFO queue is shown by its whole name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from sqew import operations as ops
from sqew.http.service import Service
from sqew.model import Policy
from sqew.rules.names import FIFO_SUFFIX

BareNames = Mapping[str, str]
"""The bare names that FIFO queues are shown by, keyed by their whole names. Other queues are not in it."""


def is_fifo(name: str | None) -> bool:
    """Return True for the name of a FIFO queue: it is shown by its bare name unless a plain queue has that."""
    return name is not None and name.endswith(FIFO_SUFFIX)


async def bare_names(service: Service, names: Iterable[str | None]) -> BareNames:
    """Find the bare names that lead to FIFO queues. The store is asked only if some of the names are FIFO queues'."""
    bare = {name: name.removesuffix(FIFO_SUFFIX) for name in names if name is not None and is_fifo(name)}
    found = await _taken(service, [*bare, *bare.values()])
    # The bare name of a queue that is not there (yet) would be another queue's where it is put back.
    return {name: short for name, short in bare.items() if name in found and short not in found}


def policy_shown(policy: Policy, bare: BareNames) -> Policy:
    """Return the policy with the name that its dead-letter queue is shown by."""
    letters = policy.dead_letter
    return policy if letters is None else structs.replace(policy, dead_letter=bare.get(letters, letters))


async def shown_names(service: Service, names: Sequence[str], prefix: str = "", after: str = "") -> list[str]:
    """Return the names that queues are shown by, for all queues of one prefix that come after a name.

    A plain queue sorts before the FIFO queue of its name. So if there is one, it is among them, or was cut off by
    ``prefix`` or ``after``: only then is the store asked. No more than 80 names are on that edge.
    """
    found = set(names)
    bare_names = [name.removesuffix(FIFO_SUFFIX) for name in names]
    on_edge = [
        bare
        for name, bare in zip(names, bare_names, strict=True)
        if bare != name and bare not in found and (bare <= after or not bare.startswith(prefix))
    ]
    found |= await _taken(service, on_edge)
    return [name if bare in found else bare for name, bare in zip(names, bare_names, strict=True)]


async def name_after(service: Service, shown: str) -> str:
    """Return the whole name of the queue that a page ended with, so that the next page begins after it."""
    if not shown or shown.endswith(FIFO_SUFFIX):
        return shown
    pages = await service.broker.read(_first(shown), _first(shown + FIFO_SUFFIX))
    names = {info.name for page in pages for info in page}
    return shown + FIFO_SUFFIX if shown not in names and shown + FIFO_SUFFIX in names else shown


async def _taken(service: Service, names: Iterable[str]) -> set[str]:
    """Return those of the names that queues have."""
    reads = [_first(name) for name in names]
    pages = await service.broker.read(*reads) if reads else []
    return {info.name for page in pages for info in page}


def _first(prefix: str) -> ops.ListQueues:
    """Return the operation to find a queue by its name: of the names that begin so, the very name is the first."""
    return ops.ListQueues(prefix, limit=1)
