"""`Queue.certificates`: certificates that receivers check the signatures of envelopes with."""

from __future__ import annotations

from sqew.embedded.publishing import EmbeddedPublisher
from sqew.envelopes.sns import certificate_path
from sqew.model import CertificateInfo, SigningKey

Known = list[CertificateInfo]


class EmbeddedCertificates:
    """The certificates of the file, which every server on it serves."""

    def __init__(self, publisher: EmbeddedPublisher) -> None:
        self._publisher = publisher

    def pem(self) -> str:
        """Return the certificate in use, in PEM. The first is made when it is first needed."""
        return self._publisher.signing_keys()[0].certificate.decode()

    def list(self) -> Known:
        """Return all certificates, the one in use first."""
        return [self._info(key) for key in self._publisher.signing_keys()]

    def rotate(self) -> CertificateInfo:
        """Sign with a new key from now on. Old certificates stay at the addresses in envelopes."""
        return self._info(self._publisher.rotate()[0])

    def _info(self, key: SigningKey) -> CertificateInfo:
        return CertificateInfo(
            key.id, self._publisher.flows.base_url.rstrip("/") + certificate_path(key.id), key.created_at
        )
