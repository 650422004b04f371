"""A poster on either kind of loop: see `posters`."""

from tests.background.webhooks.posters import run

__all__ = ["run"]
