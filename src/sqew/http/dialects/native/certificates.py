"""The certificates that envelopes are checked with, in the native dialect."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from sqew.clock import timestamp
from sqew.envelopes.sns import certificate_path
from sqew.errors import NotFound
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.router import Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Headers, Request, Response
from sqew.model import SigningKey
from sqew.rules.values import shown

routes = Routes(DIALECT)

PEM = "application/x-pem-file"
_FILE = Annotated[
    str,
    Meta(
        description="The certificate's file, as it stands in an envelope's `SigningCertURL`.",
        examples=["SimpleNotificationService-0f1e2d3c4b5a69788796a5b4c3d2e1f0.pem"],
    ),
]
_FOR_EVER: Headers = ((b"cache-control", b"public, max-age=31536000, immutable"),)


class CertificateView(Struct):
    """A certificate that envelopes are, or were, signed with. The newest is in use."""

    id: str
    """The first 32 digits of its SHA-256."""
    url: str
    """The URL of the certificate, as envelopes say it."""
    created_at: str


@routes.get("/v1/cert", scope="open", answers={200: PEM})
async def show_certificate(service: Service, _request: Request) -> Response:
    """Show the certificate that envelopes are signed with."""
    return _pem((await service.publisher.signing_keys())[0])


@routes.get("/SimpleNotificationService.pem", scope="open", answers={200: PEM})
async def show_certificate_as_sns(service: Service, request: Request) -> Response:
    """Show the certificate that envelopes are signed with, on the path where SNS has it."""
    return await show_certificate(service, request)


@routes.get("/v1/certificates/{file}", scope="open", path={"file": _FILE}, answers={200: PEM})
async def show_certificate_file(service: Service, request: Request) -> Response:
    """Show any certificate, in use or not: an envelope says which one it was signed with."""
    file = request.params[0]
    for key in await service.publisher.signing_keys():
        if certificate_path(key.id).endswith(f"/{file}"):
            return _pem(key, _FOR_EVER)
    raise NotFound(f"There is no certificate {shown(file)}. The one in use is at /v1/cert.")


@routes.get("/v1/certificates", scope="admin", answers={200: list[CertificateView]})
async def list_certificates(service: Service, _request: Request) -> Response:
    """List the certificates, the one in use first."""
    keys = await service.publisher.signing_keys()
    return Response(200, encode([_view(service, key) for key in keys]))


@routes.post("/v1/certificates", scope="admin", answers={201: CertificateView})
async def rotate_certificate(service: Service, _request: Request) -> Response:
    """Sign with a new key from now on. The certificates of old keys stay where they are."""
    return Response(201, encode(_view(service, (await service.publisher.rotate())[0])))


def _view(service: Service, key: SigningKey) -> CertificateView:
    url = service.publisher.flows.base_url.rstrip("/") + certificate_path(key.id)
    return CertificateView(key.id, url, timestamp(key.created_at))


def _pem(key: SigningKey, headers: Headers = ()) -> Response:
    return Response(200, key.certificate, PEM.encode(), headers)
