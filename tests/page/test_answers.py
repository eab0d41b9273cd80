"""What is done with an answer: another model tries it, it is copied as text, and rated with a note."""

import pytest
from playwright.sync_api import Route, expect

from page.site import Site, is_title_request
from page.window import Window, Windows
from toolyard.core.ports import Model
from toolyard.testing import Scripted, Turn, say

NAMES = ["ollama:alpha", "ollama:beta"]
WIDTHS = pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])


def build_model(name: str) -> Model:
    words = f"I am **{name}**, and\n\n- this\n- that\n\n| Item |\n|---|\n| milk |\n\n```python\nprint()\n```"
    return Scripted(lambda request: say("" if is_title_request(request) else words))


SCENES: dict[str, list[Turn]] = {}
TOOLS: list[object] = []
WIRING = {"model": "ollama:alpha", "named_model": build_model, "allowed_models": frozenset(NAMES)}


def choose_more(window: Window, entry: str) -> None:
    window.button("More for this answer").last.click()
    menu, thread = (window.page.locator(place).bounding_box() for place in (".popup", ".thread"))
    assert menu and thread and menu["y"] + menu["height"] <= thread["y"] + thread["height"]
    assert menu["x"] + menu["width"] <= thread["x"] + thread["width"]
    window.button(entry).click()


@WIDTHS
def test_another_model_answers_again(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    window.send("who?")
    expect(window.answer).to_contain_text("I am ollama:alpha")
    choose_more(window, "Try again with another model")
    window.page.get_by_role("option", name="ollama:beta").click()
    expect(window.answer).to_contain_text("I am ollama:beta")
    expect(window.page.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    expect(window.button("Model: alpha")).to_be_visible()  # the conversation keeps its model
    assert window.page.evaluate("() => document.documentElement.scrollWidth") <= width
    window.button("Earlier version").click()
    expect(window.answer).to_contain_text("I am ollama:alpha")


def test_a_menu_stays_in_the_window_when_its_button_moves(windows: Windows, server: Site) -> None:
    window = windows.open(server, width=375)
    waiting: list[Route] = []
    # What a visitor thought of the answers comes late, and its thumbs move the button of the menu.
    window.page.route("**/feedback", lambda route: waiting.append(route))
    with window.page.expect_request("**/feedback"):
        window.send("who?")
    window.button("More for this answer").click()
    before = window.page.locator(".popup").bounding_box()
    for route in waiting:
        route.continue_()
    expect(window.button("Good answer")).to_be_visible()
    after = window.page.locator(".popup").bounding_box()
    assert before and after and max(before["x"] + before["width"], after["x"] + after["width"]) <= 375


def test_an_answer_is_copied_as_markdown_or_as_text(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.send("who?")
    expect(window.answer).to_contain_text("I am ollama:alpha")
    window.button("Copy answer").click()
    assert window.read_clipboard("I am **").startswith("I am **ollama:alpha**, and\n\n- this\n- that\n\n| Item |")
    choose_more(window, "Copy as text")
    copied = window.read_clipboard("I am ollama")
    assert "*" not in copied and [line for line in copied.split("\n") if line] == [
        "I am ollama:alpha, and",
        "this",
        "that",
        "Item",
        "milk",
        "print()",
    ]


@WIDTHS
def test_an_answer_is_rated_with_a_note_and_the_rating_taken_back(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    page = window.page
    window.send("who?")
    bad, good = window.button("Bad answer"), window.button("Good answer")
    bad.click()
    expect(bad).to_have_attribute("aria-pressed", "true")
    note = page.get_by_role("textbox", name="What was it?")
    note.fill("It does not say when.")
    note.press("Enter")
    expect(page.get_by_text("It does not say when.")).to_be_visible()
    page.reload()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("It does not say when.")).to_be_visible()
    chat = page.url
    page.goto(f"{server.url}/#/traces")
    page.locator("table.runs tbody tr").first.get_by_role("link").first.click()
    expect(page.locator(".run-trace")).to_contain_text("It does not say when.")
    page.goto(chat)
    good.click()
    expect(good).to_have_attribute("aria-pressed", "true")
    expect(bad).to_have_attribute("aria-pressed", "false")
    expect(note).to_have_value("It does not say when.")
    page.reload()
    expect(page.get_by_text("It does not say when.")).to_be_visible()  # the note stays with another thumb
    good.click()
    expect(good).to_have_attribute("aria-pressed", "false")
    page.reload()
    expect(good).to_have_attribute("aria-pressed", "false")
