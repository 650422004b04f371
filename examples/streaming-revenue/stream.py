"""The stream: orders from one queue, revenue to another queue and to the lake. Stop it when and how you like.

python stream.py --url http://127.0.0.1:8888 --folder data
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from orders import PRODUCTS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from revenue import as_messages, enriched, parsed, products, revenue

import sqew.spark


def start(spark: SparkSession, url: str, folder: Path, per_batch: int = 5_000, *, ends: bool = False) -> StreamingQuery:
    """Start the stream, or go on with it: ``folder`` has the lake, and how far it has come.

    With ``ends`` it stops when it has read all orders that were there when it started.
    """
    orders = (
        spark.readStream.format("sqew")
        .option("url", url)
        .option("queue", "orders")
        .option("consumer", "revenue")
        .option("maxMessagesPerTrigger", per_batch)
        .load()
    )
    results = revenue(enriched(parsed(orders), products(spark, str(PRODUCTS))))
    return (
        results.writeStream.foreachBatch(partial(write, url, folder / "lake"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**({"availableNow": True} if ends else {"processingTime": "1 second"}))
        .start()
    )


def write(url: str, lake: Path, results: DataFrame, batch: int) -> None:
    """Write the results of a batch to both places. After a crash Spark comes with the same batch again.

    Then the queue knows its job and adds nothing, and in the lake it takes the place of what it wrote before.
    """
    query = results.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    results = results.persist()
    try:
        job = f"{query}-{batch}"
        as_messages(results).write.format("sqew").mode("append").options(url=url, queue="revenue", jobId=job).save()
        results.coalesce(1).write.mode("overwrite").parquet(str(lake / f"batch={batch}"))
    finally:
        results.unpersist()


def main() -> None:
    parser = argparse.ArgumentParser(description="Turn orders into revenue until it is stopped.")
    parser.add_argument("--url", required=True, help="the server that has the queues orders and revenue")
    parser.add_argument("--folder", type=Path, required=True, help="where the lake is, and how far the stream has come")
    parser.add_argument("--per-batch", type=int, default=5_000, help="how many orders at a time, at most (5,000)")
    parser.add_argument("--ends", action="store_true", help="stop after the orders that are there now")
    given = parser.parse_args()
    spark = sqew.spark.session(name="revenue", **{"spark.sql.shuffle.partitions": "2"})
    start(spark, given.url, given.folder, given.per_batch, ends=given.ends).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
