"""Limits on the entries of large bodies, checked before anything is made of them.

Decoding 16 MiB of ``{},{},{}`` takes a second or two, in which everybody else waits, only to count and refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import NoneType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct, structs

from sqew.errors import TooLarge

T = TypeVar("T")

LARGE = 262_144
"""Bodies of up to this many bytes are decoded at once, in 5 ms at most."""
_VERY_LARGE = 1_048_576
"""Bodies of up to this many bytes may hold any lists and maps: decoding those takes 25 ms at most."""
_MOST_INNER = 200_000
"""The most entries, counted by commas, that all lists and maps of a very large body may have together."""
_MOST_LISTED = 1_000
"""The most objects that an object may list."""
_MOST_TOGETHER = 10_000
"""The largest batch limit that is enforced here: preparing for a larger one takes too long itself."""
_TOO_LONG = "Expected `array` of at most length"
_CONTAINERS = (list, dict, tuple, set, frozenset)


class Crowd(Generic[T]):
    """Decoder of bodies of one type that stops at the first entry too many, instead of decoding them all.

    ``most`` is the number of entries that an array may have. A million small messages in 16 MiB are refused after
    0.2 ms.
    """

    def __init__(self, kind: Any, decode: Callable[[bytes], T], most: int = _MOST_LISTED) -> None:
        self._kind, self._decode, self._most = kind, decode, most

    def decode(self, body: bytes) -> T:
        """Decode a body; raise `TooLarge`, or what msgspec raises."""
        if len(body) <= LARGE:
            return self._decode(body)
        is_array = body[:64].lstrip()[:1] == b"["
        if len(body) > _VERY_LARGE and body.count(b",") > _MOST_INNER:
            self._check_inner(body, is_array=is_array)
        if self._array is None or not is_array:
            return self._decode(body)
        try:
            found = self._array.decode(body)
        except msgspec.ValidationError as error:
            if _is_too_long(error):
                raise TooLarge(f"A batch may hold {self._most} entries; this one holds more. Split it.") from error
            raise
        return [entry for entry in structs.astuple(found) if entry is not UNSET]  # type: ignore[return-value]  # a list

    @cached_property
    def _array(self) -> msgspec.json.Decoder[Any] | None:
        """Decoder of an array of at most so many entries, as fast as of a list; None if the body is never an array."""
        entry = _entry_of(self._kind)
        return None if entry is None or self._most > _MOST_TOGETHER else msgspec.json.Decoder(_few(entry, self._most))

    @cached_property
    def _outline(self) -> msgspec.json.Decoder[Any] | None:
        """Decoder that leaves the lists and maps in an object undecoded; None if the type has no lists or maps."""
        kinds = [kind for kind in get_args(self._kind) or (self._kind,) if get_origin(kind) is not list]
        found = [outline for kind in kinds if (outline := _outline(kind)) is not None]
        return msgspec.json.Decoder(found[0]) if found else None

    @cached_property
    def _outline_of_array(self) -> msgspec.json.Decoder[Any] | None:
        """Decoder that leaves the lists and maps in an array of objects undecoded; None if there are none."""
        outline = None if self._array is None else _outline(_entry_of(self._kind))
        return None if outline is None else msgspec.json.Decoder(_few(outline, self._most))

    def _check_inner(self, body: bytes, *, is_array: bool) -> None:
        """Raise `TooLarge` if lists and maps in a body have too many entries. It takes 5 ms for each MiB."""
        outline = self._outline_of_array if is_array else self._outline
        if outline is None:
            return
        try:
            if sum(_commas(outline.decode(body))) <= _MOST_INNER:
                return
        except msgspec.ValidationError as error:
            if is_array or not _is_too_long(error):
                return  # Whoever decodes it says what is wrong.
        except (msgspec.DecodeError, RecursionError):
            return
        raise TooLarge("The lists and maps in the body have too many entries. Send fewer of them at once.")


def check_lines(body: bytes, most: int) -> None:
    """Raise `TooLarge` if a body has far more lines than ``most``."""
    if len(body) > _VERY_LARGE and body.count(b"\n") > 10 * most:
        raise _too_many(most)


def check_array(body: bytes, most: int) -> None:
    """Raise `TooLarge` if a body holds an array of far more objects than ``most``."""
    if len(body) <= _VERY_LARGE or body.count(b"{") <= 10 * most:
        return
    try:
        _few_written(most).decode(body)
    except msgspec.ValidationError as error:
        if _is_too_long(error):
            raise _too_many(most) from error
    except (msgspec.DecodeError, RecursionError):
        return  # Whoever decodes it says what is wrong.


def _too_many(most: int) -> TooLarge:
    return TooLarge(f"{most} messages may be sent at once; these are more. Split them.")


def _is_too_long(error: msgspec.ValidationError) -> bool:
    return str(error).startswith(_TOO_LONG)


def _entry_of(body: Any) -> Any:
    """Return the type of the entries if a body of this type may be an array, or None."""
    return next((get_args(kind)[0] for kind in (body, *get_args(body)) if get_origin(kind) is list), None)


def _few(entry: Any, most: int) -> type[Struct]:
    """Make a struct type for an array of at most ``most`` entries: nothing else in msgspec can end the decoding."""
    fields = [(f"entry{number}", entry, UNSET) for number in range(most)]
    return defstruct("Few", fields, array_like=True, forbid_unknown_fields=True, gc=False)


@cache
def _few_written(most: int) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_few(Raw, most))


def _outline(kind: Any) -> Any:
    """Reduce a type to its lists and maps, left undecoded: all else costs the same however many entries there are.

    Return None if the type has no lists or maps.
    """
    origin = get_origin(kind)
    if origin is Annotated:
        return _outline(get_args(kind)[0])
    if kind is Any or kind in _CONTAINERS or origin in _CONTAINERS:
        inner = _outline(get_args(kind)[0]) if origin is list else None
        return Raw if inner is None or inner is Raw else _few(inner, _MOST_LISTED)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _outline_of_struct(kind)
    others = [one for one in get_args(kind) if one not in (NoneType, UnsetType, Raw)]
    found = [outline for one in others if (outline := _outline(one)) is not None]
    if not found:
        return None
    return Raw if len(others) > 1 or found[0] is Raw else Union[found[0], None]  # noqa: UP007 (made of a value)


def _outline_of_struct(kind: type[Struct]) -> type[Struct] | None:
    inner = [(field, _outline(field.type)) for field in structs.fields(kind)]
    fields = [(field.name, outline, UNSET) for field, outline in inner if outline is not None]
    names = {field.name: field.encode_name for field, _ in inner}
    return defstruct(kind.__name__, fields, rename=names, gc=False) if fields else None


def _commas(found: Any) -> Iterator[int]:
    """Yield the number of commas in each of the lists and maps."""
    if isinstance(found, Raw):
        yield bytes(found).count(b",")
    elif isinstance(found, Struct):
        for inner in structs.astuple(found):
            yield from _commas(inner)
