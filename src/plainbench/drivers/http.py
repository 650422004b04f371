"""The driver of Sqew behind its server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from plainbench.drivers.base import Left, Place
from plainbench.drivers.sqew import DURABILITY, OurDriver, depths_of, number_in
from sqew.client import Client
from sqew.formats.ndjson import MessageLine

_TIMEOUT_S = 10.0
_decode = msgspec.json.Decoder(MessageLine).decode


class HttpDriver(OurDriver):
    """A driver of Sqew over HTTP; see `plainbench.drivers.base.Driver`."""

    name: ClassVar[str] = "sqew-http"
    does: ClassVar[str] = "Sqew behind its server, over HTTP. Without a url the lab starts one on sqlite.queue_file."
    needs: ClassVar[Sequence[str]] = ()
    options: ClassVar[Mapping[str, str]] = {
        "url": "Where the server is, if it is not the lab that starts it.",
        "token": "What opens it.",
        "database_url": "The PostgreSQL database of the server that the lab starts, in place of the file.",
        "durability": "What the server at url says of itself, to be printed beside its throughput.",
    }
    runs_in_virtual_time: ClassVar[bool] = False
    faults_inside: ClassVar[bool] = False
    shows_dead: ClassVar[bool] = True
    leases_outlive: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        options = place.options
        # Nothing is tried again behind the lab's back: it would not be on the log.
        self._queue: Client = Client(
            options.get("url"), token=options.get("token"), timeout_seconds=_TIMEOUT_S, retries=0
        )
        pragmas = place.config.sqlite.pragmas
        self.durability = str(options.get("durability") or DURABILITY[pragmas.synchronous])

    def left(self, topic: str) -> Iterator[Left]:
        dead_letters = self._queue.info(topic).policy.dead_letter
        yield from self._in_queue(topic, None)
        if dead_letters is not None:
            yield from self._in_queue(dead_letters, "dead")

    def _in_queue(self, queue: str, where: Literal["dead"] | None) -> Iterator[Left]:
        for text in self._queue.export(queue):
            line = _decode(text)
            yield Left(number_in(line.headers, line.id or 0), where or line.state or "ready")  # type: ignore[arg-type]

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        return depths_of(self._queue.stats(topic).depths)
