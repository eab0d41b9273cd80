"""What is set at the composer: before the first message, shown as chips, and kept with the conversation."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from page.site import Site, start_site
from page.window import Window, Windows, pick
from toolyard import tool
from toolyard.core.ports import ModelRequest
from venues.mcp.plain import PlainServer

WIDTHS = pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])


@tool(read_only=True)
def stock() -> str:
    """What there is."""
    return "milk"


@tool(read_only=True)
def weigh() -> str:
    """How much an item weighs."""
    return "1 kg"


@tool(read_only=True)
def web_search(query: str) -> str:
    """Search the web."""
    return query


@pytest.fixture
def server(sites: ExitStack) -> Site:
    return sites.enter_context(start_site(tools=[stock, weigh, web_search]))


def open_settings(window: Window) -> Locator:
    window.button("Settings of this chat").click()
    return window.page.get_by_role("dialog", name="Settings of this chat")


def list_offered(request: ModelRequest) -> list[str]:
    return sorted(offered.name for offered in request.offer.tools)


def chips(window: Window) -> Locator:
    return window.page.get_by_role("list", name="Set for this conversation").get_by_role("listitem")


@WIDTHS
def test_all_is_set_before_the_first_message_and_stays_with_the_conversation(
    windows: Windows, server: Site, width: int
) -> None:
    window = windows.open(server, width=width)
    dialog = open_settings(window)
    dialog.get_by_label("System prompt").fill("Answer in verse.")
    pick(dialog.get_by_label("Thinking effort"), "high")
    dialog.get_by_label("Temperature").fill("0.5")
    pick(dialog.get_by_role("combobox", name="Web search"), "off")
    dialog.get_by_text("Tools", exact=True).click()
    dialog.get_by_role("checkbox", name="weigh").uncheck()
    assert window.page.evaluate("() => document.documentElement.scrollWidth") <= width
    dialog.get_by_role("button", name="Done").click()
    expected = ["Tools: 2", "Web search: off", "Thinking: high", "Temperature: 0.5", "System prompt"]
    expect(chips(window)).to_have_text(expected)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    request = server.requests[-1]
    assert "Answer in verse." in request.system
    assert (request.options.temperature, request.options.thinking) == (0.5, "high")
    assert list_offered(request) == ["stock"]  # weigh was taken away, and no search is to run
    expect(chips(window)).to_have_text(expected)
    window.page.reload()
    expect(chips(window)).to_have_text(expected)
    chips(window).get_by_role("button", name="Temperature: 0.5").click()
    settings = window.page.get_by_role("dialog", name="Settings of this conversation")
    pick(settings.get_by_label("Thinking effort"), "low")
    pick(settings.get_by_role("combobox", name="Web search"), "on")
    settings.get_by_role("button", name="Save", exact=True).click()
    expect(chips(window).filter(has_text="Thinking: low")).to_be_visible()
    expect(chips(window).filter(has_text="Web search: on")).to_be_visible()


def test_a_chip_is_taken_back(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    dialog = open_settings(window)
    dialog.get_by_label("Temperature").fill("0.5")
    dialog.get_by_role("button", name="Done").click()
    window.button("Remove Temperature: 0.5").click()
    expect(chips(window)).to_have_count(0)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    assert server.requests[-1].options.temperature is None


def test_a_search_is_offered_only_where_one_can_run(windows: Windows, sites: ExitStack) -> None:
    window = windows.open(sites.enter_context(start_site(tools=[stock])))
    dialog = open_settings(window)
    expect(dialog.get_by_label("Temperature")).to_be_visible()
    expect(dialog.get_by_role("combobox", name="Web search")).to_have_count(0)


@WIDTHS
def test_tools_are_found_by_words_and_set_all_at_once_or_by_server(
    windows: Windows, sites: ExitStack, tmp_path: Path, width: int
) -> None:
    plain = PlainServer(tmp_path, trust=True)
    server = sites.enter_context(start_site(tools=[stock, weigh], servers={"plain": plain.spec}))
    window = windows.open(server, width=width)
    dialog = open_settings(window)
    dialog.get_by_text("Tools", exact=True).click()
    count = dialog.get_by_role("status")
    expect(count).to_have_text("11 of 11")
    dialog.get_by_role("checkbox", name="plain", exact=True).uncheck()
    expect(count).to_have_text("2 of 11")
    dialog.get_by_role("searchbox", name="Filter tools").fill("item weighs")
    expect(dialog.get_by_role("checkbox", name="weigh")).to_have_count(1)
    expect(dialog.get_by_role("checkbox", name="stock")).to_have_count(0)
    dialog.get_by_role("button", name="None").click()
    expect(count).to_have_text("1 of 11")
    dialog.get_by_role("button", name="Done").click()
    expect(chips(window)).to_have_text(["Tools: 1"])
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    assert list_offered(server.requests[-1]) == ["stock"]
    window.choose_action("Settings of this conversation")
    settings = window.page.get_by_role("dialog")
    settings.get_by_role("button", name="All").click()
    expect(settings.get_by_role("status").first).to_have_text("11 of 11")
    settings.get_by_role("button", name="Close").click()
    window.send("again")
    expect(window.answer).to_have_text("You said: again")
    assert len(list_offered(server.requests[-1])) == 11


@WIDTHS
def test_my_instructions_are_kept_and_reach_the_model_as_my_words(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    dialog = open_settings(window)
    dialog.locator("summary", has_text="My instructions").click()
    field = dialog.get_by_role("textbox", name="My instructions")
    field.fill("I measure in ells.")
    window.button("Save my instructions").click()
    expect(dialog.get_by_text("Your instructions are saved.")).to_be_visible()
    dialog.get_by_role("button", name="Done").click()
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    assert "I measure in ells." in str(server.requests[-1])
    window.page.reload()
    window.choose_action("Settings of this conversation")
    window.page.locator("summary", has_text="My instructions").click()
    expect(window.page.get_by_role("textbox", name="My instructions")).to_have_value("I measure in ells.")
