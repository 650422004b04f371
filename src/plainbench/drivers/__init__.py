"""The queues that the lab can measure, by name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

from plainbench.config.model import Config
from plainbench.drivers.base import Driver, Place
from plainbench.faults.driver import FaultyDriver
from sqew.errors import BadValue, StoreUnusable
from sqew.installing import pip_install

DRIVERS = {
    "sqew": "plainbench.drivers.embedded:EmbeddedDriver",
    "sqew-http": "plainbench.drivers.http:HttpDriver",
    "sqs": "plainbench.drivers.sqs:SqsDriver",
    "redis": "plainbench.drivers.redis:RedisDriver",
    "rabbitmq": "plainbench.drivers.rabbitmq:RabbitDriver",
    "pgqueuer": "plainbench.drivers.pgqueuer:PgQueuerDriver",
}
"""Drivers by name. ``module:Class`` or ``file.py:Class`` names one of your own."""


def driver_class(name: str, folder: Path) -> type[Driver]:
    """Return the driver of this name."""
    if name not in DRIVERS and ":" not in name:
        near = get_close_matches(name, DRIVERS, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise BadValue(
            f"There is no driver {name!r}.{hint} There are: {', '.join(DRIVERS)}; or module:Class of your own."
        )
    found: type[Driver] = named(DRIVERS.get(name, name), folder)
    return found


def named(reference: str, folder: Path) -> Any:
    """Import ``module:name`` or ``file.py:name``. A module may also lie in the configuration's folder."""
    module_name, _, name = reference.rpartition(":")
    home = str(folder.resolve())
    if home not in sys.path:
        sys.path.append(home)
    try:
        module = (
            _from_file(folder / module_name) if module_name.endswith(".py") else importlib.import_module(module_name)
        )
        found = getattr(module, name)
    except ModuleNotFoundError as error:
        if module_name.startswith("plainbench.") and not str(error.name).startswith(("plainbench.", "sqew.")):
            install = pip_install(str(error.name))
            raise StoreUnusable(f"This driver needs the package {error.name}: {install}.") from error
        raise BadValue(f"{reference} can't be found: there is no module {error.name}.") from error
    except (FileNotFoundError, AttributeError) as error:
        raise BadValue(f"{reference} can't be found: {error}.") from error
    except Exception as error:  # whatever somebody's own module raises
        raise BadValue(f"{module_name} can't be loaded: {type(error).__name__}: {error}.") from error
    return found


def _from_file(path: Path) -> ModuleType:
    # Files of one name may lie in several folders.
    name = f"sqew_lab_{path.stem}_{crc32(str(path.resolve()).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def open_driver(place: Place) -> Driver:
    """Open the queue that the configuration names, with its faults."""
    kind = driver_class(place.config.target.driver, place.folder)
    _check_options(place.config, kind)
    driver = kind(place)
    if place.injector is None or kind.faults_inside:
        return driver
    return FaultyDriver(driver, place.injector)


def _check_options(config: Config, kind: type[Driver]) -> None:
    for option in config.target.options:
        if option not in kind.options:
            near = get_close_matches(option, kind.options, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            known = ", ".join(kind.options) or "none"
            raise BadValue(f"target.options: the driver {kind.name} has no option {option!r}.{hint} It has: {known}.")
