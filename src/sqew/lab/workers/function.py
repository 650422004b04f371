"""Jobs of Python functions; see `plainbench.workers.function`."""

from plainbench.workers.function import Job

__all__ = ["Job"]
