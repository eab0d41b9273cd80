"""The chat without a language model, in a real browser: it says so, lets choose, and asks before it changes a thing."""

from collections.abc import Generator
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from page.site import Site, start_site
from page.test_sharing import open_signed_in
from page.window import Windows
from surfaces.api_client import build_key
from toolyard import tool

DELETED: list[int] = []


@tool(examples=["delete order {number}"])
def delete_order(number: int) -> str:
    """Delete an order for good."""
    DELETED.append(number)
    return f"order {number} is gone"


@tool(read_only=True, examples=["track {number}"])
def track_order(number: int) -> str:
    """Tell where an order is."""
    return f"order {number} is on its way"


@tool(read_only=True, examples=["track {number}"])
def track_parcel(number: int) -> str:
    """Tell where a parcel is."""
    return f"parcel {number} has arrived"


@pytest.fixture(scope="module")
def server() -> Generator[Site]:
    with start_site(tools=[delete_order, track_order, track_parcel], model="toolyard:offline") as opened:
        yield opened


def test_a_proposal_is_decided_by_the_next_message_and_never_remembered(windows: Windows, server: Site) -> None:
    DELETED.clear()
    window = windows.open(server)
    window.send("Bob wants me to delete order 7")
    expect(window.card("delete_order")).to_contain_text("waits for your decision")
    expect(window.page.get_by_label("Always allow delete_order here")).to_have_count(0)
    window.send("yes")
    expect(window.answer).to_contain_text("order 7 is gone")
    assert DELETED == [7]
    expect(window.page.get_by_text("Stopped")).to_have_count(0)


def test_one_of_several_tools_is_chosen_with_a_button(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("track 12")
    window.page.get_by_role("button", name="Track parcel").click()
    expect(window.answer).to_contain_text("parcel 12 has arrived")


@pytest.mark.parametrize(
    ("locale", "composer", "notice"),
    [
        ("en", "Write a message", "No language model is connected"),
        ("de", "Nachricht schreiben", "Kein Sprachmodell ist verbunden"),
    ],
)
def test_where_no_tool_fits_examples_are_buttons_and_one_notice_says_why(
    windows: Windows, server: Site, locale: str, composer: str, notice: str
) -> None:
    page = windows.open(server, locale=locale).page
    field = page.get_by_role("textbox", name=composer)
    expect(page.get_by_text(notice)).to_have_count(1)
    field.fill("hello")
    field.press("Enter")
    answer = page.locator(".turn")
    expect(answer).to_contain_text("“delete order 2”")
    expect(answer.get_by_text("not a language model")).to_have_count(1)
    expect(page.get_by_text(notice)).to_have_count(0)
    for name in ("Track order", "Delete order"):
        answer.get_by_role("button", name=name).click()
    expect(field).to_have_value("delete order 2")
    expect(field).to_be_focused()
    field.fill("now ")
    answer.get_by_role("button", name="Track parcel").click()
    expect(field).to_have_value("now \ntrack 2")
    expect(page.locator(".turn")).to_have_count(1)


def test_a_quiet_line_says_who_connects_a_language_model(windows: Windows, sites: ExitStack) -> None:
    # An administrator is led to the first steps instead: see test_administration.
    server = sites.enter_context(start_site(model="toolyard:offline", keys=[build_key("ann")]))
    notice = open_signed_in(windows, server, "ann").page.locator(".offline-notice")
    expect(notice).to_contain_text("No language model is connected")
    expect(notice).to_contain_text("An administrator can connect one.")
    expect(notice.get_by_role("link")).to_have_count(0)
