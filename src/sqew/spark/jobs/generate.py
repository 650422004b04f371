"""`sqew spark generate`: a synthetic workload, into a queue or into files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
from pyspark.errors import AnalysisException

from sqew.errors import BadValue
from sqew.spark.files import located
from sqew.spark.transforms.generate import Workload, generated, to_send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["jsonl", "parquet"]


def job_id_of(workload: Workload) -> str:
    """Return the job's id if the user gives none: the same for the same workload."""
    return f"generate-{hashlib.sha256(msgspec.json.encode(workload)).hexdigest()[:24]}"


def send(
    spark: SparkSession,
    workload: Workload,
    options: Mapping[str, str],
    *,
    job_id: str | None = None,
    grouped: bool = False,
    partitions: int | None = None,
) -> None:
    """Send the workload to a queue: all of it, and once for each job. ``options`` are those of ``format("sqew")``."""
    rows = to_send(_made(spark, workload, partitions), workload, grouped=grouped)
    named = {**options, "jobId": job_id or job_id_of(workload)}
    rows.write.format("sqew").options(**named).mode("append").save()


def write(spark: SparkSession, workload: Workload, folder: str, format: Format, partitions: int | None = None) -> None:
    """Write the workload to a new folder: as Parquet with all columns of messages, or as JSONL of bodies."""
    rows = _made(spark, workload, partitions)
    try:
        if format == "parquet":
            rows.write.parquet(located(folder))
        else:
            rows.select("body").write.text(located(folder))
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise BadValue(f"{folder} exists already. Name a folder that does not, or delete it first.") from error


def _made(spark: SparkSession, workload: Workload, partitions: int | None) -> DataFrame:
    return generated(spark.range(0, workload.count, 1, partitions), workload)
