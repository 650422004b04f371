"""Contract of drivers; see `plainbench.drivers.base`."""

from plainbench.drivers.base import Driver

__all__ = ["Driver"]
