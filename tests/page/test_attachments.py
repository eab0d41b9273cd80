"""Attachments on the page: chosen, pasted and dropped, shown before they are sent, and sent with the message."""

import base64
import struct
import zlib
from typing import Any

import pytest
from playwright.sync_api import Route, expect

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


def test_a_file_that_the_server_refuses_is_told_and_the_message_stays(windows: Windows, server: Site) -> None:
    windows.expected_complaint = "422"
    window = windows.open(server)
    window.send("first")
    expect(window.answer).to_have_text("You said: first")
    refusal: dict[str, object] = {"error": "save it again", "details": {}}
    window.page.route("**/chat", lambda route: route.fulfill(status=422, json=refusal))
    choose(window, "photo.png", "image/png", base64.b64decode(PIXEL))
    window.send("look")
    expect(window.page.get_by_role("alert")).to_contain_text("save it again")
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


def build_image(width: int, height: int) -> bytes:
    """An image of one colour."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\0" * (width // 8)) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


REFUSALS = {
    "en": (
        "Attach images or files",
        "tool.exe is nothing that a model can read",
        "Save it as “CSV UTF-8”",
        "does not read documents",
        "is empty",
        "photo.png is damaged",
        "map.png has too many pixels",
        "it has too many slides or sheets",
    ),
    "de": (
        "Bilder oder Dateien anhängen",
        "tool.exe kann kein Modell lesen",
        "Speichere die Datei als „CSV UTF-8“",
        "liest keine Dokumente",
        "ist leer",
        "photo.png ist beschädigt",
        "map.png hat zu viele Pixel",
        "zu viele Folien oder Blätter",
    ),
    "zh-CN": (
        "添加图片或文件",
        "模型无法读取 tool.exe",
        "请另存为“CSV UTF-8”",
        "此服务器无法读取",
        "是空文件",
        "photo.png 已损坏",
        "map.png 的像素过多",
        "幻灯片或工作表过多",
    ),
}


@pytest.mark.parametrize("locale", REFUSALS)
def test_a_file_is_refused_when_it_is_chosen_in_the_language_of_the_page(
    windows: Windows, server: Site, locale: str
) -> None:
    windows.expected_complaint = "422"
    window = windows.open(server, locale=locale)
    page = window.page
    button, *reasons, many_pages = REFUSALS[locale]

    def expect_refusal(name: str, body: bytes, words: str) -> None:
        with page.expect_file_chooser() as chooser:
            window.button(button).click()
        chooser.value.set_files({"name": name, "mimeType": "application/octet-stream", "buffer": body})
        expect(page.get_by_role("alert")).to_contain_text(words)

    files = {
        "tool.exe": b"MZ\x00\xff",
        "prices.csv": "Käse;1,20".encode("cp1252"),
        "report.docx": b"PK\x03\x04 and the rest",
        "nothing.txt": b"",
        "photo.png": b"\x89PNG\r\n\x1a\n and nothing of an image",
        "map.png": build_image(8_000, 8_000),
    }
    for (name, body), words in zip(files.items(), reasons, strict=True):
        expect_refusal(name, body, words)
    refusal = {"error": "it has 501 slides", "details": {"field": "body", "reason": "pages"}}
    page.route("**/me", lambda route: route.fulfill(json={**route.fetch().json(), "reads_documents": True}))
    page.route("**/files/text?name=slides.pptx", lambda route: route.fulfill(status=422, json=refusal))
    page.reload()
    expect_refusal("slides.pptx", b"PK\x03\x04 and the rest", many_pages)
    expect(window.page.locator(".attachments")).to_have_count(0)


@pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
def test_a_document_becomes_text_where_the_server_reads_documents(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    page = window.page
    page.route("**/me", lambda route: route.fulfill(json={**route.fetch().json(), "reads_documents": True}))
    page.route("**/files/text?name=report.docx", lambda route: route.fulfill(json={"text": "# Report", "tokens": 3}))
    page.reload()
    choose(window, "report.docx", "application/octet-stream", b"PK\x03\x04 and the rest")
    expect(page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_text(["report.docx.md"])
    window.send("what is it?")
    expect(window.answer).to_have_text("You said: what is it?")
    assert base64.b64encode(b"# Report").decode() in repr(list(server.requests[-1].history))


def test_a_message_waits_for_files_that_are_being_read_and_stays_if_one_cannot_be(
    windows: Windows, server: Site
) -> None:
    windows.expected_complaint = "422"
    window = windows.open(server)
    page = window.page
    held: list[Route] = []
    page.route("**/me", lambda route: route.fulfill(json={**route.fetch().json(), "reads_documents": True}))
    page.route("**/files/text?name=report.docx", lambda route: held.append(route))
    page.reload()
    attached = page.get_by_role("list", name="Attachments").get_by_role("listitem")
    answers: list[dict[str, Any]] = [
        {"status": 422, "json": {"error": "it has 501 slides", "details": {"field": "body", "reason": "pages"}}},
        {"status": 200, "json": {"text": "# Report", "tokens": 3}},
    ]
    for answer in answers:
        with page.expect_request("**/files/text?name=report.docx"):
            choose(window, "report.docx", "application/octet-stream", b"PK\x03\x04 and the rest")
        window.send("what is it?")
        expect(window.composer).to_have_value("")
        held.pop().fulfill(**answer)
        if answer["status"] == 422:
            expect(page.get_by_role("alert")).to_contain_text("it has too many slides or sheets")
            expect(window.composer).to_have_value("what is it?")
            expect(attached).to_have_count(0)
    expect(window.answer).to_have_text("You said: what is it?")
    expect(page.locator(".user-message-box")).to_contain_text("report.docx.md")
    assert base64.b64encode(b"# Report").decode() in repr(list(server.requests[-1].history))
