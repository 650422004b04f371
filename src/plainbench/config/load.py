"""Loading of plainbench.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.inspect import type_info

from plainbench.config.checks import check
from plainbench.config.model import Config
from plainbench.config.parse import Problem, Reading, section_of, without_absent
from sqew.errors import BadValue, NotFound

FILE = "plainbench.yaml"
_MOST_SHOWN = 10


def load(path: Path) -> Config:
    """Load a configuration. All mistakes in it are reported at once, each with its line, its key and what is allowed.

    Relative paths in it start in the file's folder.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"There is no {path}. Write one by `plainbench init`, or name yours by --config.") from None
    except OSError as error:
        raise BadValue(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadValue(f"{path} is not UTF-8: byte {error.start} can't be read. Save it as UTF-8.") from error
    return parse(text, path)


def parse(text: str, path: Path) -> Config:
    """Parse the text of a configuration that is, or is to be, in the file ``path``."""
    try:
        reading, plain = _read(text, path)
    except yaml.MarkedYAMLError as error:
        raise BadValue(_syntax(path, error)) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BadValue(f"{path} is no YAML: {' '.join(str(error).split())}.") from error
    config, unsure = _as_far_as_it_goes(reading, plain)
    if config is not None:
        for where, sentence in check(config, path.absolute().parent):
            if section_of(where) not in unsure:
                reading.complain(reading.line_of(where), sentence)
    if reading.problems or config is None:
        raise _mistakes(path, reading.problems)
    return config


_EVERYTHING_NEEDS = ("topics", "target", "mode")


def _as_far_as_it_goes(reading: Reading, plain: Any) -> tuple[Config | None, set[str]]:
    """Return what could be read, and the sections with mistakes: what refers to those can't be checked."""
    unsure = reading.sections_with_problems()
    if any(section.startswith(_EVERYTHING_NEEDS) for section in unsure):
        return None, unsure
    try:
        config = msgspec.convert(without_absent(plain), Config)
    except msgspec.ValidationError:
        return None, unsure
    # The key may be there, and be misspelt.
    return (None if reading.problems and not config.topics else config), unsure


def _read(text: str, path: Path) -> tuple[Reading, Any]:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise BadValue(f"{path} is empty. `plainbench init` writes one to begin with.")
        reading = Reading(lambda inner: loader.construct_object(inner, deep=True), loader.flatten_mapping)
        return reading, reading.read(node, type_info(Config))
    finally:
        loader.dispose()


def _syntax(path: Path, error: yaml.MarkedYAMLError) -> str:
    line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
    context = f" {error.context}" if error.context else ""
    return f"{path}{line}: this is no YAML: {error.problem}{context}."


def _mistakes(path: Path, problems: list[Problem]) -> BadValue:
    shown = [f"{path}, line {problem.line}: {problem.sentence}" for problem in sorted(problems)[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        shown.append(f"There are {len(problems) - _MOST_SHOWN} more mistakes in {path}.")
    return BadValue("\n".join(shown))
