"""The page at /docs in a browser."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.serving import Serving

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 800}


@pytest.fixture
def docs(page: Page, shared_server: Serving) -> Page:
    """Return the page, loaded and ready."""
    page.goto(f"{shared_server.url}/docs")
    page.wait_for_selector("details.route")
    return page


def names_in(fields: Locator) -> list[str]:
    return [name.removesuffix(" required") for name in fields.locator("> .field > :first-child").all_inner_texts()]


def test_the_page_at_docs_opens_in_a_browser(page: Page, shared_server: Serving):
    page.goto(f"{shared_server.url}/docs")

    expect(page.locator("h1").first).to_be_visible()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_filtering_shows_the_first_hit_wherever_one_was_on_the_page(docs: Page, size):
    docs.set_viewport_size(size)
    docs.evaluate("scrollTo(0, document.body.scrollHeight)")

    docs.fill("#filter", "schedules")

    first = docs.locator("details.route:visible").first
    expect(first).to_contain_text("/v1/schedules")
    expect(first).to_be_in_viewport(ratio=1)
    expect(docs.locator("#filter")).to_be_in_viewport(ratio=1)
    expect(docs.locator("#hits")).to_have_text(re.compile(r"\d+ routes"))


def test_a_filter_that_no_route_has_says_so_and_without_one_all_are_back(docs: Page):
    routes = docs.locator("details.route:visible").count()

    docs.fill("#filter", "nosuchword")
    expect(docs.locator("#none")).to_be_visible()
    expect(docs.locator("details.route:visible")).to_have_count(0)

    docs.fill("#filter", "")
    expect(docs.locator("#none")).to_be_hidden()
    expect(docs.locator("details.route:visible")).to_have_count(routes)
    expect(docs.locator("h1")).to_be_in_viewport()


def test_required_fields_come_first(docs: Page):
    unordered = []
    for route in docs.locator("details.route").all():
        route.evaluate("(route) => { route.open = true }")
        for fields in route.locator(".inside > .fields").all():
            required = [field.locator(".required").count() > 0 for field in fields.locator("> .depth-0").all()]
            if required != sorted(required, reverse=True):
                unordered.append((route.get_attribute("id"), names_in(fields)))

    assert unordered == []


def test_a_route_of_two_dialects_is_shown_once_for_each_with_what_is_its_own(docs: Page):
    own, theirs = docs.locator("details#sqew_create_queue"), docs.locator("details#sqew_create_queue_hq")
    for card in (own, theirs):
        card.locator("> summary").click()

    expect(own.locator("form textarea")).to_have_count(1)
    expect(own.get_by_text("Parameters", exact=True)).to_have_count(0)
    expect(own.locator(".answer").first).to_contain_text("201")
    assert names_in(own.locator(".inside > .fields"))[0] == "name"
    expect(theirs.locator("form textarea")).to_have_count(0)
    assert names_in(theirs.locator(".inside > .fields")) == ["name", "max_attempts", "visibility_timeout_seconds"]
    expect(theirs.locator(".answer").first).to_contain_text("200")
    expect(docs.locator("section#dialect-hq details#sqew_create_queue_hq")).to_have_count(1)


def test_both_ways_to_make_a_queue_work_from_the_page(docs: Page):
    own, theirs = docs.locator("details#sqew_create_queue"), docs.locator("details#sqew_create_queue_hq")
    for card in (own, theirs):
        card.locator("> summary").click()
    own.locator("textarea").fill('{"name": "made-by-body"}')
    for name, value in (("name", "made-by-url"), ("max_attempts", "3"), ("visibility_timeout_seconds", "30")):
        theirs.locator(f"input[name={name}]").fill(value)

    for card in (own, theirs):
        card.get_by_role("button", name="Send").click()

    expect(own.locator(".status")).to_contain_text("201")
    expect(theirs.locator(".status")).to_contain_text("200")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_code_is_no_larger_than_its_text(docs: Page, size):
    docs.set_viewport_size(size)
    docs.locator("#errors").scroll_into_view_if_needed()

    heights = docs.locator("#errors .field > code").evaluate_all("all => all.map((one) => one.offsetHeight)")

    assert len(set(heights)) == 1
    assert heights[0] < 30


def test_nothing_is_wider_than_a_narrow_page(docs: Page):
    docs.set_viewport_size(NARROW)
    docs.locator("details#sqew_create_queue > summary").click()

    assert docs.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
