"""Deliveries and certificates of a server: `Client.deliveries`, `Client.certificates`, and their twins."""

from __future__ import annotations

from sqew.client import event_calls as calls
from sqew.client.protocols import AsyncDo, Do
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
        """Return deliveries by id, those after the given one, without their bodies."""
        return self._do(calls.deliveries(state, subscription_id, limit, after))

    def get(self, id: int) -> Delivery:
        """Return a delivery, with the body that is posted."""
        return self._do(calls.delivery(id))

    def retry(self, id: int) -> Delivery:
        """Retry an exhausted delivery from the start."""
        return self._do(calls.retry(id))

    def retry_all(self, subscription_id: int | None = None) -> Retried:
        """Retry all exhausted deliveries (of a subscription); return how many, and how many could not be retried."""
        return self._do(calls.retry_all(subscription_id))

    def drop(self, id: int) -> None:
        """Delete a delivery, exhausted or not."""
        self._do(calls.drop(id))

    def drop_all(self, subscription_id: int | None = None) -> int:
        """Delete all exhausted deliveries (of a subscription); return how many."""
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
        """Return deliveries by id, those after the given one, without their bodies."""
        return await self._do(calls.deliveries(state, subscription_id, limit, after))

    async def get(self, id: int) -> Delivery:
        """Return a delivery, with the body that is posted."""
        return await self._do(calls.delivery(id))

    async def retry(self, id: int) -> Delivery:
        """Retry an exhausted delivery from the start."""
        return await self._do(calls.retry(id))

    async def retry_all(self, subscription_id: int | None = None) -> Retried:
        """Retry all exhausted deliveries (of a subscription); return how many, and how many could not be retried."""
        return await self._do(calls.retry_all(subscription_id))

    async def drop(self, id: int) -> None:
        """Delete a delivery, exhausted or not."""
        await self._do(calls.drop(id))

    async def drop_all(self, subscription_id: int | None = None) -> int:
        """Delete all exhausted deliveries (of a subscription); return how many."""
        return await self._do(calls.drop_all(subscription_id))


class Certificates:
    """The certificates with which receivers check the signatures of envelopes."""

    def __init__(self, do: Do) -> None:
        self._do = do

    def pem(self) -> str:
        """Return the certificate in use, in PEM."""
        return self._do(calls.certificate_pem())

    def list(self) -> Known:
        """Return all certificates, the one in use first."""
        return self._do(calls.certificates())

    def rotate(self) -> CertificateInfo:
        """Sign with a new key from now on. Old certificates stay where the envelopes say that they are."""
        return self._do(calls.rotate())


class AsyncCertificates:
    """The methods of `Certificates`, to be awaited."""

    def __init__(self, do: AsyncDo) -> None:
        self._do = do

    async def pem(self) -> str:
        """Return the certificate in use, in PEM."""
        return await self._do(calls.certificate_pem())

    async def list(self) -> Known:
        """Return all certificates, the one in use first."""
        return await self._do(calls.certificates())

    async def rotate(self) -> CertificateInfo:
        """Sign with a new key from now on. Old certificates stay where the envelopes say that they are."""
        return await self._do(calls.rotate())
