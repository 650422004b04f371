"""The page docs/plainbench.md: it explains every key."""

from pathlib import Path

import msgspec.inspect as kinds
import pytest

from plainbench.cli.main import COMMANDS
from plainbench.config.model import Config

DOCS = (Path(__file__).parents[3] / "docs" / "plainbench.md").read_text()


def keys(kind, found):
    """Add the keys of a type and of all that it is made of."""
    match kind:
        case kinds.StructType():
            for field in kind.fields:
                found.add(field.encode_name)
                keys(field.type, found)
            if kind.tag_field:
                found.add(kind.tag)
        case kinds.UnionType():
            for inner in kind.types:
                keys(inner, found)
        case kinds.ListType():
            keys(kind.item_type, found)
    return found


@pytest.mark.parametrize("key", sorted(keys(kinds.type_info(Config), set())))
def test_every_key_and_every_type_is_explained(key):
    assert any(f"{before}{key}{after}" in DOCS for before in ("`", ".") for after in ("`", ".", ":")), key


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_explained(command):
    assert f"| `{command}" in DOCS
