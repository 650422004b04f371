"""The Query protocol: parameters with dots and numbers in their names on the way in, XML on the way out.

JSON's ``{"Attributes": {"DelaySeconds": "5"}}`` is ``Attribute.1.Name=DelaySeconds&Attribute.1.Value=5`` in a request.
A table says which names stand for lists and maps; all else is the same.
"""

from __future__ import annotations

import re
from binascii import a2b_qp
from typing import Any

from msgspec import Struct

from sqew.http.dialects.aws.refusals import AwsError

SPEAKABLE = "[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""The characters that XML can hold, as a part of a pattern."""
UNSPEAKABLE = re.compile(SPEAKABLE.replace("[", "[^"))
_MOST_PARAMETERS = 5_000
_MOST_DOTS = 16
_MOST_BARE = 1_000
_BARE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
"""A percent sign that stands for itself."""
_MOST_ENTRIES = 1_000
"""The limit of numbers in names: a list must not be filled up to a made-up number."""


class ListOf(Struct, frozen=True):
    """``Name.1``, ``Name.2`` …: a list. ``member``: the word between, in protocols that have one."""

    field: str
    member: str = ""


class MapOf(Struct, frozen=True):
    """``Name.1.Key``, ``Name.1.Value`` …: a map."""

    field: str
    key: str = "Name"
    value: str = "Value"
    member: str = ""


Shapes = dict[str, ListOf | MapOf]
"""The first word of a parameter's name, and what it stands for."""


def parse(text: bytes) -> dict[str, str]:
    """Parse a form as it came. A parameter that is given twice has its last value."""
    if not text:
        return {}
    parts = text.split(b"&", _MOST_PARAMETERS)
    if len(parts) > _MOST_PARAMETERS:
        raise AwsError("MalformedInput", f"The form has more than {_MOST_PARAMETERS} parameters.")
    found: dict[str, str] = {}
    try:
        for part in parts:
            name, _, value = part.partition(b"=")
            if name:
                found[_decoded(name)] = _decoded(value)
    except UnicodeDecodeError as error:
        raise AwsError("MalformedInput", "The form can't be read: it must be UTF-8, percent-encoded.") from error
    return found


def _decoded(text: bytes) -> str:
    if b"+" in text:
        text = text.replace(b"+", b" ")
    return (_unescaped(text) if b"%" in text else text).decode()


def _unescaped(text: bytes) -> bytes:
    """Decode percent-encoding in 0.01 s for each MB. urllib's `unquote_to_bytes` takes 0.1 s, and everybody else waits.

    Quoted-printable is the same with another sign, and decoded in C.

    >>> _unescaped(b"100%, %3D%C3%A9=")
    b'100%, =\\xc3\\xa9='
    """
    text, bare = _BARE.subn(b"%25", text, _MOST_BARE)
    if bare == _MOST_BARE:
        raise AwsError("MalformedInput", "The form can't be read: it must be UTF-8, percent-encoded.")
    return a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))


def nested(parameters: dict[str, str], shapes: Shapes) -> dict[str, Any]:
    """Return the parameters as JSON would have them."""
    root: dict[str, Any] = {}
    for name, value in parameters.items():
        if "." in name:
            if name.count(".") > _MOST_DOTS:
                raise AwsError("MalformedInput", f"The name of a parameter has more than {_MOST_DOTS} dots in it.")
            _put(root, name.split("."), value)
        else:
            root[name] = value
    return {field: found for key, given in root.items() for field, found in [_shaped(key, given, shapes)]}


def _put(at: dict[str, Any], words: list[str], value: str) -> None:
    for word in words[:-1]:
        inner = at.setdefault(word, {})
        if not isinstance(inner, dict):
            return
        at = inner
    at[words[-1]] = value


def _shaped(key: str, given: Any, shapes: Shapes) -> tuple[str, Any]:
    shape = shapes.get(key)
    if shape is not None and given == "":
        # An empty list or map is written as its bare name.
        return shape.field, [] if isinstance(shape, ListOf) else {}
    if shape is None or not isinstance(given, dict):
        return (shape.field if shape else key), _inner(given, shapes)
    if shape.member:
        given = given.get(shape.member, given)
        given = given if isinstance(given, dict) else {}
    if isinstance(shape, MapOf) and shape.key in given:
        # The oldest clients give the only entry no number.
        given = {"1": given}
    entries = [_inner(given[number], shapes) for number in _numbers(given)]
    if isinstance(shape, ListOf):
        return shape.field, entries
    return shape.field, {
        str(entry.get(shape.key, "")): entry.get(shape.value, "") for entry in entries if isinstance(entry, dict)
    }


def _inner(given: Any, shapes: Shapes) -> Any:
    if not isinstance(given, dict):
        return given
    return {field: found for key, value in given.items() for field, found in [_shaped(key, value, shapes)]}


def _numbers(given: dict[str, Any]) -> list[str]:
    numbers = [key for key in given if key.isascii() and key.isdigit() and len(key) <= len(str(_MOST_ENTRIES))]
    return sorted(numbers, key=int)


# XML


def escape(text: str) -> str:
    """Escape a string to stand between two tags. A bare carriage return would be read as a line feed."""
    if not text.isprintable():
        # What other dialects let in and XML can't hold at all.
        text = UNSPEAKABLE.sub("\ufffd", text)
    return (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("\r", "&#xD;")
    )


class Elements(Struct, frozen=True):
    """The names of elements for the lists and maps of an answer: of each entry, and of a map's key."""

    entries: dict[str, str]
    keys: dict[str, str] = {}  # msgspec copies it
    value: str = "Value"
    """The name of the value in a map's entry."""
    wrapped: bool = False
    """True if each list is an element of its own that holds ``member`` elements, as SNS writes them."""


def as_xml(value: Any, elements: Elements) -> str:
    """Return the inside of an element for a result: fields of a struct, or pairs of a dict."""
    if value is None:
        return ""
    pairs = value.items() if isinstance(value, dict) else _fields(value)
    return "".join(_element(name, inner, elements) for name, inner in pairs if inner is not None)


def _fields(value: Struct) -> list[tuple[str, Any]]:
    return [
        (shown, getattr(value, name))
        for name, shown in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    ]


def _element(name: str, value: Any, elements: Elements) -> str:
    match value:
        case bool():
            return f"<{name}>{'true' if value else 'false'}</{name}>"
        case str():
            return f"<{name}>{escape(value)}</{name}>"
        case int():
            return f"<{name}>{value}</{name}>"
        case list():
            return _list(name, value, elements)
        case dict() if name in elements.entries:
            return _map(name, value, elements)
        case _:
            return f"<{name}>{as_xml(value, elements)}</{name}>"


def _list(name: str, values: list[Any], elements: Elements) -> str:
    inner = "".join(_element(_entry_name(name, value, elements), value, elements) for value in values)
    return f"<{name}>{inner}</{name}>" if elements.wrapped else inner


def _entry_name(name: str, value: Any, elements: Elements) -> str:
    """Return the name of a list's entry: the table's, or else its type's, since batches share one name for several."""
    if elements.wrapped:
        return "member"
    return elements.entries.get(name) or (type(value).__name__ if isinstance(value, Struct) else name)


def _map(name: str, values: dict[str, Any], elements: Elements) -> str:
    entry, key = elements.entries[name], elements.keys.get(name, "Name")
    pairs = "".join(
        f"<{entry}><{key}>{escape(word)}</{key}>{_element(elements.value, value, elements)}</{entry}>"
        for word, value in values.items()
    )
    return f"<{name}>{pairs}</{name}>" if elements.wrapped else pairs
