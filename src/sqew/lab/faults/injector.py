"""Errors that are injected; see `plainbench.faults.injector`."""

from plainbench.faults.injector import Injected

__all__ = ["Injected"]
