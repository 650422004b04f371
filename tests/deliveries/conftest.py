"""A poster on either kind of loop: see `posters`."""

from posters import run

__all__ = ["run"]
