"""Registers ``format("sqew")``: Spark asks each module whose name begins with ``pyspark_`` for its ``DefaultSource``."""

from sqew.spark.source import SqewDataSource as DefaultSource

__all__ = ["DefaultSource"]
