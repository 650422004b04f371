"""Validation of bodies against a schema that the user gives in Spark's words, field by field."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from msgspec import Meta
from pyspark.sql import types as spark

from sqew.errors import BadValue
from sqew.formats.files import Format

_PLAIN: dict[type[spark.DataType], Any] = {
    spark.StringType: str,
    spark.BooleanType: bool,
    spark.FloatType: float,
    spark.DoubleType: float,
    spark.DateType: dt.date,
    spark.TimestampType: dt.datetime,
    spark.DecimalType: Decimal,
}
_BITS: dict[type[spark.DataType], int] = {
    spark.ByteType: 8,
    spark.ShortType: 16,
    spark.IntegerType: 32,
    spark.LongType: 64,
}

Fit = Callable[[bytes], bytes]
"""A function that returns the body as it is to be sent, or raises if it does not fit."""


def parse_schema(ddl: str) -> spark.StructType:
    """Parse a schema like ``sku INT NOT NULL, price DOUBLE``. A session must be active."""
    from pyspark.errors import PySparkException

    try:
        schema = spark.StructType.fromDDL(ddl)
    except PySparkException as error:
        raise BadValue(f"--schema can't be {ddl!r}: write it like 'sku INT NOT NULL, price DOUBLE'.") from error
    if not isinstance(schema, spark.StructType) or not schema.fields:
        raise BadValue(f"--schema can't be {ddl!r}: it must name at least one field.")
    _type_of(schema, "")
    return schema


def fitting(schema: spark.StructType, format: Format) -> Fit:
    """Return a check of bodies. Those of JSONL are sent unchanged; those of CSV get the types of the schema."""
    kind = _type_of(schema, "")
    if format == "csv":
        return _converter(schema, kind)
    decode = msgspec.json.Decoder(kind).decode

    def check(body: bytes) -> bytes:
        decode(body)
        return body

    return check


def _converter(schema: spark.StructType, kind: Any) -> Fit:
    decode, encode = msgspec.json.Decoder(dict[str, str]).decode, msgspec.json.Encoder().encode
    texts = {field.name for field in schema.fields if isinstance(field.dataType, spark.StringType)}

    def convert(body: bytes) -> bytes:
        # A cell without a text is no number, and no date either: it is none.
        cells = {name: text for name, text in decode(body).items() if text or name in texts}
        fields = msgspec.to_builtins(msgspec.convert(cells, kind, strict=False), builtin_types=(Decimal,))
        return encode({name: fields.get(name, text) for name, text in cells.items()})

    return convert


def _type_of(schema: spark.DataType, where: str) -> Any:
    """Return a schema as a type for msgspec."""
    match schema:
        case spark.StructType():
            # A TypedDict and not a class of msgspec's own: names of fields need not be names of Python's.
            return _fields_of(schema, where)
        case spark.ArrayType():
            return list[_or_none(_type_of(schema.elementType, where), schema.containsNull)]  # type: ignore[misc]
        case spark.MapType():
            return dict[str, _or_none(_type_of(schema.valueType, where), schema.valueContainsNull)]  # type: ignore[misc]
    if (bits := _BITS.get(type(schema))) is not None:
        return Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
    if type(schema) in _PLAIN:
        return _PLAIN[type(schema)]
    raise BadValue(f"--schema: field '{where}' can't be {schema.simpleString()}. Take one of JSON's, or STRING.")


def _fields_of(schema: spark.StructType, where: str) -> Any:
    fields = {}
    for field in schema.fields:
        kind = _type_of(field.dataType, f"{where}.{field.name}".lstrip("."))
        fields[field.name] = NotRequired[_or_none(kind, True)] if field.nullable else kind
    return TypedDict("Body", fields)  # type: ignore[operator]


def _or_none(kind: Any, nullable: bool) -> Any:
    return kind | None if nullable else kind
