"""The settings of a conversation, set by hand, and results and tables that can be read and taken along."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from page.site import Site
from page.window import Windows
from toolyard import tool
from toolyard.testing import Turn, call, say

TABLE = "| item | left | price |\n|---|---|---|\n| milk | 2 | 1.20 € |\n| bread, dark | 10 | 3 € |\n"
LINES = "\n".join(f"line {number} of the log" for number in range(2000))


@tool(read_only=True)
def stock() -> list[dict[str, object]]:
    """What there is."""
    return [{"item": "milk", "left": 2}, {"item": "bread", "left": 10}]


@tool(read_only=True, max_result_bytes=1_000_000)
def read_log() -> str:
    """Return the log."""
    return LINES


TOOLS = [stock, read_log]
SCENES: dict[str, list[Turn]] = {
    "table": [say(TABLE)],
    "stock": [call("stock"), say("There it is.")],
    "log": [call("read_log"), say("There it is.")],
}


@pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
def test_settings_are_changed_in_one_dialog_and_the_model_gets_them(windows: Windows, server: Site, width: int) -> None:
    requests = server.requests
    window = windows.open(server, width=width)
    page = window.page
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    window.choose_action("Settings of this conversation")
    page.get_by_label("System prompt").fill("Answer in verse.")
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_label("Turns with tools per request").fill("3")
    page.get_by_label("Messages that the model sees").fill("20")
    window.button("Save").click()
    opener = "Settings of this conversation" if width > 760 else "Menu of this conversation"
    expect(window.button(opener)).to_be_focused()
    window.send("again")
    expect(window.answer).to_have_text("You said: again")
    assert requests[-1].options.temperature == 0.5
    assert "Answer in verse." in requests[-1].system
    page.reload()
    window.choose_action("Settings of this conversation")
    expect(page.get_by_label("Temperature")).to_have_value("0.5")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    expect(page.get_by_label("Turns with tools per request")).to_have_value("3")
    page.get_by_label("Temperature").fill("")
    page.get_by_label("Messages that the model sees").fill("")
    window.button("Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    window.send("once more")
    expect(window.answer).to_have_text("You said: once more")
    assert requests[-1].options.temperature is None


def test_a_limit_that_the_server_does_not_allow_is_told(windows: Windows, server: Site) -> None:
    windows.expected_complaint = "422"
    window = windows.open(server)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    window.choose_action("Settings of this conversation")
    window.page.get_by_label("Turns with tools per request").fill("100000")
    window.button("Save").click()
    expect(window.page.get_by_role("alert")).to_contain_text("max_turns")


def test_numbers_in_tables_are_aligned_and_a_table_is_copied_as_csv(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.send("table")
    cells = window.answer.get_by_role("cell")
    expect(cells.nth(0)).to_have_css("text-align", "start")
    for number in (1, 2):
        expect(cells.nth(number)).to_have_css("text-align", "end")
    window.button("Copy as CSV").click()
    copied = window.read_clipboard("item,")
    assert copied.splitlines() == ["item,left,price", "milk,2,1.20 €", '"bread, dark",10,3 €']
    window.send("stock")
    expect(window.answer).to_have_text("There it is.")
    card = window.card("stock")
    card.get_by_role("button").first.click()
    expect(card.get_by_role("cell", name="10")).to_have_css("text-align", "end")
    card.get_by_role("button", name="Copy as CSV").click()
    assert window.read_clipboard("item,left\r\n").splitlines() == ["item,left", "milk,2", "bread,10"]


def test_a_large_result_is_searched_and_downloaded_in_a_viewer(windows: Windows, server: Site, tmp_path: Path) -> None:
    window = windows.open(server)
    page = window.page
    window.send("log")
    expect(window.answer).to_have_text("There it is.")
    card = window.card("read_log")
    card.get_by_role("button").first.click()
    expect(card).not_to_contain_text("line 1999 of the log")
    card.get_by_role("button", name="Open the whole result").click()
    viewer = page.get_by_role("dialog", name="Result of Read log")
    expect(viewer).to_contain_text("line 1999 of the log")
    viewer.get_by_role("searchbox", name="Search in the result").fill("LINE 1234 of")
    expect(viewer).to_contain_text("Lines found: 1")
    expect(viewer).not_to_contain_text("line 1999 of the log")
    with page.expect_download() as download:
        viewer.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "log.txt")
    assert (tmp_path / "log.txt").read_text("utf-8") == LINES
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(viewer).to_have_count(0)
    expect(card.get_by_role("button", name="Open the whole result")).to_be_focused()
