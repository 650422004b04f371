"""The columns that ``format("sqew")`` reads and writes: refusals, and the words of these."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from sqew.errors import BadValue
from sqew.spark.source.schema import check_readable, check_writable

# Only Spark itself can read what schemas are written in.
pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize(
    "schema", ["id long", "body binary, id long", "headers map<string,string>, created_at timestamp"]
)
def test_a_narrower_schema_can_be_read(schema: str) -> None:
    check_readable(StructType.fromDDL(schema), archive=False)


def test_a_column_that_messages_do_not_have_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadValue, match=r"No column 'boddy' \(did you mean 'body'\?\) can be read"):
        check_readable(StructType.fromDDL("boddy string"), archive=False)
    with pytest.raises(BadValue, match="No column 'outcome'"):
        check_readable(StructType.fromDDL("outcome string"), archive=False)


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(BadValue, match="Column 'id' is bigint, not string"):
        check_readable(StructType.fromDDL("id string"), archive=False)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("boddy string", r"There is no column 'body' \(did you mean 'boddy'\?\)"),
        ("body string, id long", "No column 'id' can be written"),
        ("body string, lanes string", r"No column 'lanes' \(did you mean 'lane'\?\)"),
        ("body struct<a:int>", "Column 'body' must be string or binary, not struct<a:int>"),
        ("body string, priority string", "Column 'priority' must be int or bigint or smallint, not string"),
        ("body string, headers map<string,int>", "Column 'headers' must be map<string,string>"),
    ],
)
def test_columns_that_can_not_be_written_are_refused(schema: str, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        check_writable(StructType.fromDDL(schema))


def test_every_column_of_a_message_that_is_sent_can_be_written() -> None:
    check_writable(
        StructType.fromDDL(
            "body binary, format string, lane string, priority int, delay_ms long, ttl_ms long, key string, "
            "`group` string, headers map<string,string>"
        )
    )
