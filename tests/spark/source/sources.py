"""Parts of the tests of ``format("sqew")``: tables over queues, the cause of a failure, and a network that cuts."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sqew.client import Client
from sqew.errors import SqewError
from sqew.spark.runtime.failures import cause_of
from tests.support.serving import Serving


def read(spark: SparkSession, server: Serving, queue: str, schema: str | None = None, **options: str) -> DataFrame:
    """Return a queue as a table."""
    reader = spark.read.format("sqew").options(**{"url": server.url, "queue": queue, **options})
    return (reader if schema is None else reader.schema(schema)).load()


def write(table: DataFrame, server: Serving, queue: str, **options: str) -> None:
    """Add a table to a queue."""
    writer = table.write.format("sqew").options(**{"url": server.url, "queue": queue, **options})
    writer.mode("append").save()


def refusal(action: Callable[[], Any]) -> SqewError:
    """Return the error behind the one that Spark raises."""
    with pytest.raises(PySparkException) as raised:
        action()
    return cause_of(raised.value)


def values(server: Serving, queue: str) -> list[Any]:
    """Return the bodies that wait in a queue, in the order in which they were sent."""
    with Client(server.url) as client:
        return [message.value for message in client.peek(queue, 1_000)]


def depth(server: Serving, queue: str) -> int:
    """Count the messages of a queue."""
    found: int = server.call("GET", f"/v1/queues/{queue}").json["queue_length"]
    return found


@contextlib.contextmanager
def cutting(server: Serving, after_bytes: int, connections: int = 1) -> Iterator[str]:
    """Yield the URL of a proxy to a server that cuts the first connections after so many bytes of the answer."""
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listening, server, after_bytes, connections), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()


def _accept(listening: socket.socket, server: Serving, after_bytes: int, connections: int) -> None:
    with contextlib.suppress(OSError):
        for number in range(1_000_000):
            client, _ = listening.accept()
            most = after_bytes if number < connections else None
            threading.Thread(target=_carry, args=(client, server.connect(), most), daemon=True).start()


def _carry(client: socket.socket, server: socket.socket, most: int | None) -> None:
    threading.Thread(target=_pass, args=(client, server, None), daemon=True).start()
    _pass(server, client, most)


def _pass(source: socket.socket, target: socket.socket, most: int | None) -> None:
    passed = 0
    with source, target, contextlib.suppress(OSError):
        while piece := source.recv(16_384):
            passed += len(piece)
            if most is not None and passed > most:
                break
            target.sendall(piece)
        # What else holds the connections open is told that they are over.
        source.shutdown(socket.SHUT_RDWR)
        target.shutdown(socket.SHUT_RDWR)
