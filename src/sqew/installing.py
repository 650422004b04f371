"""Commands that install missing packages and new versions, which work wherever Sqew was installed from."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

UPGRADE = "Upgrade Sqew: in a clone of its repository, git pull and pip install ."
_OF_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")


def pip_install(*packages: str) -> str:
    """Return the command that installs packages into the Python that runs Sqew, even if it is not the shell's own."""
    import shutil  # here, as below

    found = shutil.which("pip")
    # Not every `.venv/bin/sqew` is called in a shell that has activated .venv: there `pip` is another Python's.
    is_ours = found is not None and Path(found).parent == Path(sys.executable).parent
    return shlex.join([*(["pip"] if is_ours else [sys.executable, "-m", "pip"]), "install", *packages])


def to_install(extra: str) -> str:
    """Return the command that installs the packages of an extra of Sqew, by the names in Sqew's own metadata.

    >>> to_install("postgres").endswith("pip install 'asyncpg>=0.30' 'greenlet>=3.1'")
    True
    """
    from importlib import metadata  # here, because it costs 20 ms and is seldom needed

    try:
        requirements = metadata.requires("sqew") or []
    except metadata.PackageNotFoundError:
        # Nobody has installed it: it runs from a clone.
        return pip_install(f".[{extra}]")
    wanted = (requirement.partition(";") for requirement in requirements)
    packages = [name.strip() for name, _, marker in wanted if extra in _OF_EXTRA.findall(marker)]
    return pip_install(*packages)
