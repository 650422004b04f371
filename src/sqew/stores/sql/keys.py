"""API keys, and the keys that envelopes are signed with."""

from __future__ import annotations

from typing import cast

from sqew.errors import Conflict, KeyNotFound
from sqew.model import GuardKey, KeyInfo, KeyRing, KeyScope, SigningKey
from sqew.operations import AddSigningKey, CreateKey, DeleteKey, ListKeys, ReadKeys, ReadSigningKeys
from sqew.stores.sql.transaction import Work

MOST_KEYS = 100
"""Most keys of a queue: servers keep all of them in memory."""


def create_key(work: Work, op: CreateKey) -> KeyInfo:
    state = work.catalog.queue(op.queue)
    if work.execute(work.sql.count_api_keys, (state.id,)).get >= MOST_KEYS:
        raise Conflict(f"Queue '{op.queue}' has {MOST_KEYS} keys already. Delete those that nobody uses.")
    work.execute(
        work.sql.insert_api_key,
        (state.id, op.id, op.digest, ",".join(op.scopes), op.label, op.secret, work.now),
    )
    work.execute(work.sql.bump_keys)
    return KeyInfo(op.id, state.name, tuple(op.scopes), op.label, op.secret is not None, work.now)


def list_keys(work: Work, op: ListKeys) -> list[KeyInfo]:
    if op.queue is None:
        return [key.info for key in _all_keys(work)]
    state = work.catalog.queue(op.queue)
    return [
        KeyInfo(id, state.name, _scopes(scopes), label, bool(signing), created_at)
        for id, scopes, label, signing, created_at in work.execute(work.sql.api_keys_of, (state.id,))
    ]


def delete_key(work: Work, op: DeleteKey) -> None:
    state = work.catalog.queue(op.queue)
    work.execute(work.sql.delete_api_key, (state.id, op.id))
    if not work.changes():
        raise KeyNotFound(op.id, op.queue)
    work.execute(work.sql.bump_keys)


def delete_keys_of(work: Work, queue_id: int) -> None:
    """Delete the keys of a queue that is deleted: none may open the next queue of that name."""
    work.execute(work.sql.delete_api_keys_of, (queue_id,))
    if work.changes():
        work.execute(work.sql.bump_keys)


def read_keys(work: Work, op: ReadKeys) -> KeyRing | None:
    version = work.execute(work.sql.keys_version).get
    if version == op.known_version:
        return None
    return KeyRing(version, _all_keys(work))


def _all_keys(work: Work) -> list[GuardKey]:
    keys = []
    for queue_id, id, scopes, label, created_at, digest, secret in work.execute(work.sql.all_api_keys).fetchall():
        state = work.catalog.queue_by_id(queue_id)
        if state is not None:
            info = KeyInfo(id, state.name, _scopes(scopes), label, secret is not None, created_at)
            keys.append(GuardKey(info, digest, secret))
    return keys


def _scopes(stored: str) -> tuple[KeyScope, ...]:
    return cast("tuple[KeyScope, ...]", tuple(stored.split(",")))


def read_signing_keys(work: Work, _op: ReadSigningKeys) -> list[SigningKey]:
    return [SigningKey(*row) for row in work.execute(work.sql.signing_keys)]


def add_signing_key(work: Work, op: AddSigningKey) -> list[SigningKey]:
    """Add a signing key. Of two servers that make one at once, the second takes over the first one's."""
    known = read_signing_keys(work, ReadSigningKeys())
    if (known[0].id if known else None) != op.instead_of:
        return known
    key = op.key
    work.execute(work.sql.insert_signing_key, (key.id, key.private_key, key.certificate, key.created_at))
    return [key, *known]
