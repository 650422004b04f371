"""The same as a declarative pipeline: what there is to be, and Spark finds out in which order to make it.

The revenue is a table of the pipeline, which is the lake here; from it, it goes to the queue.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE))

import revenue as steps  # noqa: E402  it is in the folder that was just added

spark = SparkSession.active()


@dp.materialized_view
def products() -> DataFrame:
    """What can be ordered."""
    return steps.products(spark, str(HERE / "products.csv"))


@dp.temporary_view
def orders() -> DataFrame:
    """The orders as they come in, with what they cost. The server is the one that SQEW_URL names."""
    messages = spark.readStream.format("sqew").option("queue", "orders").option("consumer", "pipeline").load()
    return steps.enriched(steps.parsed(messages), spark.read.table("products"))


@dp.table
def revenue() -> DataFrame:
    """The revenue of every ten minutes by category."""
    return steps.revenue(spark.readStream.table("orders"))


dp.create_sink("revenue_queue", "sqew", {"queue": "revenue"})


@dp.append_flow(target="revenue_queue")
def revenue_to_queue() -> DataFrame:
    return steps.as_messages(spark.readStream.table("revenue"))
