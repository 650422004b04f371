"""The page of recent messages in a browser, with a token that is typed in."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.serving import Serving, serving

ADMIN = {"Authorization": "Bearer secret"}
LINES = """cells => cells.map(cell => {
    const text = document.createRange()
    text.selectNodeContents(cell)
    return text.getClientRects().length
})"""


@pytest.fixture
def guarded(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--auth-token", "secret") as server:
        server.call("POST", "/queues?name=jobs&max_attempts=5&visibility_timeout_seconds=30", None, ADMIN)
        server.call("POST", "/queues/jobs/enqueue", {"resize": "<b>cat</b>.png"}, ADMIN)
        yield server


@pytest.mark.parametrize("width", [420, 1280])
@pytest.mark.parametrize("name", ["jobs", "x" * 256])
def test_a_long_name_or_a_narrow_window_broke_the_other_columns_letter_by_letter(
    page: Page, tmp_path: Path, name: str, width: int
) -> None:
    with serving(tmp_path, "--durability", "fast") as server:
        server.call("POST", f"/queues?name={name}&max_attempts=5&visibility_timeout_seconds=30")
        server.call("POST", f"/queues/{name}/enqueue", ["y" * 300])
        page.set_viewport_size({"width": width, "height": 900})

        page.goto(f"{server.url}/web")

        others = page.locator("th, td:not(:nth-child(1), :nth-child(3))")
        assert max(others.evaluate_all(LINES)) == 1


def test_a_wrong_token_is_refused_and_the_right_one_shows_the_messages(page: Page, guarded: Serving) -> None:
    page.goto(f"{guarded.url}/web")

    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("p")).to_contain_text("not this server's token")

    page.get_by_label("Token").fill("secret")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("td").nth(2)).to_have_text('{"resize": "<b>cat</b>.png"}')
    expect(page.get_by_label("Token")).to_have_count(0)
