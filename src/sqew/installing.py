"""Install commands for missing packages and old versions, which work wherever Sqew was installed from."""

from __future__ import annotations

import re
import shlex

UPGRADE = "Upgrade Sqew: in a clone of its repository, git pull and pip install ."
_OF_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")


def to_install(extra: str) -> str:
    """The line that installs what an extra of Sqew needs: its packages by name, as Sqew's own metadata has them.

    >>> to_install("postgres")
    "pip install 'asyncpg>=0.30' 'greenlet>=3.1'"
    """
    from importlib import metadata  # here, because it costs 20 ms and is seldom needed

    try:
        requirements = metadata.requires("sqew") or []
    except metadata.PackageNotFoundError:
        # Nobody has installed it: it runs from a clone.
        return f"pip install '.[{extra}]'"
    wanted = (requirement.partition(";") for requirement in requirements)
    packages = [name.strip() for name, _, marker in wanted if extra in _OF_EXTRA.findall(marker)]
    return shlex.join(["pip", "install", *packages])
