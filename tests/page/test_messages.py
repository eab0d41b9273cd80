"""What a person does with messages: copies, edits and sends them again, has them answered anew, deletes them."""

import pytest
from playwright.sync_api import Locator, Route, expect

from page.site import HOLD, Site
from page.window import Window, Windows
from toolyard import Limits, tool
from toolyard.testing import Turn, call, fail, say


@tool(read_only=True)
def stock() -> str:
    """What there is."""
    return "milk"


TOOLS = [stock]
SCENES: dict[str, list[Turn]] = {
    "list": [say("Some **bold** words\n\n- one\n- two")],
    "talk": [say("Once upon ", HOLD, "a time.")],
    "break": [fail("the provider is out of order")],
    "forever": [call("stock")],
    "look": [call("stock"), say("There is milk.")],
}
WIRING = {"limits": Limits(turns_per_request=2)}


def locate_versions(window: Window, label: str) -> Locator:
    return window.page.get_by_role("group", name=label)


def test_messages_are_copied_edited_and_deleted_and_one_that_is_not_accepted_loses_nothing(
    windows: Windows, server: Site
) -> None:
    windows.expected_complaint = "503"
    window = windows.open(server)
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.send("list")
    expect(window.answer).to_contain_text("two")
    window.button("Copy answer").click()
    assert window.read_clipboard("Some") == "Some **bold** words\n\n- one\n- two"
    window.page.locator(".user-message").hover()
    window.button("Copy message").click()
    assert window.read_clipboard("list") == "list"

    window.start_chat()
    window.send("red")
    expect(window.answer).to_have_text("You said: red")
    window.page.locator(".user-message").hover()
    window.button("Edit message").click()
    window.page.keyboard.press("Escape")
    expect(window.button("Edit message")).to_be_focused()
    window.page.keyboard.press("Enter")
    window.page.get_by_role("textbox", name="Edit message").fill("blue")
    window.page.locator(".edit-message").get_by_role("button", name="Send").click()
    expect(window.answer).to_have_text("You said: blue")
    expect(locate_versions(window, "Version 2 of 2")).to_be_visible()

    window.start_chat()
    window.send("red")
    expect(window.answer).to_have_text("You said: red")
    window.button("Delete message").last.click()
    window.button("Cancel").click()
    expect(window.answer).to_have_text("You said: red")
    window.button("Delete message").last.click()
    window.button("Delete").click()
    expect(window.page.locator(".markdown")).to_have_count(0)
    expect(window.thread.get_by_text("No answer yet.")).to_be_visible()
    window.button("Try again").click()
    expect(window.answer).to_have_text("You said: red")

    window.start_chat()
    window.send("red")
    expect(window.answer).to_have_text("You said: red")

    def refuse(route: Route) -> None:
        route.fulfill(status=503, json={"error": "the store is full", "details": {}, "correlation_id": "x"})

    window.page.route("**/chat", refuse)
    window.page.locator(".user-message").hover()
    window.button("Edit message").click()
    window.page.get_by_role("textbox", name="Edit message").fill("green")
    window.page.keyboard.press("Enter")
    expect(window.page.get_by_role("alert")).to_contain_text("the store is full")
    expect(window.thread).to_contain_text("You said: red")
    window.page.unroute("**/chat")
    window.page.keyboard.press("Escape")
    window.page.reload()
    expect(window.answer).to_have_text("You said: red")


def test_what_is_typed_while_a_message_is_refused_stays_below_it(windows: Windows, server: Site) -> None:
    windows.expected_complaint = "503"
    window, held = windows.open(server), list[Route]()
    window.page.route("**/chat", lambda route: held.append(route))
    with window.page.expect_request("**/chat"):
        window.send("first")
    window.composer.fill("second")
    held[0].fulfill(status=503, json={"error": "the store is full", "details": {}, "correlation_id": "x"})
    expect(window.page.get_by_role("alert")).to_contain_text("the store is full")
    expect(window.composer).to_have_value("first\nsecond")


@pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
def test_an_edited_message_and_an_answer_that_is_asked_for_again_are_branches_and_all_can_be_read(
    windows: Windows, server: Site, width: int
) -> None:
    window = windows.open(server, width=width)
    window.send("first")
    expect(window.answer).to_have_text("You said: first")
    window.send("red")
    expect(window.answer).to_have_text("You said: red")
    window.page.locator(".user-message").last.hover()
    window.button("Edit message").last.click()
    field = window.page.get_by_role("textbox", name="Edit message")
    expect(field).to_be_focused()
    field.fill("green")
    field.press("Enter")
    expect(window.answer).to_have_text("You said: green")
    expect(locate_versions(window, "Version 2 of 2")).to_be_visible()
    expect(window.thread).not_to_contain_text("red")
    window.button("Earlier version").click()
    expect(window.answer).to_have_text("You said: red")
    expect(locate_versions(window, "Version 1 of 2")).to_be_visible()
    window.page.reload()
    expect(locate_versions(window, "Version 1 of 2")).to_be_visible()
    window.button("Later version").click()
    expect(window.answer).to_have_text("You said: green")
    expect(window.thread).to_contain_text("You said: first")

    window.start_chat()
    window.send("look")
    expect(window.answer).to_have_text("There is milk.")
    window.button("Try again").click()
    expect(locate_versions(window, "Version 2 of 2")).to_be_visible()
    expect(window.page.locator(".user-message")).to_have_count(1)
    expect(window.answer).to_have_text("There is milk.")
    window.button("Earlier version").click()
    expect(locate_versions(window, "Version 1 of 2")).to_be_visible()
    expect(window.answer).to_have_text("There is milk.")


def test_a_run_that_did_not_come_to_its_end_is_tried_again(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    for message, ending in (
        ("break", "This run failed"),
        ("forever", "A limit ended this run"),
        ("talk", "Stopped"),
    ):
        window.start_chat()
        window.send(message)
        if message == "talk":
            expect(window.answer).to_contain_text("Once upon")
            window.button("Stop").click()
        expect(window.thread.get_by_text(ending)).to_be_visible()
        with window.page.expect_request("**/chat") as chat:
            window.button("Try again").last.click()
        assert chat.value.post_data_json == {"content": ""}
        if message == "talk":
            expect(window.answer).to_contain_text("Once upon")
            server.resume()
            expect(window.answer).to_contain_text("a time.")
        else:
            expect(window.thread.get_by_text(ending)).to_be_visible()
        expect(window.page.locator(".user-message")).to_have_count(1)


def test_a_draft_waits_in_its_conversation_until_it_is_sent_and_only_so_many_are_kept(
    windows: Windows, server: Site
) -> None:
    window = windows.open(server)
    window.send("red")
    expect(window.answer).to_have_text("You said: red")
    window.composer.fill("half a thou")
    url = window.page.url
    window.start_chat()
    expect(window.composer).to_have_value("")
    window.composer.fill("another")
    window.page.goto(url)
    window.page.reload()
    expect(window.composer).to_have_value("half a thou")
    window.composer.fill("half a thought")
    window.composer.press("Enter")
    expect(window.answer).to_have_text("You said: half a thought")
    window.page.reload()
    expect(window.answer).to_have_text("You said: half a thought")
    expect(window.composer).to_have_value("")
    window.start_chat()
    expect(window.composer).to_have_value("another")

    for number in range(60):
        window.page.evaluate(
            "(key) => localStorage.setItem(key, JSON.stringify({ at: 1, text: 'old' }))",
            f"toolyard.draft.local/c{number}",
        )
    window.composer.fill("new")
    window.page.wait_for_function(
        "() => Object.keys(localStorage).filter((key) => key.startsWith('toolyard.draft.')).length === 50"
    )
    window.page.reload()
    expect(window.composer).to_have_value("new")
