"""Debian's Chromium, driven by Playwright. Every name under ``.example`` is this machine, as after DNS rebinding."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.serving import servers, serving, shared_server

__all__ = ["servers", "serving", "shared_server"]

_FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers have 64 MiB there, and a page that finds it full crashes
    "--host-resolver-rules=MAP *.example 127.0.0.1",
]


# Of a module and not of the session: Playwright keeps an event loop running in this thread as long as it is there, and
# `asyncio.run` in the tests of other modules would refuse to start a second one.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a Chromium of the module's own."""
    flags = [*_FLAGS, "--no-sandbox"] if os.geteuid() == 0 else _FLAGS  # root gets no sandbox
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield a new tab, without cookies or cache from other tests."""
    context = browser.new_context()
    yield context.new_page()
    context.close()
