"""Deliveries and certificates of a server: `Client.deliveries`, `Client.certificates`, and their twins."""

from __future__ import annotations

from sqew.client import event_calls as calls
from sqew.client.callers import AsyncDo, Do
from sqew.model import CertificateInfo, Delivery, DeliveryState, Retried

Found = list[Delivery]
Known = list[CertificateInfo]


class Deliveries:
    """Events on their way to endpoints, and those that never got there."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def list(
        self,
        state: DeliveryState | None = None,
        subscription_id: int | None = None,
        *,
        limit: int = 100,
        after: int = 0,
    ) -> Found:
        """Deliveries by id, those after the given one, without their bodies."""
        return self._do(calls.deliveries(state, subscription_id, limit, after))

    def get(self, id: int) -> Delivery:
        """One delivery, with what is posted."""
        return self._do(calls.delivery(id))

    def retry(self, id: int) -> Delivery:
        """Have an exhausted delivery tried again from the start."""
        return self._do(calls.retry(id))

    def retry_all(self, subscription_id: int | None = None) -> Retried:
        """Have all exhausted deliveries tried again (of a subscription); how many, and how many could not be."""
        return self._do(calls.retry_all(subscription_id))

    def drop(self, id: int) -> None:
        """Delete a delivery, exhausted or not."""
        self._do(calls.drop(id))

    def drop_all(self, subscription_id: int | None = None) -> int:
        """Delete all exhausted deliveries (of a subscription); how many."""
        return self._do(calls.drop_all(subscription_id))


class AsyncDeliveries:
    """The methods of `Deliveries`, to be awaited."""

    def __init__(self, do: AsyncDo) -> None:
        self._do = do

    async def list(
        self,
        state: DeliveryState | None = None,
        subscription_id: int | None = None,
        *,
        limit: int = 100,
        after: int = 0,
    ) -> Found:
        """Deliveries by id, those after the given one, without their bodies."""
        return await self._do(calls.deliveries(state, subscription_id, limit, after))

    async def get(self, id: int) -> Delivery:
        """One delivery, with what is posted."""
        return await self._do(calls.delivery(id))

    async def retry(self, id: int) -> Delivery:
        """Have an exhausted delivery tried again from the start."""
        return await self._do(calls.retry(id))

    async def retry_all(self, subscription_id: int | None = None) -> Retried:
        """Have all exhausted deliveries tried again (of a subscription); how many, and how many could not be."""
        return await self._do(calls.retry_all(subscription_id))

    async def drop(self, id: int) -> None:
        """Delete a delivery, exhausted or not."""
        await self._do(calls.drop(id))

    async def drop_all(self, subscription_id: int | None = None) -> int:
        """Delete all exhausted deliveries (of a subscription); how many."""
        return await self._do(calls.drop_all(subscription_id))


class Certificates:
    """What receivers check the signatures of envelopes with."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def pem(self) -> str:
        """The certificate in use, in PEM."""
        return self._do(calls.certificate_pem())

    def list(self) -> Known:
        """All certificates, the one in use first."""
        return self._do(calls.certificates())

    def rotate(self) -> CertificateInfo:
        """Sign with a new key from now on. Old certificates stay where the envelopes say that they are."""
        return self._do(calls.rotate())


class AsyncCertificates:
    """The methods of `Certificates`, to be awaited."""

    def __init__(self, do: AsyncDo) -> None:
        self._do = do

    async def pem(self) -> str:
        """The certificate in use, in PEM."""
        return await self._do(calls.certificate_pem())

    async def list(self) -> Known:
        """All certificates, the one in use first."""
        return await self._do(calls.certificates())

    async def rotate(self) -> CertificateInfo:
        """Sign with a new key from now on. Old certificates stay where the envelopes say that they are."""
        return await self._do(calls.rotate())
