"""FIFO queues by their bare names: ``orders.fifo`` is ``orders`` under ``/v1``.

A plain queue may be called ``orders`` too, where another dialect made it. Then that one is meant by the bare name, and
the FIFO queue is shown by its whole name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from sqew import operations as ops
from sqew.http.service import Service
from sqew.model import Policy
from sqew.rules.rules import FIFO_SUFFIX

BareNames = Mapping[str, str]
"""By their whole names, the bare names that FIFO queues are shown by. Other queues are not in it."""


def is_fifo(name: str | None) -> bool:
    """Return True if a queue is shown by another name than its whole one, unless a plain queue has that."""
    return name is not None and name.endswith(FIFO_SUFFIX)


async def bare_names(service: Service, names: Iterable[str | None]) -> BareNames:
    """Find the bare names that lead to FIFO queues. The store is asked only where some of the names are theirs."""
    bare = {name: name.removesuffix(FIFO_SUFFIX) for name in names if name is not None and is_fifo(name)}
    found = await _taken(service, [*bare, *bare.values()])
    # The bare name of a queue that is not there (yet) would be another queue's where it is put back.
    return {name: short for name, short in bare.items() if name in found and short not in found}


def policy_shown(policy: Policy, bare: BareNames) -> Policy:
    """The policy with the name that its dead-letter queue is shown by."""
    letters = policy.dead_letter
    return policy if letters is None else structs.replace(policy, dead_letter=bare.get(letters, letters))


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
    found |= await _taken(service, on_edge)
    return [name if bare in found else bare for name, bare in zip(names, bare_names, strict=True)]


async def name_after(service: Service, shown: str) -> str:
    """The whole name of the queue that a page ended with, so that the next page begins after it."""
    if not shown or shown.endswith(FIFO_SUFFIX):
        return shown
    pages = await service.broker.read(_first(shown), _first(shown + FIFO_SUFFIX))
    names = {info.name for page in pages for info in page}
    return shown + FIFO_SUFFIX if shown not in names and shown + FIFO_SUFFIX in names else shown


async def _taken(service: Service, names: Iterable[str]) -> set[str]:
    """Find those of the names that queues have."""
    reads = [_first(name) for name in names]
    pages = await service.broker.read(*reads) if reads else []
    return {info.name for page in pages for info in page}


def _first(prefix: str) -> ops.ListQueues:
    """The queue of that very name is the first of those whose names begin so, if there is one."""
    return ops.ListQueues(prefix, limit=1)
