"""Random parameters of AWS's actions, as a service describes them, or nearly."""

from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

from hypothesis import strategies as st

INTEGERS = st.one_of(st.integers(-5, 50), st.sampled_from([2**31, 2**62, 2**63, 2**64, -(2**63), 10**30]))
ODD_TEXTS = [
    "{}", "[]", "null", "1e999", "[" * 100_000, "AAAA", "=", "e30=", "bnVsbA==", "9" * 5_000, "-1", "\x00", "\ufdd0",
    "\uffff", "\U00010000", "\u2028", "x" * 300, "", "//[", "a:b",
]  # fmt: skip


class Fuzz:
    """Strategies for a service's parameters: ``texts`` for strings, ``right`` for those that a call needs to begin."""

    def __init__(self, texts: st.SearchStrategy[str], right: Mapping[str, st.SearchStrategy[Any]]) -> None:
        self._texts, self._right = texts, right
        self.anything = st.recursive(
            st.one_of(st.none(), st.booleans(), INTEGERS, st.floats(allow_nan=False, allow_infinity=False), texts),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=5,
        )

    def like(self, shape: Any) -> st.SearchStrategy[Any]:
        """Return a strategy for a shape of the service, or nearly that shape."""
        match shape.type_name:
            case "structure":
                named = shape.members.items()
                right = {name: self._mostly(self._right[name]) for name, _ in named if name in self._right}
                others = {name: self._mostly(self.like(member)) for name, member in named if name not in self._right}
                return st.fixed_dictionaries(right, optional=others)
            case "list":
                return st.lists(self.like(shape.member), max_size=12)
            case "map":
                return st.dictionaries(self.like(shape.key), self.like(shape.value), max_size=12)
            case "integer" | "long":
                return INTEGERS
            case "boolean":
                return st.booleans()
            case _:
                return self._texts

    def _mostly(self, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.integers(0, 9).flatmap(lambda chance: strategy if chance else self.anything)


def flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    """Return parameters flattened into a form, as no SDK writes them."""
    match value:
        case dict():
            return [pair for key, inner in value.items() for pair in flat(f"{prefix}.{key}".lstrip("."), inner)]
        case list():
            return [pair for n, inner in enumerate(value, 1) for pair in flat(f"{prefix}.{n}", inner)]
        case _:
            return [(prefix, str(value))]


def ask(
    connection: HTTPConnection, body: bytes | None, headers: Mapping[str, Any], path: str = "/", method: str = "POST"
) -> bytes:
    """Send a request and return the answer, which must not be a server error and must carry a request id."""
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    answer = response.read()
    assert response.status < 500, (body, answer)
    assert response.getheader("x-amzn-requestid"), (body, answer)
    return answer
