"""Sharing on the page: links are made, copied, read by a colleague and revoked; conversations are exported."""

from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import expect

from page.site import Site, start_site
from page.window import Window, Windows
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.testing import call, say

KEYS = [build_key("ann"), build_key("bob"), build_key("olga", "operator"), build_key("eve", tenant="other")]


@tool(read_only=True)
def stock(item: str) -> str:
    """What there is."""
    return f"seven of {item}"


SCENES = {"look": [call("stock", item="private milk"), say("There is **enough**.")]}


def open_signed_in(windows: Windows, server: Site, name: str, **how: object) -> Window:
    windows.expected_complaint = "40"  # the browser tells of 401 before the sign-in, and of 404
    window = windows.open(server, **how)  # pyright: ignore[reportArgumentType]
    window.page.get_by_role("textbox", name="API key").fill(name)
    window.button("Sign in").click()
    expect(window.composer).to_be_visible()
    return window


def open_dialog(window: Window) -> None:
    window.choose_action("Share and export")
    expect(window.page.get_by_role("dialog")).to_be_visible()


def test_a_link_is_made_read_by_a_colleague_and_revoked(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site(SCENES, keys=KEYS, tools=[stock]))
    ann = open_signed_in(windows, server, "ann", width=375)
    ann.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ann.send("look")
    expect(ann.answer).to_have_text("There is enough.")
    open_dialog(ann)
    expect(ann.page.get_by_text("No active links.")).to_be_visible()
    ann.button("Create a link").click()
    ann.button("Copy the link").click()
    link = ann.read_clipboard(f"{server.url}/#/shared/")
    ann.page.get_by_role("checkbox", name="Show the arguments and results of tools").check()
    ann.button("Create a link").click()
    expect(ann.page.locator(".new-link code")).not_to_have_text(link)
    full_link = ann.page.locator(".new-link code").inner_text()

    bob = open_signed_in(windows, server, "bob")
    bob.page.goto(link)
    shared = bob.page.get_by_role("article")
    expect(shared.get_by_role("heading", name="look")).to_be_visible()
    expect(shared.get_by_text("Shared by ann, as of")).to_be_visible()
    expect(shared.get_by_text("There is enough.")).to_be_visible()
    expect(shared.get_by_text("stock")).to_be_visible()
    expect(bob.composer).to_have_count(0)
    assert "private" not in shared.inner_text()
    bob.page.goto(full_link)
    shared.locator("summary", has_text="stock").click()  # only this link has something to open
    expect(shared.get_by_text("seven of private milk")).to_be_visible()

    eve = open_signed_in(windows, server, "eve")
    eve.page.goto(link)
    expect(eve.page.get_by_text("There is no shared conversation at this link.")).to_be_visible()

    ann.page.get_by_role("button", name="Revoke the link of").first.click()
    expect(ann.page.get_by_role("button", name="Revoke the link of")).to_have_count(1)
    bob.page.goto(link)
    bob.page.reload()
    expect(bob.page.get_by_text("There is no shared conversation at this link.")).to_be_visible()


def test_a_conversation_is_exported_by_those_who_see_it_and_printed_without_the_frame(
    windows: Windows, sites: ExitStack, tmp_path: Path
) -> None:
    server = sites.enter_context(start_site(SCENES, keys=KEYS, tools=[stock]))
    ann = open_signed_in(windows, server, "ann")
    ann.send("look")
    expect(ann.answer).to_have_text("There is enough.")
    olga = open_signed_in(windows, server, "olga", width=375)
    olga.page.goto(ann.page.url)
    open_dialog(olga)
    expect(olga.button("Create a link")).to_have_count(0)
    for name, words in (("Markdown", "There is **enough**."), ("JSON", '"format":"toolyard.conversation.1"')):
        with olga.page.expect_download() as download:
            olga.page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / name)
        assert words in (tmp_path / name).read_text("utf-8")
    ann.page.emulate_media(media="print")
    expect(ann.answer).to_be_visible()
    expect(ann.page.get_by_role("navigation")).to_be_hidden()
    expect(ann.page.locator(".composer")).to_be_hidden()
