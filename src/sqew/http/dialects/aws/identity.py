"""The identity of a caller and its region, from the signature, which is verified if there are credentials."""

from __future__ import annotations

import time

from msgspec import Struct

from sqew.core.publisher import Publisher
from sqew.errors import IncompleteSignature, MissingAuthenticationToken, SignatureDoesNotMatch
from sqew.http.dialects.aws.names import AwsNames, check_region, remember
from sqew.http.dialects.aws.sigv4 import Scope, Verifier, credentials_of, scope_of
from sqew.http.wire.exchange import Request
from sqew.rules.regions import USUAL_REGION
from sqew.settings import Settings

TOKEN_ACCESS_KEY = "sqew"
"""The access key whose secret is the server's token, if there is one and no other credentials."""
_MOST_REMEMBERED = 256
_MOST_REGIONS = 64


class Identity(Struct, frozen=True):
    """The caller that makes a request."""

    names: AwsNames
    """The names of things in its region."""
    service: str = ""
    """The only service that its signature is good for; empty if signatures are not verified."""
    is_signed: bool = True
    """True if it has signed, and does not only follow a link."""


class Identities:
    """The admission of AWS's clients. Without credentials any signature will do, as on an emulator, but not none."""

    def __init__(self, settings: Settings, publisher: Publisher) -> None:
        credentials = credentials_of(settings.aws_credentials)
        self._verifier = Verifier(credentials) if credentials else None
        if not credentials and settings.auth_token:
            # A server that asks others for its token must not be open to who speaks SQS.
            advice = f"Use the access key '{TOKEN_ACCESS_KEY}', with the server's token as its secret."
            self._verifier = Verifier({TOKEN_ACCESS_KEY: settings.auth_token}, advice=advice)
        self._account, self._publisher = settings.account_id, publisher
        self._names: dict[str, AwsNames] = {}
        self._by_credential: dict[bytes, Identity] = {}

    @property
    def trust_all(self) -> bool:
        """True if signatures are not verified."""
        return self._verifier is None

    def check_head(self, request: Request) -> None:
        """Raise if the head alone shows that `identify` will raise: then the body need not be received."""
        if self._verifier is not None:
            self._verifier.check_head(request.query, request.headers, time.time())
        elif b"authorization" not in request.headers and _scope(None, request.query) is None:
            raise MissingAuthenticationToken("Request is missing Authentication Token")

    def identify(self, request: Request) -> Identity:
        """Return the caller that makes a request; raise if it may make none."""
        headers = request.headers
        if self._verifier is not None:
            scope = self._verifier.check(
                request.method, request.path, request.query, headers, bytes(request.body), time.time()
            )
            return Identity(self._in(scope.region), scope.service)
        authorization = headers.get(b"authorization")
        if authorization is None:
            found = _scope(None, request.query)
            if found is None:
                raise MissingAuthenticationToken("Request is missing Authentication Token")
            return Identity(self._in(found.region))
        # A client signs every request anew, but always with the same credential.
        credential = authorization.partition(b",")[0]
        identity = self._by_credential.get(credential)
        if identity is None:
            found = _scope(authorization, b"")
            identity = Identity(self._in(USUAL_REGION if found is None else found.region))
            if b"Credential=" in credential:
                remember(self._by_credential, credential, identity, _MOST_REMEMBERED)
        return identity

    def anybody(self) -> Identity:
        """Return the caller that only follows a link in a message."""
        return Identity(self._in(USUAL_REGION), is_signed=False)

    def _in(self, region: str) -> AwsNames:
        names = self._names.get(region)
        if names is None:
            check_region(region)
            if len(self._names) >= _MOST_REGIONS:
                self._names.clear()
            names = self._names[region] = AwsNames(self._publisher.flows.base_url, self._account, region)
        return names


def wrong_service(called: str, signed_for: str) -> SignatureDoesNotMatch:
    return SignatureDoesNotMatch(
        f"Credential should be scoped to correct service: '{called}'. Sign for it, not for '{signed_for}'."
    )


def _scope(authorization: bytes | None, query: bytes) -> Scope | None:
    try:
        return scope_of(authorization, query)
    except IncompleteSignature:
        # Whoever may do everything need not sign: but one who does not even try is lost.
        return None
