"""A configuration as it may be shown to people other than its owner: everything but passwords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "…"
_OPTIONS = "target.options."
_NAMES = re.compile(r"token|password|secret|key", re.IGNORECASE)
_WHO = re.compile(r"(?<=://)[^/?#\s]*@")


def shown(key: str, value: Any) -> Any:
    """Return a value of the configuration as it may be shown. ``key``: as in ``target.options.token``.

    >>> shown("target.options.url", "redis://me:sesame@localhost:6379/0")
    'redis://…@localhost:6379/0'
    >>> shown("target.options.token", "sesame"), shown("target.options.token", "$TOKEN")
    ('…', '$TOKEN')
    """
    if isinstance(value, Mapping):
        return {name: shown(f"{key}.{name}" if key else str(name), inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shown(key, inner) for inner in value]
    # What stands for a variable of the environment tells nothing.
    is_variable = isinstance(value, str) and value.startswith("$")
    if value is not None and not is_variable and key.startswith(_OPTIONS) and _NAMES.search(key.removeprefix(_OPTIONS)):
        return HIDDEN
    return _WHO.sub(f"{HIDDEN}@", value) if isinstance(value, str) else value
