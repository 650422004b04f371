"""The cache of a server's API keys, so that a request need not read its key from the store."""

from __future__ import annotations

from sqew.core.broker import Broker
from sqew.model import GuardKey
from sqew.operations import ReadKeys


class Keychain:
    """All keys by their digest. Changes by this server count at once, those by others after the next `refresh`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._version = 0
        self._by_digest: dict[bytes, GuardKey] = {}
        self.ids: set[str] = set()
        broker.when_deleted(self._drop_keys_of)

    def find(self, digest: bytes) -> GuardKey | None:
        """Return the key with that digest. The time this takes reveals nothing of a key: its digest can't be chosen."""
        return self._by_digest.get(digest)

    async def refresh(self) -> None:
        """Read the keys again if any has changed."""
        ring = await self._broker.run(ReadKeys(self._version))
        if ring is not None:
            self._version = ring.version
            self._keep({key.digest: key for key in ring.keys})

    def _drop_keys_of(self, queue: str) -> None:
        self._keep({digest: key for digest, key in self._by_digest.items() if key.info.queue != queue})

    def _keep(self, by_digest: dict[bytes, GuardKey]) -> None:
        self._by_digest = by_digest
        self.ids = {key.info.id for key in by_digest.values()}
