"""Queues in Spark: a data source, and the jobs that move and crunch many messages.

>>> import sqew.spark
>>> spark = sqew.spark.session()  # doctest: +SKIP
>>> spark.read.format("sqew").option("url", "http://localhost:8800").option("queue", "orders").load()  # doctest: +SKIP
"""

from sqew.spark.session import session

__all__ = ["session"]
