"""Registration of ``format("sqew")``: Spark asks every module named ``pyspark_…`` for its ``DefaultSource``."""

from sqew.spark.source import SqewDataSource as DefaultSource

__all__ = ["DefaultSource"]
