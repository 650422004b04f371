"""Queues in Spark: a data source, and the jobs that move and crunch many messages.

`session` starts Spark, and ``spark.read.format("sqew")`` reads a queue: see docs/spark.md.
"""

from sqew.spark.session import session

__all__ = ["session"]
