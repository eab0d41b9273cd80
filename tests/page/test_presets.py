"""Presets on the page: settings are saved under a name, used in other chats, and shared with people of the tenant."""

from contextlib import ExitStack

from playwright.sync_api import Locator, expect

from page.site import start_site
from page.test_sharing import open_signed_in
from page.window import Window, Windows
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.core.ports import ModelRequest

KEYS = [build_key("ann"), build_key("bob"), build_key("eve", tenant="other")]


@tool(read_only=True)
def stock() -> str:
    """What there is."""
    return "milk"


@tool(read_only=True)
def weigh() -> str:
    """What it weighs."""
    return "1 kg"


def open_settings(window: Window) -> None:
    window.button("Settings of this conversation").click()
    expect(window.page.get_by_label("System prompt")).to_be_visible()


def find_picker(window: Window) -> Locator:
    return window.page.get_by_role("combobox", name="Preset")


def start_chat(window: Window, server_url: str) -> None:
    window.page.goto(f"{server_url}/#/chat")
    expect(window.composer).to_be_visible()


def test_a_preset_is_saved_used_in_a_new_chat_and_shared_with_a_colleague(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site(keys=KEYS, tools=[stock, weigh]))
    requests: list[ModelRequest] = []
    stream = server.stream
    server.stream = lambda request: (requests.append(request), stream(request))[1]
    ann = open_signed_in(windows, server, "ann")
    ann.send("hello")
    expect(ann.answer).to_have_text("You said: hello")
    open_settings(ann)
    ann.page.get_by_label("System prompt").fill("Answer in verse.")
    ann.page.get_by_label("Temperature").fill("0.5")
    ann.page.get_by_role("checkbox", name="weigh").uncheck()
    ann.page.get_by_role("textbox", name="Name of the preset").fill("In verse")
    ann.button("Save as preset").click()
    expect(ann.page.get_by_text("The preset is saved.")).to_be_visible()
    assert "verse" not in requests[-1].system, "only the preset has it so far"

    start_chat(ann, server.url)
    find_picker(ann).select_option("In verse")
    ann.send("again")
    expect(ann.answer).to_have_text("You said: again")
    assert "Answer in verse." in requests[-1].system and requests[-1].options.temperature == 0.5
    assert [offered.name for offered in requests[-1].offer.tools] == ["stock"]

    bob = open_signed_in(windows, server, "bob", width=375)
    open_settings(ann)
    find_picker(ann).select_option("In verse")
    ann.page.get_by_role("checkbox", name="Share with everybody of your tenant").check()
    ann.button("Save as preset").click()
    expect(find_picker(ann).get_by_role("option")).to_have_text(["No preset", "In verse, by ann"])

    bob.send("hi")
    expect(bob.answer).to_have_text("You said: hi")
    open_settings(bob)
    find_picker(bob).select_option("In verse, by ann")
    expect(bob.button("Delete preset")).to_have_count(0)
    assert bob.page.evaluate("() => document.documentElement.scrollWidth") <= 375
    bob.button("Use preset").click()
    expect(bob.page.get_by_role("dialog")).to_have_count(0)
    bob.send("how are you?")
    expect(bob.answer).to_have_text("You said: how are you?")
    assert "Answer in verse." in requests[-1].system
    assert [offered.name for offered in requests[-1].offer.tools] == ["stock"]
    eve = open_signed_in(windows, server, "eve")
    assert eve.page.evaluate("() => fetch('presets').then((answer) => answer.json())")["presets"] == []

    find_picker(ann).select_option("In verse, by ann")
    ann.button("Delete preset").click()
    expect(find_picker(ann)).to_have_count(0)


def test_a_preset_that_the_server_refuses_is_told(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site())
    windows.expected_complaint = "422"
    window = windows.open(server, width=375)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    open_settings(window)
    window.page.get_by_label("Turns with tools per request").fill("100000")
    window.page.get_by_role("textbox", name="Name of the preset").fill("Long")
    window.button("Save as preset").click()
    expect(window.page.get_by_role("alert")).to_contain_text("max_turns")
    expect(find_picker(window)).to_have_count(0)
