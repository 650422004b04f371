"""The columns of messages in Spark: those that can be read, and those that can be written."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sqew.errors import BadValue, nearest

_TEXT, _TIME, _HEADERS = StringType(), TimestampType(), MapType(StringType(), StringType())
_READ: dict[str, DataType] = {
    "id": LongType(),
    "queue": _TEXT,
    "lane": _TEXT,
    "priority": IntegerType(),
    "body": _TEXT,
    "format": _TEXT,
    "key": _TEXT,
    "group": _TEXT,
    "headers": _HEADERS,
    "attempts": IntegerType(),
    "state": _TEXT,
    "created_at": _TIME,
    "available_at": _TIME,
    "expires_at": _TIME,
}
_ARCHIVED: dict[str, DataType] = {"outcome": _TEXT, "finished_at": _TIME, "reason": _TEXT}

_WHOLE: tuple[type[DataType], ...] = (IntegerType, LongType, ShortType)
WRITABLE: dict[str, tuple[type[DataType], ...]] = {
    "body": (StringType, BinaryType),
    "format": (StringType,),
    "lane": (StringType,),
    "priority": _WHOLE,
    "delay_ms": _WHOLE,
    "ttl_ms": _WHOLE,
    "key": (StringType,),
    "group": (StringType,),
    "headers": (MapType,),
}
"""The columns that a write takes, and the types that each may have."""


def columns_of(archive: bool) -> dict[str, DataType]:
    """Return the columns of a queue, or of its archive."""
    return {**_READ, **_ARCHIVED} if archive else _READ


def schema_of(archive: bool) -> StructType:
    """Return the schema of a read if the user has not asked for fewer columns."""
    return StructType([StructField(name, kind) for name, kind in columns_of(archive).items()])


def check_readable(schema: StructType, archive: bool) -> None:
    """Raise unless messages can be read as these columns. ``body`` may be a string or bytes."""
    known = columns_of(archive)
    if not schema.fields:
        raise BadValue(f"The schema has no columns. Name at least one of: {', '.join(known)}.")
    for field in schema.fields:
        if field.name not in known:
            raise BadValue(_unknown("can be read", field.name, known))
        allowed = (_TEXT, BinaryType()) if field.name == "body" else (known[field.name],)
        if field.dataType not in allowed:
            wanted = " or ".join(kind.simpleString() for kind in allowed)
            raise BadValue(
                f"Column '{field.name}' is {wanted}, not {field.dataType.simpleString()}. Correct the schema."
            )


def check_writable(schema: StructType) -> None:
    """Raise unless these columns can be written as messages."""
    if "body" not in schema.fieldNames():
        close = nearest("body", schema.fieldNames())
        raise BadValue(
            f"There is no column 'body'{close}, which every message needs. Make one, for example by "
            "select(to_json(struct('*')).alias('body'))."
        )
    for field in schema.fields:
        if field.name not in WRITABLE:
            raise BadValue(_unknown("can be written", field.name, WRITABLE))
        _check_kind(field)


def _check_kind(field: StructField) -> None:
    kind = field.dataType
    fits = isinstance(kind, WRITABLE[field.name])
    if fits and isinstance(kind, MapType):
        fits = isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    if not fits:
        wanted = "map<string,string>" if field.name == "headers" else _kinds(WRITABLE[field.name])
        raise BadValue(f"Column '{field.name}' must be {wanted}, not {kind.simpleString()}. Cast it before you write.")


def _kinds(kinds: Iterable[type[DataType]]) -> str:
    return " or ".join(kind().simpleString() for kind in kinds)


def _unknown(can: str, name: str, known: Iterable[str]) -> str:
    known = tuple(known)
    return f"No column '{name}'{nearest(name, known)} {can}. The columns are: {', '.join(known)}. Drop or rename it."
