"""Fixtures of Spark's tests: one session, and real servers on either store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from sqew.spark import session
from tests.spark.quick_java import QUICK_JAVA
from tests.support.serving import Serving, servers, serving, shared_server

__all__ = ["servers", "serving", "shared_server"]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Yield the one session of a run: two cores, and a task may fail twice before its job does.

    Python is given few rows at a time, so that a small table is enough to see what happens between two of these.
    """
    settings = {
        **QUICK_JAVA,
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    }
    made = session("local[2,3]", "sqew tests", **settings)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def sqlite_server(servers: Callable[[str], Serving]) -> Serving:
    """Return a server whose queues are in a file: use queues of a name of your own."""
    return servers("sqlite")


@pytest.fixture(scope="session")
def postgres_server(servers: Callable[[str], Serving]) -> Serving:
    """Return a server whose queues are in PostgreSQL: use queues of a name of your own."""
    return servers("postgres")


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, servers: Callable[[str], Serving]) -> Serving:
    """Return a server on each store in turn: use queues of a name of your own."""
    return servers(request.param)


@pytest.fixture(scope="session")
def new_queue() -> Callable[..., str]:
    """Return a function that makes a queue with a name of its own: ``new_queue(server, lanes={"fast": 1})``."""

    def make(server: Serving, **policy: object) -> str:
        name = f"spark-{next(_numbers)}"
        answer = server.call("POST", "/v1/queues", {"name": name, **policy})
        assert answer.status in (200, 201), answer.body
        # Which is shown there by its bare name.
        return f"{name}.fifo" if policy.get("fifo") else name

    return make
