"""The page at /docs, as a browser shows it."""

from playwright.sync_api import Page, expect

from serving import Serving


def test_the_page_at_docs_opens_in_a_browser(page: Page, shared_server: Serving):
    page.goto(f"{shared_server.url}/docs")

    expect(page.locator("h1").first).to_be_visible()
