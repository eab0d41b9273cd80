"""Every page and dialog, checked by axe for violations of any level: on a desktop and a phone, light and dark."""

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import expect

from page.administration import fill, locate_field, open_section, start_unconfigured
from page.axe import COLOUR_RULES, run_axe
from page.site import Site, start_site
from page.test_attachments import PIXEL, TRANSFER
from page.test_diagrams import FLOW, fence
from page.test_settings import LINES, TABLE
from page.window import Window, Windows
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.testing import Turn, call, fail, say, together
from venues.mcp.plain import PlainServer

Scheme = Literal["light", "dark"]
APPEARANCES: dict[int, tuple[Scheme, ...]] = {1200: ("light", "dark"), 375: ("dark", "light")}
"""By width. In this order each change of the appearance is one of the width or of the theme: the page is drawn anew."""


@tool(approval="ask", examples=["lights"])
def switch(entity: str, on: bool, brightness: int = 50) -> str:
    """Switch something on or off."""
    return f"{entity} is switched"


@tool(read_only=True)
def stock() -> list[dict[str, object]]:
    """What there is."""
    return [{"item": "milk", "left": 2}]


@tool(read_only=True, max_result_bytes=1_000_000)
def read_log() -> str:
    """Return the log."""
    return LINES


TEXT = f"# A heading\n\nIt is $a^2$ and `code`.\n\n```python\nprint('hi')\n```\n\n{TABLE}\n\n- [x] done\n\n> quoted\n\n"
SCENES: dict[str, list[Turn]] = {
    "lights": [together(call("stock"), *(call("switch", entity=room, on=True) for room in ("hall", "attic")))],
    "look": [call("stock"), call("read_log"), say(TEXT + fence(FLOW) + "\n\nThe end.")],
    "ask me": [call("ask"), say("Now I know.")],
    "break": [fail("the provider is out of order")],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    plain = PlainServer(tmp_path_factory.mktemp("plain"), trust=True)
    with start_site(SCENES, tools=[switch, stock, read_log], servers={"plain": plain.spec}) as site:
        yield site


class Inspector:
    """Collects what axe finds, so that a test tells of every view at once."""

    def __init__(self, window: Window) -> None:
        self._page = window.page
        self.violations: list[str] = []

    def check(self, name: str, root: str = "") -> None:
        """Check the view as it is, or an element of it, in each of its appearances."""
        page = self._page
        for width, schemes in APPEARANCES.items():
            page.set_viewport_size({"width": width, "height": 800})
            for scheme in schemes:
                page.emulate_media(color_scheme=scheme)
                # A theme changes colours and nothing else, so in the dark only the rules about colours can differ.
                found = run_axe(page, root, COLOUR_RULES if scheme == "dark" else ())
                self.violations += [f"{name}, {width} {scheme}: {violation}" for violation in found]
            if page.evaluate("() => document.documentElement.scrollWidth") > width:
                self.violations.append(f"{name} is wider than {width}")
        page.set_viewport_size({"width": 1200, "height": 800})


def test_axe_finds_what_keeps_people_out(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.page.evaluate("() => document.body.append(document.createElement('button'))")
    assert any("button-name" in violation for violation in run_axe(window.page))
    # A text that can be read in the light only is found by the rules that are run again in the dark.
    window.page.get_by_role("main").get_by_role("heading").evaluate("(heading) => heading.style.color = '#333'")
    assert not any("color-contrast" in violation for violation in run_axe(window.page, "", COLOUR_RULES))
    window.page.emulate_media(color_scheme="dark")
    assert any("color-contrast" in violation for violation in run_axe(window.page, "", COLOUR_RULES))


def test_the_chat_and_its_forms(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page, inspector = window.page, Inspector(window)
    expect(window.composer).to_be_visible()
    inspector.check("new chat")
    window.button("Settings of this chat").click()
    page.get_by_label("Temperature").fill("0.5")
    for group in ("Tools", "My instructions"):
        page.get_by_role("dialog").locator("summary", has_text=group).click()
    inspector.check("settings of a new chat", "dialog")
    window.button("Done").click()
    inspector.check("chips")
    window.button("Remove Temperature: 0.5").click()
    window.button("More pages").click()
    inspector.check("links to pages")
    window.send("lights")
    expect(window.button("Approve all")).to_be_visible()
    window.card("stock").get_by_role("button").first.click()
    window.card("switch").get_by_role("button", name="Edit").click()
    window.card("switch", 1).get_by_role("button", name="Deny").click()
    inspector.check("approvals")
    window.start_chat()
    window.send("ask me")
    expect(window.card("ask")).to_contain_text("What is your name?")
    inspector.check("question")
    window.start_chat()
    window.send("break")
    expect(window.button("Try again").last).to_be_visible()
    inspector.check("failed run")
    window.start_chat()
    window.composer.evaluate(TRANSFER, ["paste", "pasted.png", "image/png", PIXEL])
    expect(page.get_by_role("list", name="Attachments")).to_be_visible()
    window.send("look")
    expect(window.answer.locator(".diagram[data-drawn]")).to_have_count(1)
    expect(window.answer.locator("math")).to_have_count(1)
    inspector.check("rich answer")
    window.button("Edit message").click()
    inspector.check("edited message")
    page.keyboard.press("Escape")
    window.card("read_log").get_by_role("button").first.click()
    window.button("Open the whole result").click()
    expect(page.get_by_role("dialog", name="Result of Read log")).to_be_visible()
    inspector.check("large result", "dialog")
    assert not inspector.violations, "\n".join(inspector.violations)


def test_the_dialogs_of_a_chat(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page, inspector = window.page, Inspector(window)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option").first).to_be_visible()
    inspector.check("palette", "dialog")
    page.keyboard.press("Escape")
    page.locator("button.model-button, button[aria-label^='Model:']").first.click()
    expect(page.get_by_role("combobox", name="Search models")).to_be_visible()
    inspector.check("models", "dialog")
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="hello").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    inspector.check("shortcuts", "dialog")
    page.keyboard.press("Escape")
    window.choose_action("Find in this conversation")
    page.get_by_role("searchbox", name="Find in this conversation").fill("said")
    expect(page.get_by_text("1 of 1")).to_be_visible()
    inspector.check("search in a conversation")
    page.keyboard.press("Escape")
    window.button("Bad answer").click()
    expect(page.get_by_role("textbox", name="What was it?")).to_be_visible()
    inspector.check("feedback")
    window.button("More for this answer").click()
    inspector.check("menu of an answer")
    page.keyboard.press("Escape")
    assert not inspector.violations, "\n".join(inspector.violations)


def test_the_settings_and_the_list_of_chats(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site())
    window = windows.open(server)
    page, inspector = window.page, Inspector(window)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    window.choose_action("Settings of this conversation")
    page.get_by_role("textbox", name="Name of the preset").fill("Mine")
    window.button("Save as preset").click()
    expect(page.get_by_role("combobox", name="Preset")).to_be_visible()
    inspector.check("settings", "dialog")
    page.keyboard.press("Escape")
    window.choose_action("Share and export")
    window.button("Create a link").click()
    link = page.locator(".new-link code").inner_text()
    inspector.check("sharing", "dialog")
    page.keyboard.press("Escape")
    window.button("Delete message").last.click()
    inspector.check("deletion of a message", "dialog")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("searchbox", name="Search conversations").fill("said")
    expect(page.locator("mark")).to_be_visible()
    inspector.check("results of a search")
    page.get_by_role("searchbox", name="Search conversations").fill("")
    window.button("Actions for hello").click()
    window.button("Archive").click()
    expect(window.button("Undo")).to_be_visible()
    inspector.check("offer to undo")
    window.button("Undo").click()
    window.button("Archived conversations").click()
    inspector.check("archive")
    window.button("All conversations").click()
    page.get_by_role("button", name="Actions for hello").click()
    inspector.check("menu of a conversation")
    window.button("Rename").click()
    inspector.check("renaming", "dialog")
    page.keyboard.press("Escape")
    page.goto(link)
    expect(page.get_by_role("article").get_by_text("You said: hello")).to_be_visible()
    inspector.check("shared conversation")
    assert not inspector.violations, "\n".join(inspector.violations)


PAGES = {
    "tools": "stock",
    "tools/switch": "Call switch",
    "servers": "running",
    "traces": "lights",
    "inbox": "Waiting for you",
    "live": "needs approval",
    "usage": "No budget applies to you.",
    "overview": "By model",
    "audit": "the server",
}
"""Words that each page shows once it is there."""


def test_the_other_pages(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page, inspector = window.page, Inspector(window)
    window.send("lights")
    expect(window.card("switch")).to_contain_text("needs approval")
    server.run(server.yard.service.auditor.write("key.add", "new"))
    for route, words in PAGES.items():
        window.go_to(route)
        expect(page.get_by_role("main").get_by_text(words).first).to_be_visible()
        inspector.check(route)
    window.button("Verify").click()
    expect(page.get_by_text("chain intact")).to_be_visible()
    inspector.check("verified audit log")
    page.goto(f"{server.url}/#/servers")
    page.get_by_text("Tools: 9").click()
    page.get_by_text("from the first listing, reviewed by nobody").first.click()
    inspector.check("accepted tools")
    page.goto(f"{server.url}/#/traces")
    page.locator("table.runs tbody tr").get_by_role("link").first.click()
    expect(page.locator(".waterfall .span").first).to_be_visible()
    page.locator(".waterfall .span").first.click()
    inspector.check("trace")
    assert not inspector.violations, "\n".join(inspector.violations)


PARTS = {
    "start": "Invite people",
    "servers": "Not trusted",
    "tools": "Tool rules",
    "more": "Server prompt",
    "fixed": "toolyard.toml:3",
}
"""Words that each section of the administration shows once it is there."""


def test_the_administration(windows: Windows, sites: ExitStack, tmp_path: Path) -> None:
    windows.expected_complaint = "422"
    plain = PlainServer(tmp_path, trust=False)
    window = windows.open(sites.enter_context(start_unconfigured(tools=[stock], servers={"plain": plain.spec})))
    page, inspector = window.page, Inspector(window)
    for section, words in PARTS.items():
        open_section(window, section)
        expect(page.get_by_role("main").get_by_text(words).first).to_be_visible()
        inspector.check(section)
    open_section(window, "models/add")
    page.get_by_role("combobox", name="Provider").click()
    inspector.check("choices", "dialog")
    page.get_by_role("option", name="Another address").click()
    page.get_by_text("More fields").click()
    window.button("Add a line").click()
    fill(window, Name_of_the_provider="shop", Address="no address", API_key="the-key")
    window.button("Save").click()
    expect(locate_field(window, "Address")).to_have_attribute("aria-invalid", "true")
    inspector.check("wrong provider", "dialog")
    fill(window, Address="http://127.0.0.1:9/v1")
    window.button("Save").click()
    expect(window.button("Edit shop")).to_be_visible()
    window.button("Test shop").click()
    inspector.check("models")
    window.button("Edit shop").click()
    inspector.check("provider", "dialog")
    page.keyboard.press("Escape")
    window.button("Remove shop").click()
    inspector.check("removal", "dialog")
    page.keyboard.press("Escape")
    open_section(window, "servers/add")
    for way in ("By address", "From mcp.json", "By command"):
        window.button(way).click()
        inspector.check(way, "dialog")
    page.keyboard.press("Escape")
    open_section(window, "keys/add")
    fill(window, Person="ann", Name_of_the_key="first")
    inspector.check("new key", "dialog")
    page.get_by_role("dialog").get_by_role("button", name="Create a key").click()
    expect(window.button("Copy the secret")).to_be_visible()
    inspector.check("secret", "dialog")
    window.button("I have kept it").click()
    expect(window.button("Sign out")).to_be_visible()
    expect(page.get_by_role("heading", name="first")).to_be_visible()
    inspector.check("keys")
    for action in ("New secret for first", "What may it do? first"):
        window.button(action).click()
        inspector.check(action, "dialog")
        page.keyboard.press("Escape")
    assert not inspector.violations, "\n".join(inspector.violations)


def test_the_sign_in(windows: Windows, sites: ExitStack) -> None:
    windows.expected_complaint = "401"
    window = windows.open(sites.enter_context(start_site(keys=[build_key("ann")])))
    window.page.get_by_role("textbox", name="API key").fill("wrong")
    window.button("Sign in").click()
    expect(window.page.get_by_role("alert")).to_be_visible()
    inspector = Inspector(window)
    inspector.check("sign-in")
    assert not inspector.violations, "\n".join(inspector.violations)
