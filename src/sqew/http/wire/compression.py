"""Compression of responses for clients that accept gzip."""

from __future__ import annotations

import zlib

from msgspec.structs import replace

from sqew.http.wire.exchange import HTML, JSON, Headers, Request, Response

AT_ONCE_BYTES = 16_384
"""Largest body that is compressed on the loop rather than in a thread: 16 KiB take 0.2 ms."""
_SMALLEST_BYTES = 2_048
"""Smallest body that is compressed: less hardly saves a packet."""
_KINDS = frozenset({JSON, HTML})
"""Content types that are compressed. Responses to AWS's clients are of other types, and stay as they are."""
_LEVEL = 1
"""Level of compression: the higher ones take three times as long to save a tenth more."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_VARY: Headers = ((b"vary", b"accept-encoding"),)
_GZIP: Headers = ((b"content-encoding", b"gzip"), *_VARY)


def may_be_compressed(response: Response) -> bool:
    """Return True if a response is worth compressing."""
    return len(response.body) >= _SMALLEST_BYTES and response.content_type in _KINDS


def asks_for_gzip(request: Request) -> bool:
    """Return True if a client accepts gzip."""
    given = request.headers.get(b"accept-encoding", b"").lower()
    for one in given.split(b",") if b"gzip" in given else ():
        coding, _, weight = one.partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b".0") != b"q="
    return False


def plain(response: Response) -> Response:
    """Return a response for a client that does not accept gzip."""
    return replace(response, headers=response.headers + _VARY)


def compressed(response: Response) -> Response:
    """Return the same response, compressed."""
    compressor = zlib.compressobj(_LEVEL, wbits=_GZIP_WINDOW)
    body = compressor.compress(response.body) + compressor.flush()
    # Byte for byte it is another file.
    headers = tuple((name, b"W/" + value if name == b"etag" else value) for name, value in response.headers)
    return replace(response, body=body, headers=headers + _GZIP)
