"""The model of a conversation: shown, chosen and remembered."""

from collections.abc import Generator

import pytest
from playwright.sync_api import Route, expect

from page.site import Site, is_title_request, start_site
from page.window import Window, Windows
from surfaces.api_client import Json
from toolyard.core.ports import Model
from toolyard.testing import Scripted, fail, say

MODELS = frozenset({"ollama:alpha", "ollama:beta", "anthropic:gamma"})


def build_model(name: str) -> Model:
    words = f"I am {name}."
    answer = fail("the key is wrong") if name == "ollama:beta" else say(words)
    return Scripted(lambda request: say("") if is_title_request(request) else answer)


@pytest.fixture(scope="module")
def server() -> Generator[Site]:
    with start_site(model="ollama:alpha", named_model=build_model, allowed_models=MODELS) as site:
        yield site


def open_without_a_key(windows: Windows, server: Site, width: int = 1200) -> Window:
    """Open a window on a server whose last model lacks its key: models that a test makes itself need none."""
    window = windows.open(server, width=width)

    def remove_key(route: Route) -> None:
        answer: Json = route.fetch().json()
        for model in answer["models"]:
            if model["id"] == "anthropic:gamma":
                model.update(available=False, reason="needs ANTHROPIC_API_KEY")
        route.fulfill(json=answer)

    window.page.route("**/models", remove_key)
    window.page.reload()
    return window


@pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
def test_the_model_is_shown_and_chosen_and_the_conversation_remembers_it(
    windows: Windows, server: Site, width: int
) -> None:
    window = open_without_a_key(windows, server, width=width)
    page = window.page
    window.send("who?")
    expect(window.answer).to_have_text("I am ollama:alpha.")
    window.button("Model: alpha").click()
    search = page.get_by_role("combobox", name="Search models")
    expect(search).to_be_focused()
    expect(page.get_by_role("option", name="anthropic:gamma")).to_contain_text("needs ANTHROPIC_API_KEY")
    expect(page.get_by_role("option", name="anthropic:gamma")).to_have_attribute("aria-disabled", "true")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    search.fill("bet")
    expect(page.get_by_role("option")).to_have_count(1)
    search.press("Enter")
    expect(window.button("Model: beta")).to_be_focused()
    page.reload()
    expect(window.button("Model: beta")).to_be_visible()
    window.send("who?")
    expect(window.thread.get_by_text("the key is wrong")).to_be_visible()


def test_a_new_conversation_begins_with_the_model_that_was_chosen(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.button("Model: alpha").click()
    window.page.get_by_role("option", name="ollama:beta").click()
    window.send("who?")
    expect(window.thread.get_by_text("the key is wrong")).to_be_visible()
    expect(window.button("Model: beta")).to_be_visible()
