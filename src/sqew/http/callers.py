"""Who calls, and in which region: the signature of a request, checked for real where there are credentials."""

from __future__ import annotations

import time

from sqew.errors import IncompleteSignature, MissingAuthenticationToken
from sqew.http.aws_names import USUAL_REGION, Names, check_region
from sqew.http.exchange import Request
from sqew.http.sigv4 import Scope, Verifier, credentials_of, scope_of
from sqew.publisher import Publisher
from sqew.settings import Settings

TOKEN_ACCESS_KEY = "sqew"
"""The access key whose secret is the server's token, where there is one and no other credentials."""


_MOST_REMEMBERED = 256
_LONGEST_REMEMBERED = 512


class Callers:
    """Lets AWS's clients in. Without credentials anybody may come, as on an emulator, but must say so."""

    def __init__(self, settings: Settings, publisher: Publisher) -> None:
        credentials = credentials_of(settings.aws_credentials)
        if not credentials and settings.auth_token:
            # A server that asks others for its token must not be open to who speaks SQS.
            credentials = {TOKEN_ACCESS_KEY: settings.auth_token}
        self._verifier = Verifier(credentials) if credentials else None
        self._account, self._publisher = settings.account_id, publisher
        self._names: dict[str, Names] = {}
        self._by_credential: dict[bytes, Names] = {}

    def names(self, request: Request) -> Names:
        """What things are called for who made the request; raises unless it may."""
        headers = request.headers
        if self._verifier is not None:
            scope = self._verifier.check(
                request.method, request.path, request.query, headers, bytes(request.body), time.time()
            )
            return self._in(scope.region)
        authorization = headers.get(b"authorization")
        if authorization is None:
            found = _scope(None, request.query)
            if found is None:
                raise MissingAuthenticationToken("Request is missing Authentication Token")
            return self._in(found.region)
        # A client signs every request anew, but always with the same credential.
        credential = authorization.partition(b",")[0]
        names = self._by_credential.get(credential)
        if names is None:
            found = _scope(authorization, b"")
            names = self._in(USUAL_REGION if found is None else found.region)
            if b"Credential=" in credential and len(credential) <= _LONGEST_REMEMBERED:
                if len(self._by_credential) >= _MOST_REMEMBERED:
                    self._by_credential.clear()
                self._by_credential[credential] = names
        return names

    def anybody(self) -> Names:
        """What things are called for who only follows a link in a message."""
        return self._in(USUAL_REGION)

    def _in(self, region: str) -> Names:
        names = self._names.get(region)
        if names is None:
            check_region(region)
            if len(self._names) >= 64:
                self._names.clear()
            names = self._names[region] = Names(self._publisher.base_url, self._account, region)
        return names


def _scope(authorization: bytes | None, query: bytes) -> Scope | None:
    try:
        return scope_of(authorization, query)
    except IncompleteSignature:
        # Whoever may do everything need not sign: but one who does not even try is lost.
        return None
