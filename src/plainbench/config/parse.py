"""YAML as values of a type: every mistake is found, and reported with its line, its key and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec.inspect as kinds
import yaml
from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sqew.errors import nearest, shortened

_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_SECTIONS = (kinds.StructType, kinds.ListType, kinds.DictType)
_ABSENT = object()


class Problem(Struct, frozen=True, order=True):
    """A mistake, with its line."""

    line: int
    sentence: str


class Reading:
    """A reader of one document. Afterwards ``lines`` holds the line of each key, such as ``topics[0].name``."""

    def __init__(self, construct: Callable[[Node], Any], flatten: Callable[[MappingNode], None]) -> None:
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {}
        self._construct, self._flatten = construct, flatten

    def read(self, node: Node, kind: kinds.Type, path: str = "") -> Any:
        """Return the node as plain data of that type, or something else if there is a problem."""
        self.lines[path] = node.start_mark.line + 1
        if isinstance(kind, kinds.UnionType):
            chosen = self._choose(node, kind, path)
            return chosen if chosen is None or chosen is _ABSENT else self.read(node, chosen, path)
        match kind:
            case kinds.StructType():
                return self._struct(node, kind, path)
            case kinds.ListType():
                return self._list(node, kind, path)
            case kinds.DictType():
                return self._dict(node, kind, path)
            case kinds.AnyType():
                return self._anything(node, path)
            case _:
                return self._scalar(node, kind, path)

    def line_of(self, path: str) -> int:
        """Return the line of a key, or of the section that it would be in."""
        while path and path not in self.lines:
            path = path.rpartition("[" if path.endswith("]") else ".")[0]
        return self.lines.get(path, 1)

    def sections_with_problems(self) -> set[str]:
        """Return the sections with a problem, such as ``topics[0]`` or ``faults``; of several on one line, all."""
        starts = {path: line for path, line in self.lines.items() if path and section_of(path) == path}
        found = set()
        for problem in self.problems:
            last = max((line for line in starts.values() if line <= problem.line), default=0)
            found |= {path for path, line in starts.items() if line == last}
        return found

    def complain(self, line: int, sentence: str) -> None:
        self.problems.append(Problem(line, sentence))

    def _refuse(self, node: Node, kind: kinds.Type, path: str) -> Any:
        hint = unquoted = ""
        if isinstance(kind, kinds.LiteralType) and isinstance(node, ScalarNode):
            hint = nearest(node.value, [str(value) for value in kind.values])
        elif isinstance(node, ScalarNode) and node.style is not None and not isinstance(kind, kinds.StrType):
            unquoted = ", without quotes"
        self.complain(
            node.start_mark.line + 1,
            f"{path or 'the file'} can't be {_shown(node)}{hint}: it must be {allowed(kind)}{unquoted}.",
        )
        return _ABSENT

    def _choose(self, node: Node, union: kinds.UnionType, path: str) -> kinds.Type | Any | None:
        """Return the type that is meant; None stands for null."""
        if _is_null(node) and any(isinstance(kind, kinds.NoneType) for kind in union.types):
            return None
        structs = [kind for kind in union.types if isinstance(kind, kinds.StructType)]
        if len(structs) > 1 and isinstance(node, MappingNode):
            return self._by_tag(node, structs, path)
        for kind in union.types:
            if isinstance(kind, kinds.NoneType):
                continue
            if isinstance(node, _NODES.get(type(kind), ScalarNode)) and not _is_null(node):
                return kind
        return self._refuse(node, union, path)

    def _by_tag(self, node: MappingNode, structs: Iterable[kinds.StructType], path: str) -> kinds.Type | Any:
        by_tag = {str(kind.tag): kind for kind in structs}
        for key, value in self._flat(node):
            if isinstance(key, ScalarNode) and key.value == "type":
                if isinstance(value, ScalarNode) and value.value in by_tag:
                    return by_tag[value.value]
                hint = nearest(str(value.value), by_tag) if isinstance(value, ScalarNode) else ""
                self.complain(
                    value.start_mark.line + 1,
                    f"{path}.type can't be {_shown(value)}{hint}: it must be {_one_of(by_tag)}.",
                )
                return _ABSENT
        self.complain(node.start_mark.line + 1, f"{path} needs the key 'type': {_one_of(by_tag)}.")
        return _ABSENT

    def _struct(self, node: Node, kind: kinds.StructType, path: str) -> Any:
        if not isinstance(node, MappingNode):
            return self._refuse(node, kind, path)
        fields = {field.encode_name: field for field in kind.fields}
        made: dict[str, Any] = {}
        if kind.tag_field is not None:
            made[kind.tag_field] = kind.tag
        for key, value in self._pairs(node, path):
            if not isinstance(key, ScalarNode) or (key.value not in fields and key.value != kind.tag_field):
                self._unknown(key, [*([kind.tag_field] if kind.tag_field else []), *fields], path)
            elif key.value != kind.tag_field:
                field = fields[key.value]
                inner = _joined(path, key.value)
                # A section of which everything is commented out is as if it were not there.
                if _is_null(value) and not field.required and isinstance(field.type, _SECTIONS):
                    self.lines[inner] = key.start_mark.line + 1
                    continue
                made[key.value] = self.read(value, field.type, inner)
                self.lines[inner] = key.start_mark.line + 1
        for name, field in fields.items():
            if field.required and name not in made:
                where = path or "the file"
                self.complain(node.start_mark.line + 1, f"{where} needs the key '{name}': {allowed(field.type)}.")
        return made

    def _unknown(self, key: Node, known: list[str], path: str) -> None:
        name = key.value if isinstance(key, ScalarNode) else _shown(key)
        self.complain(
            key.start_mark.line + 1,
            f"{path or 'the file'} has no key '{name}'{nearest(str(name), known)}. It may have: {', '.join(known)}.",
        )

    def _pairs(self, node: MappingNode, path: str) -> list[tuple[Node, Node]]:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            name = key.value if isinstance(key, ScalarNode) else None
            if name is None or key.tag == _MERGE:
                continue
            if name in seen:
                self.complain(
                    key.start_mark.line + 1,
                    f"{_joined(path, name)} is here for the second time: the first is on line {seen[name]}.",
                )
            seen.setdefault(name, key.start_mark.line + 1)
        return self._flat(node)

    def _flat(self, node: MappingNode) -> list[tuple[Node, Node]]:
        """Return the keys and values, with those that ``<<`` merges in."""
        # Of a copy: what an alias names is read more than once.
        copy = MappingNode(node.tag, list(node.value), node.start_mark, node.end_mark)
        self._flatten(copy)
        pairs: list[tuple[Node, Node]] = copy.value
        return pairs

    def _list(self, node: Node, kind: kinds.ListType, path: str) -> Any:
        if not isinstance(node, SequenceNode):
            return self._refuse(node, kind, path)
        return [self.read(value, kind.item_type, f"{path}[{index}]") for index, value in enumerate(node.value)]

    def _dict(self, node: Node, kind: kinds.DictType, path: str) -> Any:
        if not isinstance(node, MappingNode):
            return self._refuse(node, kind, path)
        made: dict[Any, Any] = {}
        for key, value in self._pairs(node, path):
            if isinstance(kind.key_type, kinds.LiteralType) and isinstance(key, ScalarNode):
                names = [str(name) for name in kind.key_type.values]
                if key.value not in names:
                    self._unknown(key, names, path)
                    continue
            name = key.value if isinstance(key, ScalarNode) else "?"
            parsed = self._scalar(key, kind.key_type, f"a key of {path}")
            made[parsed] = self.read(value, kind.value_type, _joined(path, name))
        return made

    def _anything(self, node: Node, path: str) -> Any:
        try:
            return self._construct(node)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = getattr(error, "problem", None) or str(error)
            self.complain(node.start_mark.line + 1, f"{path} can't be read: {problem}.")
            return _ABSENT

    def _scalar(self, node: Node, kind: kinds.Type, path: str) -> Any:
        parsed = _parse(node, kind) if isinstance(node, ScalarNode) and not _is_null(node) else _ABSENT
        return self._refuse(node, kind, path) if parsed is _ABSENT or not _fits(parsed, kind) else parsed


_NODES: dict[type, type[Node]] = {
    kinds.StructType: MappingNode,
    kinds.DictType: MappingNode,
    kinds.ListType: SequenceNode,
}


def section_of(path: str) -> str:
    """Return the section that a key is in: ``workload[1]`` for ``workload[1].size.min``."""
    return path.split(".", 1)[0]


def without_absent(value: Any) -> Any:
    """Return a value without the keys that have problems; entries of lists stay, so that others keep their index."""
    if isinstance(value, dict):
        return {key: without_absent(inner) for key, inner in value.items() if inner is not _ABSENT}
    if isinstance(value, list):
        return [without_absent(inner) for inner in value]
    return value


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL


def _shown(node: Node) -> str:
    match node:
        case SequenceNode():
            return "a list"
        case MappingNode():
            return "keys and values"
        case _ if _is_null(node):
            return "empty"
    return shortened(repr(node.value))


def _parse(node: ScalarNode, kind: kinds.Type) -> Any:
    """Return the value of a word where this type is expected: ``1e3`` is a number, and ``no`` may be a name."""
    text: str = node.value
    if isinstance(kind, kinds.StrType):
        return text
    if isinstance(kind, kinds.LiteralType):
        return text if text in kind.values else _ABSENT
    if node.style is not None:
        # In quotes it is a text.
        return _ABSENT
    if isinstance(kind, kinds.BoolType):
        return _SWITCHES.get(text.lower(), _ABSENT)
    return _number(text, whole=isinstance(kind, kinds.IntType))


def _number(text: str, *, whole: bool) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return _ABSENT
    if not math.isfinite(number) or (whole and not number.is_integer()):
        return _ABSENT
    return int(number) if whole else number


def _fits(value: Any, kind: kinds.Type) -> bool:
    if isinstance(kind, kinds.IntType | kinds.FloatType):
        return (
            (kind.ge is None or value >= kind.ge)
            and (kind.gt is None or value > kind.gt)
            and (kind.le is None or value <= kind.le)
            and (kind.lt is None or value < kind.lt)
        )
    if isinstance(kind, kinds.StrType):
        return (kind.min_length or 0) <= len(value) <= (kind.max_length or math.inf)
    return True


def allowed(kind: kinds.Type) -> str:
    """Describe in words the values that a type allows."""
    match kind:
        case kinds.IntType() | kinds.FloatType():
            return f"{'a whole number' if isinstance(kind, kinds.IntType) else 'a number'}{_range(kind)}"
        case kinds.StrType():
            most = f" of 1 to {kind.max_length} characters" if kind.max_length else ""
            return f"a text{most}"
        case kinds.BoolType():
            return "true or false"
        case kinds.LiteralType():
            return _one_of(map(str, kind.values))
        case kinds.NoneType():
            return "null"
        case kinds.ListType():
            return f"a list, each entry of it {allowed(kind.item_type)}"
        case kinds.DictType():
            return f"keys and values, each value {allowed(kind.value_type)}"
        case kinds.StructType():
            return f"keys and values ({', '.join(field.encode_name for field in kind.fields)})"
        case kinds.UnionType():
            return _union(kind)
        case _:
            return "anything"


def _union(kind: kinds.UnionType) -> str:
    tags = [str(inner.tag) for inner in kind.types if isinstance(inner, kinds.StructType) and inner.tag]
    others = [
        allowed(inner) for inner in kind.types if not (isinstance(inner, kinds.StructType) and inner.tag)
    ]  # fmt: skip
    if tags:
        others.insert(0, f"keys and values, of which 'type' is {_one_of(tags)}")
    return " or ".join(others)


def _range(kind: kinds.IntType | kinds.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:g} to {kind.le:.10g}"
    if kind.ge is not None:
        return f" from {kind.ge:g} on"
    return f" above {kind.gt:g}" if kind.gt is not None else ""


def _one_of(names: Iterable[str]) -> str:
    return "one of " + ", ".join(names)
