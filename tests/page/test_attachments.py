"""Attachments on the page: chosen, pasted and dropped, shown before they are sent, and sent with the message."""

import base64

import pytest
from playwright.sync_api import expect

from page.site import Site
from page.window import Window, Windows

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCENES: dict[str, list[object]] = {}
TOOLS: list[object] = []
TRANSFER = """(element, [kind, name, type, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))
    const transfer = new DataTransfer()
    transfer.items.add(new File([bytes], name, { type }))
    const options = { bubbles: true, cancelable: true }
    const event = kind === "paste"
        ? new ClipboardEvent(kind, { ...options, clipboardData: transfer })
        : new DragEvent(kind, { ...options, dataTransfer: transfer })
    element.dispatchEvent(event)
}"""
"""Paste a file into an element, or drop it there."""


def choose(window: Window, name: str, kind: str, body: bytes) -> None:
    with window.page.expect_file_chooser() as chooser:
        window.button("Attach images or files").click()
    chooser.value.set_files({"name": name, "mimeType": kind, "buffer": body})


def test_attachments_are_chosen_pasted_and_dropped_and_sent_with_the_message(windows: Windows, server: Site) -> None:
    window = windows.open(server, width=375)
    attached = window.page.get_by_role("list", name="Attachments").get_by_role("listitem")
    choose(window, "list.txt", "text/plain", b"milk")
    window.composer.evaluate(TRANSFER, ["paste", "pasted.png", "image/png", PIXEL])
    window.composer.evaluate(TRANSFER, ["drop", "dropped.txt", "text/plain", base64.b64encode(b"bread").decode()])
    expect(attached).to_have_text(["list.txt", "pasted.png", "dropped.txt"])
    expect(attached.nth(1).get_by_role("presentation")).to_be_visible()
    assert window.page.evaluate("() => document.documentElement.scrollWidth") <= 375
    window.button("Remove dropped.txt").click()
    window.send("what is it?")
    expect(window.answer).to_have_text("You said: what is it?")
    expect(attached).to_have_count(0)
    message = window.page.locator(".user-message-box")
    expect(message).to_contain_text("list.txt")
    assert message.locator("img").get_attribute("src") == f"data:image/png;base64,{PIXEL}"


def test_a_file_that_no_model_can_read_is_refused_and_the_message_stays(windows: Windows, server: Site) -> None:
    windows.expected_complaint = "422"
    window = windows.open(server)
    window.send("first")
    expect(window.answer).to_have_text("You said: first")
    choose(window, "photo.png", "application/octet-stream", b"\x00\xff a program")
    window.send("look")
    expect(window.page.get_by_role("alert")).to_contain_text("convert it")
    expect(window.composer).to_have_value("look")
    expect(window.page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_count(1)
    window.button("Remove photo.png").click()
    choose(window, "large.txt", "text/plain", b"x" * (5 * 1024 * 1024 + 1))
    expect(window.page.get_by_role("alert")).to_contain_text("5 MiB together")
    expect(window.page.get_by_role("list", name="Attachments")).to_have_count(0)


@pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
def test_files_are_added_and_removed_while_a_message_is_edited(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    choose(window, "list.txt", "text/plain", b"milk")
    window.composer.evaluate(TRANSFER, ["paste", "pasted.png", "image/png", PIXEL])
    window.send("red")
    expect(window.answer).to_have_text("You said: red")
    window.page.locator(".user-message").hover()
    window.button("Edit message").click()
    form = window.page.locator(".edit-message")
    attached = form.get_by_role("listitem")
    expect(attached).to_have_text(["list.txt", "image 2"])
    form.get_by_role("button", name="Remove list.txt").click()
    expect(attached).to_have_text(["image 2"])
    with window.page.expect_file_chooser() as chooser:
        form.get_by_role("button", name="Attach images or files").click()
    chooser.value.set_files({"name": "more.txt", "mimeType": "text/plain", "buffer": b"bread"})
    expect(attached).to_have_text(["image 2", "more.txt"])
    assert window.page.evaluate("() => document.documentElement.scrollWidth") <= width
    field = window.page.get_by_role("textbox", name="Edit message")
    field.fill("green")
    field.press("Enter")
    expect(window.answer).to_have_text("You said: green")
    message = window.page.locator(".user-message-box")
    expect(message).to_contain_text("green")
    expect(message).to_contain_text("more.txt")
    expect(message).not_to_contain_text("list.txt")
    expect(message.get_by_role("presentation")).to_have_attribute("src", f"data:image/png;base64,{PIXEL}")
    window.button("Earlier version").click()
    expect(message).to_contain_text("list.txt")
    expect(message).not_to_contain_text("more.txt")
