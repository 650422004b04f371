"""A real server in a process of its own: see `serving`."""

from tests.support.serving import START_WITHIN_S, Answer, Serving, servers, serving, shared_server

__all__ = ["START_WITHIN_S", "Answer", "Serving", "servers", "serving", "shared_server"]
