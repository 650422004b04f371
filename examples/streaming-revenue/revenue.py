"""From orders to revenue: functions from DataFrames to DataFrames, the same for a stream, a pipeline and a test."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

ORDER = "order LONG, product STRING, quantity INT, at TIMESTAMP"
PRODUCT = "product STRING, name STRING, category STRING, price_cents LONG"
WINDOW = "10 minutes"
WAITED_FOR = "2 minutes"
"""How late an order may come and still count."""


def products(spark: SparkSession, file: str) -> DataFrame:
    """The table of products."""
    return spark.read.schema(PRODUCT).option("header", "true").csv(file)


def parsed(messages: DataFrame) -> DataFrame:
    """Messages of the queue as orders, which may come a little late."""
    orders = messages.select(F.from_json("body", ORDER).alias("order")).select("order.*")
    return orders.withWatermark("at", WAITED_FOR)


def enriched(orders: DataFrame, products: DataFrame) -> DataFrame:
    """Orders with the category of their product and what they cost. What is not on the list is left out."""
    return orders.join(F.broadcast(products), "product").withColumn("cents", F.col("quantity") * F.col("price_cents"))


def revenue(orders: DataFrame) -> DataFrame:
    """The revenue of every ten minutes by category: of a stream, each once, when no more orders can come for it."""
    windows = orders.groupBy(F.window("at", WINDOW).alias("window"), "category")
    sums = windows.agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    return sums.select(F.col("window.start").alias("begins"), "category", "orders", "cents")


def as_messages(results: DataFrame) -> DataFrame:
    """Results as messages for a queue."""
    row = F.struct(F.date_format("begins", "yyyy-MM-dd'T'HH:mm:ssXXX").alias("begins"), "category", "orders", "cents")
    return results.select(F.to_json(row).alias("body"))
