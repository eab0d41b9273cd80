"""What viewers who may not do a thing see of it: neither its buttons nor its data."""

from collections.abc import Generator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from page.site import Site, start_site
from page.test_sharing import open_signed_in
from page.window import Windows
from surfaces.api_client import build_key
from toolyard import RedactRules, tool
from toolyard.testing import call, say

KEYS = [
    build_key("ann"),
    build_key("bob"),
    build_key("ada", "admin"),
    build_key("olga", "operator"),
    build_key("abe", "approver"),
    build_key("root", "admin", "operator"),
    build_key("eve", "admin", "operator", "approver", tenant="other"),
]


@tool(approval="ask")
def pay(account: str) -> str:
    """Pay."""
    return f"paid from {account}"


SECRET = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"


@tool(read_only=True)
def read_settings() -> dict[str, str]:
    """Read the settings."""
    return {"token": SECRET, "owner": "ann"}


SCENES = {
    "pay it": [call("pay", account="private account"), say("Paid.")],
    "read it": [call("read_settings"), say("Read.")],
}
SETTINGS = "Settings of this conversation"


@pytest.fixture(scope="module")
def server() -> Generator[Site]:
    rules = RedactRules(patterns=("github_token",))
    with start_site(SCENES, keys=KEYS, tools=[pay, read_settings], redact=rules) as site:
        yield site


@pytest.fixture(scope="module")
def paid_url(browser: Browser, server: Site) -> Generator[str]:
    """The address of a conversation of Ann's in which a call waits. She sees what she may do there."""
    with ExitStack() as stack:
        ann = open_signed_in(Windows(browser, stack), server, "ann")
        ann.send("pay it")
        expect(ann.button("Approve")).to_be_visible()
        expect(ann.button(SETTINGS)).to_be_visible()
        expect(ann.button("Actions for pay it")).to_be_visible()
        yield ann.page.url


@pytest.mark.parametrize(
    ("viewer", "sees", "decides"),
    [
        ("bob", False, False),
        ("ada", False, False),
        ("eve", False, False),
        ("olga", True, False),
        ("abe", True, True),
    ],
)
def test_a_viewer_sees_only_what_they_may_see_and_do(
    windows: Windows, server: Site, paid_url: str, viewer: str, sees: bool, decides: bool
) -> None:
    other = open_signed_in(windows, server, viewer)
    page = other.page
    page.goto(paid_url)
    if sees:
        expect(page.get_by_text("This conversation belongs to ann. You may read along.")).to_be_visible()
        expect(other.card("pay")).to_be_visible()
    else:
        expect(page.get_by_text("This conversation does not exist, or it belongs to somebody else.")).to_be_visible()
    for name in ("Approve", "Deny"):
        expect(other.button(name)).to_have_count(int(decides))
    expect(other.composer).to_have_count(0)
    for name in (SETTINGS, "Edit message", "Actions for pay it"):
        expect(other.button(name)).to_have_count(0)
    for route, shown in (("live", sees), ("inbox", decides), ("traces", sees)):
        other.go_to(route)
        main = page.get_by_role("main")
        expect(main.locator(".empty")).to_have_count(int(not shown))
        expect(other.thread).to_have_count(0)
        expect(main.get_by_text("pay it")).to_have_count(int(shown))
        expect(other.button("Stop: pay it")).to_have_count(int(decides and route != "traces"))
        assert sees or "private account" not in page.content()


def test_the_original_of_a_redacted_result_is_read_by_administrators_alone(windows: Windows, server: Site) -> None:
    ann = open_signed_in(windows, server, "ann")
    ann.send("read it")
    expect(ann.answer).to_have_text("Read.")
    for viewer in ("ann", "olga", "root"):
        window = open_signed_in(windows, server, viewer)
        page = window.page
        page.goto(ann.page.url)
        card = window.card("read_settings")
        card.get_by_role("button").first.click()
        expect(card).to_contain_text("[redacted: github_token]")
        expect(card).to_contain_text("Secrets were replaced: github_token")
        expect(window.button("Read the original")).to_have_count(int(viewer == "root"))
        assert SECRET not in page.content()
    window.button("Read the original").click()
    viewer_dialog = page.get_by_role("dialog", name="Original result of Read settings")
    expect(viewer_dialog).to_contain_text(SECRET)
    viewer_dialog.get_by_role("searchbox", name="Search in the result").fill("owner")
    expect(viewer_dialog).not_to_contain_text(SECRET)
    window.button("Close").click()
    expect(viewer_dialog).to_have_count(0)
    assert SECRET not in page.content()
    page.goto(f"{server.url}/#/audit")
    conversation = ann.page.url.rpartition("/")[2]
    page.get_by_role("row").filter(has_text="original.read").get_by_role("link", name=conversation).click()
    expect(window.answer).to_have_text("Read.")
