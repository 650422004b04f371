"""Fixtures and hooks of all tests: effort of Hypothesis, a PostgreSQL, and reports that go between processes."""

import signal
from collections.abc import Generator
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings

from tests.support.cluster import Guard

_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large]

# The same examples every time, so that a red build is always about the change that turned it red.
settings.register_profile(
    "fast", derandomize=True, database=None, deadline=None, suppress_health_check=_PATIENT, print_blob=True
)
# Other examples every time: what it finds becomes a test of its own.
settings.register_profile("soak", deadline=timedelta(seconds=5), suppress_health_check=_PATIENT, print_blob=True)
settings.load_profile("fast")

_guard = pytest.StashKey[Guard]()


def pytest_configure(config: pytest.Config) -> None:
    """Have an end made of the database at the end of the run; the processes of pytest-xdist share that of the first."""
    heed_interrupts()
    if not hasattr(config, "workerinput"):
        config.stash[_guard] = Guard()


def heed_interrupts() -> None:
    """Undo that a shell's background job ignores Ctrl-C: tests interrupt themselves, and processes that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _guard in config.stash:
        config.stash[_guard].end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what is no Unicode in a report: tests log such text on purpose, and pytest-xdist can't hand it over."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report
