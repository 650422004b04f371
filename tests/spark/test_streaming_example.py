"""The example of streaming revenue, small: its functions, the stream stopped and started again, and the pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC
from pathlib import Path

import pyarrow.dataset
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "streaming-revenue"


@pytest.fixture(autouse=True)
def example(monkeypatch):
    """Let the example's folder be imported from."""
    monkeypatch.syspath_prepend(str(EXAMPLE))


@pytest.fixture
def orders(sqlite_server):
    """Send orders to the queue of a server, and return the revenue that they come to."""
    from orders import expected, make

    for queue in ("orders", "revenue"):
        sqlite_server.call("DELETE", f"/v1/queues/{queue}")
        sqlite_server.call("POST", "/v1/queues", {"name": queue})
    made = list(make(240, seed=3))
    lines = b"".join(json.dumps({"body": order}).encode() + b"\n" for order in made)
    sqlite_server.call("POST", "/v1/queues/orders/bulk", lines, {"Content-Type": "application/x-ndjson"})
    return expected(made)


def in_queue(server):
    lines = server.call("GET", "/v1/queues/revenue/export").body.splitlines()
    found = [json.loads(line)["body"] for line in lines]
    return sorted((one["begins"].replace("Z", "+00:00"), one["category"], one["cents"]) for one in found)


def in_lake(folder):
    rows = pyarrow.dataset.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted((row["begins"].replace(tzinfo=UTC).isoformat(), row["category"], row["cents"]) for row in rows)


def as_rows(revenue: Counter):
    return sorted((*which, cents) for which, cents in revenue.items())


def test_revenue_is_the_sum_of_a_window_and_category(spark):
    from orders import PRODUCTS
    from revenue import as_messages, enriched, parsed, products, revenue

    bodies = [
        {"order": 1, "product": "P-001", "quantity": 2, "at": "2026-03-02T08:01:00+00:00"},
        {"order": 2, "product": "P-002", "quantity": 1, "at": "2026-03-02T08:09:59+00:00"},
        {"order": 3, "product": "P-010", "quantity": 1, "at": "2026-03-02T08:10:00+00:00"},
        {"order": 4, "product": "P-404", "quantity": 9, "at": "2026-03-02T08:10:00+00:00"},
    ]
    messages = spark.createDataFrame([(json.dumps(body),) for body in bodies], "body STRING")

    results = as_messages(revenue(enriched(parsed(messages), products(spark, str(PRODUCTS)))))

    assert sorted(row["body"] for row in results.collect()) == [
        '{"begins":"2026-03-02T08:00:00Z","category":"coffee","orders":2,"cents":1000}',
        '{"begins":"2026-03-02T08:10:00Z","category":"goods","orders":1,"cents":1450}',
    ]


def test_a_stream_that_was_stopped_goes_on_and_every_window_is_in_both_places_once(
    spark, sqlite_server, orders, tmp_path
):
    from stream import start

    first = start(spark, sqlite_server.url, tmp_path, per_batch=100)
    while not (tmp_path / "checkpoint" / "commits" / "0").exists():
        assert first.isActive, first.exception()
        first.awaitTermination(0.05)
    first.stop()
    start(spark, sqlite_server.url, tmp_path, per_batch=100, ends=True).awaitTermination()

    assert in_queue(sqlite_server) == as_rows(orders)
    assert in_lake(tmp_path / "lake") == as_rows(orders)


@pytest.mark.soak
def test_the_pipeline_comes_to_the_same(sqlite_server, orders, tmp_path):
    from sqew.spark.runtime.java import find, home_for_spark

    spec = (EXAMPLE / "pipeline" / "spark-pipeline.yml").read_text()
    spec = spec.replace("file:///tmp/sqew-revenue-pipeline", (tmp_path / "storage").as_uri())
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    (tmp_path / "transformations").symlink_to(EXAMPLE / "pipeline" / "transformations")
    java = {"JAVA_HOME": str(home_for_spark(find())), "PYSPARK_PYTHON": sys.executable}
    (tmp_path / "storage").mkdir()

    done = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run"],
        cwd=tmp_path,
        env={**os.environ, **java, "SQEW_URL": sqlite_server.url},
        capture_output=True,
        text=True,
        timeout=400,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert in_queue(sqlite_server) == as_rows(orders)
    assert in_lake(tmp_path / "spark-warehouse" / "revenue") == as_rows(orders)
