"""Menus, dialogs, lists and selects with the keyboard alone: what each role promises is what its keys do."""

from playwright.sync_api import Locator, Page, expect

from page.site import Site, is_title_request
from page.window import Windows
from toolyard.core.ports import Model
from toolyard.testing import Scripted, say

NAMES = [f"{provider}:{word}" for provider in ("anthropic", "ollama") for word in "abcdefghijkl"]
SCENES: dict[str, list[object]] = {}
TOOLS: list[object] = []


def build_model(name: str) -> Model:
    return Scripted(lambda request: say("" if is_title_request(request) else f"I am {name}."))


WIRING = {"model": "anthropic:a", "named_model": build_model, "allowed_models": frozenset(NAMES)}


def has_focus_inside(element: Locator) -> bool:
    return element.evaluate("(element) => element.contains(document.activeElement)")


def walk_with_tab(page: Page, element: Locator, *, key: str = "Tab", steps: int = 40) -> None:
    """Press Tab so often that it goes round: the focus never leaves the element but for the browser's own controls."""
    for _ in range(steps):
        page.keyboard.press(key)
        outside = "(element) => !element.contains(document.activeElement) && document.activeElement !== document.body"
        assert not element.evaluate(outside), page.evaluate("() => document.activeElement.outerHTML")


def test_a_dialog_keeps_the_focus_and_gives_it_back(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    window.send("hello")
    expect(window.answer).to_have_text("I am anthropic:a.")
    for name in ("Settings of this conversation", "Share and export", "Model: a", "Delete message"):
        opener, dialog = window.button(name).last, page.get_by_role("dialog")
        opener.focus()
        page.keyboard.press("Enter")
        expect(dialog).to_be_visible()
        assert has_focus_inside(dialog)
        walk_with_tab(page, dialog)
        walk_with_tab(page, dialog, key="Shift+Tab", steps=5)
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(opener).to_be_focused()
        page.keyboard.press("Enter")
        dialog.get_by_role("button", name="Close").focus()
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        expect(opener).to_be_focused()


def test_a_list_is_walked_with_the_keys_that_a_combobox_has(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    window.button("Model: a").click()
    search = page.get_by_role("combobox", name="Search models")
    expect(page.get_by_role("option")).to_have_count(len(NAMES))
    expect(page.get_by_role("group", name="ollama").get_by_role("option")).to_have_count(12)

    def expect_active(name: str) -> None:
        option = page.get_by_role("option", name=name, exact=True)
        expect(search).to_have_attribute("aria-activedescendant", option.get_attribute("id") or "none")
        expect(search).to_be_focused()
        expect(option).to_be_in_viewport()

    last = NAMES[-1]
    for key, name in (
        ("End", last),
        ("ArrowDown", "anthropic:a default"),
        ("ArrowUp", last),
        ("Home", "anthropic:a default"),
        ("PageDown", "anthropic:k"),
        ("PageDown", "ollama:i"),
        ("PageDown", last),
        ("PageUp", "ollama:b"),
        ("ArrowDown", "ollama:c"),
    ):
        search.press(key)
        expect_active(name)
    # In a text Home and End belong to the text.
    search.fill("llama")
    expect_active("ollama:a")
    search.press("ArrowDown")
    search.press("Home")
    search.press("o")
    expect(search).to_have_value("ollama")
    search.fill("nothing like it")
    expect(page.get_by_role("status").filter(has_text="No model matches.")).to_be_visible()
    search.press("ArrowDown")
    search.press("Enter")
    search.fill("ollama:b")
    search.press("Enter")
    expect(window.button("Model: b")).to_be_focused()


def test_the_menu_of_a_conversation_gives_the_focus_back(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    window.send("oranges")
    expect(window.answer).to_have_text("I am anthropic:a.")
    opener = window.button("Actions for oranges")
    rename = window.button("Rename")
    opener.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(window.button("Pin")).to_be_focused()
    page.keyboard.press("Tab")
    expect(rename).to_be_focused()
    page.keyboard.press("Escape")
    expect(rename).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    rename.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Rename")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(5):  # past its four entries
        page.keyboard.press("Tab")
    expect(rename).to_have_count(0)
    page.goto(f"{server.url}/#/chat")
    expect(window.composer).to_be_focused()
    opener.focus()
    page.keyboard.press("Enter")
    window.button("Delete").focus()
    page.keyboard.press("Enter")
    expect(window.button("Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(opener).to_be_visible()


def test_the_menu_of_a_phone_keeps_the_focus_until_it_is_closed(windows: Windows, server: Site) -> None:
    window = windows.open(server, width=375)
    page = window.page
    opener, side = window.button("Open the menu"), page.get_by_role("complementary", name="Sidebar")
    expect(window.composer).to_be_visible()
    for close in ("Escape", "Enter"):
        opener.focus()
        page.keyboard.press("Enter")
        expect(window.button("Close the menu")).to_be_focused()
        for _ in range(25):
            page.keyboard.press("Tab")
            assert not page.evaluate("() => document.activeElement.closest('main, .topbar') !== null")
        window.button("Close the menu").focus()
        page.keyboard.press(close)
        expect(side).to_be_hidden()
        expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    window.button("More pages").focus()
    page.keyboard.press("Enter")
    side.get_by_role("link", name="Tools").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Tools")).to_be_visible()
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    expect(window.button("Close the menu")).to_be_focused()
    page.set_viewport_size({"width": 1200, "height": 800})
    page.get_by_role("main").get_by_role("searchbox").first.click()  # nothing stays inert once it is no menu


def test_a_choice_is_made_without_a_mouse(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    window.button("Settings of this chat").click()
    dialog = page.get_by_role("dialog", name="Settings of this chat")
    select = dialog.get_by_role("combobox", name="Thinking effort")
    expect(select).to_have_text("provider default")
    options = page.get_by_role("listbox", name="Thinking effort").get_by_role("option")
    active = page.locator("[role=option][data-active]")
    select.focus()
    page.keyboard.press("Enter")
    expect(select).to_have_attribute("aria-expanded", "true")
    expect(active).to_have_text("provider default")
    page.keyboard.press("h")
    expect(active).to_have_text("high")
    expect(select).to_have_attribute("aria-activedescendant", active.get_attribute("id") or "")
    page.keyboard.press("Escape")  # closes the list and not the dialog
    expect(options).to_have_count(0)
    expect(dialog).to_be_visible()
    expect(select).to_have_text("provider default")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    expect(select).to_have_text("minimal")
    expect(options).to_have_count(0)
    expect(select).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(options.first).to_be_visible()
    page.keyboard.press("Tab")
    expect(options).to_have_count(0)
    expect(select).to_have_text("minimal")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
