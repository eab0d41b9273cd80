"""The command palette, and what the page says when it cannot reach the server."""

import pytest
from playwright.sync_api import expect

from page.site import Site
from page.window import Windows
from toolyard import tool


@tool(read_only=True)
def stock() -> str:
    """What there is."""
    return "milk"


TOOLS = [stock]
SCENES: dict[str, list[object]] = {}


@pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
def test_everything_is_reached_from_the_keyboard(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    page = window.page
    window.send("About oranges")
    expect(window.answer).to_have_text("You said: About oranges")
    url = page.url

    def go_to(text: str, group: str, name: str) -> None:
        page.keyboard.press("Control+k")
        search = page.get_by_role("combobox")
        expect(search).to_be_focused()
        search.fill(text)
        option = page.get_by_role("group", name=group).get_by_role("option", name=name).first
        expect(option).to_be_visible()
        while option.get_attribute("data-active") is None:
            search.press("ArrowDown")
        search.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)

    go_to("over", "Pages", "Overview")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    go_to("sto", "Tools", "stock")
    expect(page.get_by_role("heading", name="stock")).to_be_visible()
    go_to("oranges", "Conversations", "About oranges")
    expect(window.answer).to_have_text("You said: About oranges")
    assert page.url == url
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_lost_connection_is_told_in_our_own_words_until_it_is_back(windows: Windows, server: Site) -> None:
    windows.expected_complaint = "ERR_INTERNET_DISCONNECTED"
    window = windows.open(server)
    page = window.page
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    page.context.set_offline(True)
    window.send("are you there?")
    problem = page.get_by_role("alert").filter(has_text="The server cannot be reached.")
    expect(problem).to_be_visible()
    expect(page.get_by_text("Failed to fetch")).to_have_count(0)
    expect(window.composer).to_have_value("are you there?")
    page.context.set_offline(False)
    expect(problem).to_have_count(0)
    window.composer.press("Enter")
    expect(window.answer).to_have_text("You said: are you there?")


def test_in_german_everything_is(windows: Windows, server: Site) -> None:
    window = windows.open(server, locale="de-AT")
    page = window.page
    expect(page.get_by_role("heading", name="Was sollen wir tun?")).to_be_visible()
    assert page.evaluate("() => document.documentElement.lang") == "de"
    page.get_by_role("button", name="Sprache: 中文").click()
    expect(page.get_by_role("heading", name="我们来做点什么？")).to_be_visible()
