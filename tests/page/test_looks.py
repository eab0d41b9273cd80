"""What meets the eye: tables, lists of tasks, one row on a phone, the page's language, commands and their keys."""

import asyncio
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from page.site import Site, start_site
from page.window import Windows
from toolyard import tool
from toolyard.testing import Turn, call, fail, say

WIDTHS = pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
LONG = "a long text that explains in some detail why it is needed and who could go to fetch it " * 3
TABLE = f"| Item | State | Why |\n|---|---|---|\n| Milk | Needed | {LONG} |\n| Eggs | Done | {'x' * 200} |"
SCENES: dict[str, list[Turn]] = {
    "table": [say(TABLE)],
    "tasks": [say("- [x] milk\n- [ ] eggs\n  - [ ] brown ones\n- bread")],
    "tasks apart": [say("- [x] milk\n\n- [ ] eggs\n\n  - [ ] brown ones\n\n- bread")],
    "break": [fail("the key is wrong")],
    "wait": [call("wait"), say("It takes too long.")],
    "order": [call("order_everything"), say("Ordered.")],
}


@tool(examples=["add {item} to the list", "setze {item} auf die Liste"])
def add(item: str) -> str:
    """Add an item."""
    return item


@tool(examples=["show the list", "查看清单"])
def show() -> str:
    """Show the list, with everything that was put on it since somebody went to the shop, and who put it there."""
    return ""


@tool(timeout_s=0.1)
async def wait() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


@tool(title="Order everything on the list", approval="ask")
def order_everything() -> None:
    """Order what is on the list."""


TOOLS = [add, show]

COUNT_LINES = """(cell) => {
    const range = document.createRange()
    range.selectNodeContents(cell)
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size
}"""


@WIDTHS
def test_a_long_cell_breaks_no_short_word_of_its_neighbours(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    window.send("table")
    for word in ("Milk", "Needed", "Eggs"):
        cell = window.answer.get_by_role("cell", name=word, exact=True)
        assert cell.evaluate(COUNT_LINES) == 1, word
    assert window.page.evaluate("() => document.querySelector('.thread').scrollWidth") <= width


@pytest.mark.parametrize("message", ["tasks", "tasks apart"])
def test_a_task_has_a_box_and_no_bullet(windows: Windows, server: Site, message: str) -> None:
    window = windows.open(server)
    window.send(message)
    style = "(item) => getComputedStyle(item).listStyleType"
    for text, bullet in (("milk", "none"), ("brown ones", "none"), ("bread", "disc")):
        item = window.answer.get_by_role("listitem").filter(has_text=text).last
        assert item.evaluate(style) == bullet, text
    outer, inner = (window.answer.get_by_text(text).bounding_box() for text in ("☐ eggs", "☐ brown ones"))
    assert outer and inner and inner["x"] > outer["x"] + 10  # a task within a task stands further in
    expect(window.answer.get_by_text("☑ milk")).to_be_visible()
    assert window.answer.inner_text().count("☑") == 1


def test_a_failure_is_told_in_words(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("break")
    expect(window.page.get_by_role("alert")).to_contain_text("The model reports a problem: the key is wrong")
    expect(window.page.get_by_role("alert")).not_to_contain_text("model_error")


def test_on_a_phone_the_head_is_one_row_with_a_new_chat(windows: Windows, server: Site) -> None:
    window = windows.open(server, width=375)
    page = window.page
    window.send("a title that is rather long for the width of a phone")
    expect(window.answer).to_contain_text("You said")
    head, title = page.get_by_role("banner"), page.get_by_role("heading", level=1)
    expect(title).to_be_visible()
    box = head.bounding_box()
    assert box is not None and box["height"] < 60
    assert page.locator(".chat").evaluate("(chat) => chat.firstElementChild.className") == "thread-frame"
    window.choose_action("Share and export")
    expect(page.get_by_role("dialog", name="Share and export")).to_be_visible()
    page.keyboard.press("Escape")
    expect(window.button("Menu of this conversation")).to_be_focused()
    head.get_by_role("link", name="New chat").click()
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()


def test_long_words_of_a_language_stay_inside_a_phone(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site(SCENES, tools=[wait, order_everything]))
    window = windows.open(server, width=375, locale="de")
    page = window.page
    composer = page.get_by_role("textbox", name="Nachricht schreiben")
    composer.fill("wait")
    composer.press("Enter")
    expect(window.answer).to_have_text("It takes too long.")
    page.goto(f"{server.url}/#/tools/wait")
    expect(page.get_by_role("cell", name="Zeit überschritten")).to_be_visible()
    ends = "(page) => Math.max(...[...page.children].map((part) => part.getBoundingClientRect().right))"
    assert page.locator(".tool-page").evaluate(ends) < 375
    page.goto(f"{server.url}/#/chat")
    composer.fill("order")
    composer.press("Enter")
    expect(page.get_by_role("button", name="Genehmigen")).to_be_visible()
    head = page.locator(".call-head")
    assert head.evaluate("(head) => head.scrollWidth - head.clientWidth") <= 0


@pytest.mark.parametrize(
    ("locale", "starters"),
    [
        ("en", ["add milk to the list", "show the list"]),
        ("de", ["setze milk auf die Liste"]),
        ("zh-CN", ["查看清单"]),
    ],
)
def test_starters_are_in_the_language_of_the_page(
    windows: Windows, sites: ExitStack, locale: str, starters: list[str]
) -> None:
    window = windows.open(sites.enter_context(start_site(tools=TOOLS)), locale=locale)
    shown = window.page.locator(".starters").get_by_role("button")
    expect(shown).to_have_count(len(starters))
    for found, expected in zip(shown.all_inner_texts(), starters, strict=True):
        assert found.split()[-1] == expected.split()[-1]


def test_without_a_fitting_example_the_page_asks_about_the_tools(windows: Windows, sites: ExitStack) -> None:
    window = windows.open(sites.enter_context(start_site(tools=[show])), locale="de")
    shown = window.page.locator(".starters").get_by_role("button")
    expect(shown.first).to_have_text("Was kannst du hier tun?")


@WIDTHS
@pytest.mark.parametrize("locale", ["en", "de", "zh-CN"])
def test_no_placeholder_is_cut(windows: Windows, server: Site, locale: str, width: int) -> None:
    window = windows.open(server, locale=locale, width=width)
    window.page.locator(".composer-row button.icon").click()
    window.page.locator("dialog summary").first.click()
    expect(window.page.get_by_role("searchbox").last).to_be_visible()
    for field in window.page.locator("input[placeholder]:visible, textarea[placeholder]:visible").all():
        room, needed = field.evaluate(
            """(field) => {
                const style = getComputedStyle(field), canvas = document.createElement("canvas").getContext("2d")
                canvas.font = style.font
                const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight)
                return [field.clientWidth - padding, canvas.measureText(field.placeholder).width]
            }"""
        )
        assert needed < room, field.get_attribute("placeholder")


@WIDTHS
def test_the_palette_runs_commands(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    page = window.page
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")

    def run_command(text: str, name: str) -> None:
        page.keyboard.press("Control+k")
        expect(page.get_by_role("group", name="Tools")).to_be_attached()
        assert page.locator(".search-options").evaluate("(list) => list.scrollWidth - list.clientWidth") <= 0
        page.get_by_role("combobox").fill(text)
        expect(page.get_by_role("group", name="Actions").get_by_role("option").first).to_contain_text(name)
        page.get_by_role("combobox").press("Enter")

    run_command("dark", "Theme: Dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    run_command("find in", "Find in this conversation")
    expect(page.get_by_role("searchbox", name="Find in this conversation")).to_be_focused()
    run_command("settings of", "Settings of this conversation")
    expect(page.get_by_role("dialog", name="Settings of this conversation")).to_be_visible()
    page.keyboard.press("Escape")
    run_command("new ch", "New chat")
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    run_command("deutsch", "Language: Deutsch")
    expect(page.get_by_role("heading", name="Was sollen wir tun?")).to_be_visible()


def test_what_is_typed_right_after_a_key_goes_where_the_key_leads(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page, keyboard = window.page, window.page.keyboard
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    for keys, field in (("Control+f", page.get_by_role("searchbox").last), ("Control+k", page.get_by_role("combobox"))):
        keyboard.press(keys)
        keyboard.type("said")
        expect(field).to_have_value("said")
        keyboard.press("Escape")
    expect(window.composer).to_have_value("")


def test_keys_are_listed_and_do_what_the_list_says(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site())
    older, newer = (server.create_conversation(title) for title in ("Older", "Newer"))
    window = windows.open_url(f"{server.url}/#/chat/{newer}")
    page = window.page
    expect(page.get_by_role("heading", name="Newer")).to_be_visible()
    listed = page.get_by_role("region", name="Conversations").get_by_role("listitem")
    expect(listed).to_have_text(["Newer", "Older"])
    window.composer.fill("what?")
    window.composer.press("?")
    expect(window.composer).to_have_value("what??")  # it is text where one writes
    page.get_by_role("heading", name="Newer").click()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog.get_by_role("term")).to_contain_text(["Go to", "Find in this conversation", "New chat"])
    assert dialog.get_by_role("term").count() >= 10
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+ArrowDown")
    expect(page.get_by_role("heading", name="Older")).to_be_visible()
    assert page.url.endswith(older)
    page.keyboard.press("Alt+ArrowUp")
    expect(page.get_by_role("heading", name="Newer")).to_be_visible()
    page.get_by_role("heading", name="Newer").click()
    page.keyboard.press("/")
    expect(window.composer).to_be_focused()
    page.keyboard.press("Control+,")
    expect(page.get_by_role("dialog", name="Settings of this conversation")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+O")
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    page.keyboard.press("Control+Shift+F")
    expect(page.get_by_role("searchbox", name="Search conversations")).to_be_focused()
