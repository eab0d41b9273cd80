"""The sidebar: chats first, pinned and archived ones, deletion with undo, searches that lead to a passage, titles."""

from contextlib import ExitStack

import pytest
from playwright.sync_api import Locator, expect

from page.site import Site, start_site
from page.window import Window, Windows
from toolyard.core.items import ModelText, TextPart, UserMessage

WIDTHS = pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])


@pytest.fixture
def server(sites: ExitStack) -> Site:
    return sites.enter_context(start_site())


def open_sidebar(window: Window) -> Locator:
    """The list of conversations, also where it is in a menu."""
    listed = window.page.get_by_role("region", name="Conversations")
    expect(window.button("Open the menu").or_(listed).first).to_be_visible()
    if not listed.is_visible():
        window.button("Open the menu").click()
    return listed


def choose_entry(window: Window, title: str, entry: str) -> None:
    window.button(f"Actions for {title}").click()
    window.button(entry).click()


@WIDTHS
def test_chats_come_first_are_pinned_and_archived_and_other_pages_are_behind_one_entry(
    windows: Windows, server: Site, width: int
) -> None:
    for title in ("Oldest", "Older", "New"):
        server.create_conversation(title)
    window = windows.open(server, width=width)
    listed = open_sidebar(window)
    expect(listed.get_by_role("link")).to_have_text(["New chat", "New", "Older", "Oldest"])
    pages = window.page.get_by_role("navigation", name="Pages")
    expect(pages.get_by_role("link")).to_have_count(0)
    above = "(list) => list.getBoundingClientRect().top < document.querySelector('.pages').getBoundingClientRect().top"
    assert listed.evaluate(above)

    titles = listed.get_by_role("listitem")
    expect(titles).to_have_text(["New", "Older", "Oldest"])
    choose_entry(window, "Oldest", "Pin")
    expect(titles).to_have_text(["Oldest", "New", "Older"])
    expect(listed.get_by_role("heading")).to_have_text(["Pinned", "Today"])
    window.page.reload()
    open_sidebar(window)
    expect(titles).to_have_text(["Oldest", "New", "Older"])
    choose_entry(window, "Oldest", "Unpin")
    expect(listed.get_by_role("heading")).to_have_text(["Today"])

    choose_entry(window, "Older", "Archive")
    expect(titles).to_have_text(["Oldest", "New"])
    window.button("Undo").click()
    expect(titles).to_have_count(3)
    choose_entry(window, "Older", "Archive")
    expect(titles).to_have_text(["Oldest", "New"])
    window.page.get_by_role("searchbox", name="Search conversations").fill("older")
    expect(titles).to_have_text(["Olderarchived"])
    window.page.get_by_role("searchbox", name="Search conversations").fill("")
    window.button("Archived conversations").click()
    expect(titles).to_have_text(["Older"])
    choose_entry(window, "Older", "Take out of the archive")
    expect(listed.get_by_text("Nothing is archived.")).to_be_visible()
    window.button("All conversations").click()
    expect(titles).to_have_count(3)

    window.open_page("Tools")
    expect(window.page.get_by_role("heading", name="Tools")).to_be_visible()
    window.page.reload()
    open_sidebar(window)
    expect(pages.get_by_role("link", name="Tools")).to_have_attribute("aria-current", "page")  # it stays open


@WIDTHS
def test_a_deletion_is_undone_within_a_moment(windows: Windows, server: Site, width: int) -> None:
    windows.expected_complaint = "404"
    conversation = server.create_conversation(
        "Precious", UserMessage(id="i", at=0, parts=(TextPart(text="my own words"),))
    )
    window = windows.open_url(f"{server.url}/#/chat/{conversation}", width=width)
    expect(window.thread.get_by_text("my own words")).to_be_visible()
    listed = open_sidebar(window)
    choose_entry(window, "Precious", "Delete")
    expect(window.page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    offer = window.page.get_by_text("“Precious” was deleted.")
    expect(offer).to_be_visible()
    expect(listed.get_by_role("listitem")).to_have_count(0)
    window.button("Undo").click()
    expect(offer).to_have_count(0)
    expect(window.thread.get_by_text("my own words")).to_be_visible()
    expect(open_sidebar(window).get_by_role("listitem")).to_have_text(["Precious"])


@WIDTHS
def test_a_search_leads_to_its_passage_and_a_text_is_found_in_a_long_conversation(
    windows: Windows, server: Site, width: int
) -> None:
    server.create_conversation("Other", UserMessage(id="other", at=0, parts=(TextPart(text="nothing of it"),)))
    fillers = [ModelText(id=f"filler_{number}", at=0, text=f"filler {number}\n\n" * 4) for number in range(200)]
    fillers[20] = ModelText(id="hit", at=0, text=f"{'Long words before. ' * 9}The **quince** is ripe.")
    server.create_conversation("Orchard", *fillers)
    window = windows.open(server, width=width)
    listed = open_sidebar(window)
    window.page.get_by_role("searchbox", name="Search conversations").fill("QUINCE")
    expect(listed.get_by_role("listitem")).to_have_count(1)
    expect(listed.locator("mark")).to_have_text("quince")
    expect(listed.locator(".passage")).to_contain_text("The quince is ripe.")  # without the signs of Markdown
    listed.get_by_role("link", name="Orchard").click()
    hit = window.thread.get_by_text("quince")
    expect(hit).to_be_in_viewport()
    find = window.page.get_by_role("searchbox", name="Find in this conversation")
    expect(find).to_have_value("QUINCE")
    highlighted = "(words) => [...CSS.highlights.get('find') ?? []].map((range) => range.toString()).join() === words"
    window.page.wait_for_function(highlighted, arg="quince")
    find.press("Escape")
    expect(find).to_have_count(0)
    window.page.wait_for_function(highlighted, arg="")
    expect(hit).to_be_in_viewport()

    conversation = server.create_long_conversation(2000)
    window.page.goto(f"{server.url}/#/chat/{conversation}")
    expect(window.thread.get_by_text("message number 1999", exact=True)).to_be_in_viewport()
    window.choose_action("Find in this conversation")
    find.fill("number 77")
    status = window.page.get_by_role("search").get_by_role("status")
    expect(status).to_have_text("11 of 11")  # 77 and 770 to 779, the newest first
    expect(window.thread.get_by_text("message number 779", exact=True)).to_be_in_viewport()
    find.press("Enter")
    expect(status).to_have_text("1 of 11")
    expect(window.thread.get_by_text("message number 77", exact=True)).to_be_in_viewport()
    window.button("Previous match").click()
    expect(window.thread.get_by_text("message number 779", exact=True)).to_be_in_viewport()
    find.fill("no such words")
    expect(status).to_have_text("Nothing found.")
    find.press("Escape")
    window.page.keyboard.press("Control+f")
    expect(find).to_be_focused()


@WIDTHS
def test_the_model_writes_the_title_after_the_first_answer(windows: Windows, server: Site, width: int) -> None:
    server.titles["how do I make pancakes for four"] = "Pancakes for four"
    window = windows.open(server, width=width)
    window.send("how do I make pancakes for four")
    expect(window.answer).to_have_text("You said: how do I make pancakes for four")
    expect(window.page.get_by_role("heading", name="Pancakes for four")).to_be_visible()
    expect(window.page).to_have_title("Pancakes for four · Toolyard")
    expect(open_sidebar(window).get_by_role("listitem")).to_have_text(["Pancakes for four"])
