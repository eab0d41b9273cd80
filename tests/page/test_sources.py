"""What a provider searched, in a real browser: the call, where it ran, and the sources of the answer."""

import pytest
from playwright.sync_api import expect

from hosting import SearchingModel
from page.site import Site
from page.window import Windows
from toolyard.core.ports import Model

EVIL = "javascript:alert(document.domain)"
ADDRESSES = {"good": "https://example.org/news", "evil": EVIL}
TOOLS: list[object] = []
SCENES: dict[str, object] = {}


def make_search_model(name: str) -> Model:
    return SearchingModel(ADDRESSES[name])


WIRING = {"named_model": make_search_model}


@pytest.mark.parametrize("name", ["good", "evil"])
def test_a_native_search_and_its_sources_are_shown_and_only_the_web_is_linked(
    name: str, windows: Windows, server: Site
) -> None:
    done = server.run(server.yard.execute("news", model=name, web_search="native"))
    window = windows.open(server)
    window.page.goto(f"{server.url}/#/chat/{done.conversation}")
    window.card("web_search").get_by_role("button").first.click()
    expect(window.card("web_search")).to_contain_text("at the model's provider: anthropic")
    sources = window.page.get_by_role("list", name="Sources")
    expect(sources).to_have_text("News")
    expect(window.page.get_by_role("heading", name="Sources")).to_be_visible()
    links = sources.get_by_role("link")
    assert links.count() == (1 if name == "good" else 0)
    assert window.page.locator('a[href^="javascript:"]').count() == 0
    if name == "good":
        expect(links).to_have_attribute("href", ADDRESSES["good"])
        expect(links).to_have_attribute("rel", "noopener noreferrer nofollow")
