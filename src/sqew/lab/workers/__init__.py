"""Work and its verdicts; see `plainbench.workers`."""

from plainbench.workers import Dead, Done, Retry, Verdict

__all__ = ["Dead", "Done", "Retry", "Verdict"]
