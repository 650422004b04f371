"""JSON schemas of the types that requests and responses are made of, with what is known about each field."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct
from msgspec.inspect import StructType, Type, multi_type_info

from sqew.http.docs.glossary import Word
from sqew.ids import MessageUuids

Schema = dict[str, Any]

_PLACE = "#/components/schemas/"
_ANY_JSON = {"sku": 7}
_EXAMPLES = {"boolean": False, "integer": 1, "number": 1, "string": "hello", "null": None}
_JSON_TYPES = {"boolean": bool, "integer": int, "number": int | float, "string": str, "array": list, "object": dict}


class Schemas:
    """The schemas of many types. Each Struct among them is written once and referred to by its name."""

    def __init__(self, kinds: Iterable[Any], glossary: dict[str, Word], asked: Iterable[Any] = ()) -> None:
        """Collect the schemas; ``asked`` are the types that requests are made of."""
        self._glossary = glossary
        # By identity: not every type can be hashed.
        alternatives = {id(kind): _alternatives(kind) for kind in kinds}
        flat = [kind for some in alternatives.values() for kind in some]
        structs = list(dict.fromkeys(_structs(multi_type_info(flat))))
        schemas, self.components = _components([*structs, *flat])
        found = iter(schemas)
        self._names: dict[Any, str] = {kind: next(found)["$ref"].removeprefix(_PLACE) for kind in structs}
        self._schemas = {key: _any_of([next(found) for _ in some]) for key, some in alternatives.items()}
        docs = _FieldDocs()
        in_requests = set(_structs(multi_type_info([one for kind in asked for one in _alternatives(kind)])))
        for kind, name in self._names.items():
            self._describe(self.components[name], docs.of(kind), is_asked=kind in in_requests)

    def of(self, kind: Any) -> Schema:
        """Return the schema of one of the types."""
        return dict(self._schemas[id(kind)])

    def name(self, kind: Any) -> str:
        """Return the name of a Struct among the components."""
        return self._names[kind]

    def explained(self, name: str, schema: Schema, *, is_asked: bool = True) -> Schema:
        """Return a schema with what the glossary says about a field of that name, unless it says so itself.

        ``is_asked``: it is part of a request, so that the values allowed are given too.
        """
        word = self._glossary.get(name)
        if word is None:
            return schema
        doc = schema.get("description", word.doc)
        if name.endswith("_at") and _fits(0, schema):
            doc = f"{doc} In milliseconds since 1970."
        explained = {**(_ruled(schema, word) if is_asked else schema), "description": doc}
        if schema.get("format") == "uuid":
            explained["examples"] = [MessageUuids(0).text(1)]
        elif word.example is not UNSET and _fits(word.example, schema):
            explained["examples"] = [word.example]
        return explained

    def examples(self, kind: Any) -> dict[str, Any]:
        """Return examples of a body of that type, by a name for each way to write it."""
        schema = self.of(kind)
        ways = [self._example(way) for way in schema.get("anyOf", [schema])]
        return {"several" if isinstance(way, list) else "one": {"value": way} for way in ways}

    def _example(self, schema: Schema) -> Any:
        if "$ref" in schema:
            schema = self.components[schema["$ref"].removeprefix(_PLACE)]
        if "examples" in schema:
            return schema["examples"][0]
        if "properties" in schema:
            fields = schema["properties"]
            telling = [name for name in fields if "examples" in fields[name]]
            return {name: self._example(fields[name]) for name in schema.get("required") or telling[:1]}
        if "items" in schema:
            return [self._example(schema["items"])]
        return schema.get("default", _EXAMPLES.get(schema.get("type", ""), _ANY_JSON))

    def _describe(self, schema: Schema, docs: dict[str, str], *, is_asked: bool) -> None:
        if "description" in schema:
            schema["description"] = paragraph(schema["description"])
        if not schema["required"]:
            del schema["required"]
        fields = schema["properties"]
        # What is taken strictly is asked as well, wherever else it stands.
        is_asked = is_asked or schema.get("additionalProperties") is False
        for name, field in fields.items():
            described = {**field, "description": docs[name]} if name in docs else field
            fields[name] = self.explained(name, described, is_asked=is_asked)


def without_null(schema: Schema) -> Schema:
    """Return the schema of a value that is left out rather than null."""
    rest = [way for way in schema.get("anyOf", ()) if way != {"type": "null"}]
    others = {name: value for name, value in schema.items() if name != "anyOf" and (name, value) != ("default", None)}
    if not rest:
        return others
    return {**rest[0], **others} if len(rest) == 1 else {"anyOf": rest, **others}


def paragraph(doc: str) -> str:
    """Return a docstring as CommonMark, in one line for each of its paragraphs."""
    paragraphs = re.split(r"\n\s*\n", doc.strip())
    return "\n\n".join(" ".join(text.split()) for text in paragraphs).replace("``", "`")


def _alternatives(kind: Any) -> Sequence[Any]:
    """Return the types of a union: msgspec takes only one Struct without a tag in each, and answers may be several."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _any_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _structs(kinds: Iterable[Type]) -> Iterator[Any]:
    """Yield the Structs that types are made of."""
    for kind in kinds:
        if isinstance(kind, StructType):
            yield kind.cls
            yield from _structs(field.type for field in kind.fields)
        inner = [getattr(kind, name, None) for name in ("type", "item_type", "key_type", "value_type")]
        yield from _structs(part for part in inner if part is not None)
        yield from _structs((*getattr(kind, "types", ()), *getattr(kind, "item_types", ())))


def _components(kinds: Sequence[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return msgspec's schemas, and the Structs among them by their names, which no two classes share."""
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_PLACE + "{name}")
    return list(schemas), components


def _ruled(schema: Schema, word: Word) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [_ruled(way, word) for way in schema["anyOf"]]}
    rules = word.rules.get(schema.get("type", ""), {})
    # What its type says goes before what its name says, but for what is inside it.
    inside: Schema = {name: rules[name] for name in ("items", "additionalProperties") if name in rules}
    return {**rules, **schema, **inside}


def _fits(example: Any, schema: Schema) -> bool:
    if "anyOf" in schema:
        return any(_fits(example, way) for way in schema["anyOf"])
    if "enum" in schema:
        return example in schema["enum"]
    kind = "object" if "$ref" in schema else schema.get("type")
    return kind is None or (kind in _JSON_TYPES and isinstance(example, _JSON_TYPES[kind]))


class _FieldDocs:
    """The docstrings below the fields of a class, which Python itself forgets."""

    def __init__(self) -> None:
        self._modules: dict[str, dict[str, dict[str, str]]] = {}

    def of(self, kind: Any) -> dict[str, str]:
        """Return the docstrings of a Struct's fields, by the names they have in JSON."""
        cls = get_origin(kind) or kind
        docs: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, Struct) and base is not Struct:
                docs.update(self._in_module(base.__module__).get(base.__name__, {}))
        written = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        return {encoded: docs[name] for name, encoded in written if name in docs}

    def _in_module(self, name: str) -> dict[str, dict[str, str]]:
        if name not in self._modules:
            tree = ast.parse(inspect.getsource(sys.modules[name]))
            classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
            self._modules[name] = {node.name: dict(_documented(node.body)) for node in classes}
        return self._modules[name]


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, doc in pairwise(body):
        match field, doc:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, paragraph(text)
