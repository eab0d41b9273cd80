"""Presets on the page: settings are saved under a name, used in other chats, and shared with people of the tenant."""

from contextlib import ExitStack

from playwright.sync_api import Locator, Route, expect

from page.site import start_site
from page.test_operators import is_change
from page.test_sharing import open_signed_in
from page.window import Window, Windows, pick
from surfaces.api_client import build_key
from toolyard import tool

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
    window.choose_action("Settings of this conversation")
    expect(window.page.get_by_label("System prompt")).to_be_visible()


def find_picker(window: Window) -> Locator:
    return window.page.get_by_role("combobox", name="Preset")


def start_chat(window: Window, server_url: str) -> None:
    window.page.goto(f"{server_url}/#/chat")
    expect(window.composer).to_be_visible()


def test_a_preset_is_saved_used_in_a_new_chat_and_shared_with_a_colleague(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site(keys=KEYS, tools=[stock, weigh]))
    requests = server.requests
    ann = open_signed_in(windows, server, "ann")
    ann.send("hello")
    expect(ann.answer).to_have_text("You said: hello")
    open_settings(ann)
    ann.page.get_by_label("System prompt").fill("Answer in verse.")
    ann.page.get_by_label("Temperature").fill("0.5")
    held: list[Route] = []
    ann.page.route("**/tools", lambda route: held.append(route) if is_change(route) else route.continue_())
    with ann.page.expect_request(lambda request: request.method == "DELETE"):
        ann.page.get_by_role("checkbox", name="weigh").uncheck()
    ann.page.get_by_role("textbox", name="Name of the preset").fill("In verse")
    ann.button("Save as preset").click()
    held[0].continue_()  # the preset has also what was on its way when it was saved
    expect(ann.page.get_by_text("The preset is saved.")).to_be_visible()
    assert "verse" not in requests[-1].system, "only the preset has it so far"

    start_chat(ann, server.url)
    ann.button("Settings of this chat").click()
    pick(find_picker(ann), "In verse")
    ann.button("Done").click()
    ann.send("again")
    expect(ann.answer).to_have_text("You said: again")
    assert "Answer in verse." in requests[-1].system and requests[-1].options.temperature == 0.5
    assert [offered.name for offered in requests[-1].offer.tools] == ["stock"]

    bob = open_signed_in(windows, server, "bob", width=375)
    open_settings(ann)
    pick(find_picker(ann), "In verse")
    ann.page.get_by_role("checkbox", name="Share with everybody of your tenant").check()
    ann.button("Save as preset").click()
    expect(find_picker(ann)).to_have_text("In verse, by ann")

    bob.send("hi")
    expect(bob.answer).to_have_text("You said: hi")
    open_settings(bob)
    pick(find_picker(bob), "In verse, by ann")
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

    pick(find_picker(ann), "In verse, by ann")
    ann.button("Delete preset").click()
    expect(find_picker(ann)).to_have_count(0)


def test_files_are_added_to_a_preset_and_refusals_are_told(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site())
    windows.expected_complaint = "422"
    window = windows.open(server, width=375)
    page = window.page
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    open_settings(window)
    page.get_by_label("Turns with tools per request").fill("100000")
    page.get_by_role("textbox", name="Name of the preset").fill("Team")
    window.button("Save as preset").click()
    expect(page.get_by_role("alert")).to_contain_text("max_turns")
    expect(find_picker(window)).to_have_count(0)
    page.get_by_label("Turns with tools per request").fill("5")
    page.get_by_label("System prompt").fill("Help.")
    window.button("Save as preset").click()

    files = page.get_by_role("list", name="Files of Team").get_by_role("listitem")
    add_files(window, ("handbook-of-the-whole-team.md", b"Ring twice."), ("prices.csv", b"milk,1"))
    expect(files).to_have_text(["handbook-of-the-whole-team.md12 tokens", "prices.csv6 tokens"])
    expect(page.get_by_text("Takes about 19 tokens in every turn.")).to_be_visible()
    assert page.get_by_role("dialog").evaluate("(dialog) => dialog.scrollWidth - dialog.clientWidth") <= 0
    alert = page.get_by_role("alert")
    add_files(window, ("large.txt", b"x" * 64_000))
    expect(alert).to_have_text("The files of a preset may have 64 kB of text together.")
    add_files(window, *((f"{number}.txt", b"x") for number in range(7)))
    expect(alert).to_have_text("A preset holds at most 8 files.")
    add_files(window, ("photo.png", b"\x89PNG\r\n\x1a\n"))
    expect(alert).to_have_text("photo.png is not text: a preset holds texts and documents only.")
    window.button("Remove prices.csv").click()
    expect(files).to_have_text(["handbook-of-the-whole-team.md12 tokens"])
    expect(alert).to_have_count(0)

    window.button("Use preset").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    chips = page.get_by_role("list", name="Set for this conversation").get_by_role("listitem")
    expect(chips).to_have_text(["Preset: Team"])
    expect(window.button("Model: Team")).to_be_visible()
    window.send("again")
    expect(window.answer).to_have_text("You said: again")
    assert server.requests[-1].system.endswith("Help.\n\nThe file handbook-of-the-whole-team.md:\nRing twice.")

    start_chat(window, server.url)
    window.button("Settings of this chat").click()
    pick(find_picker(window), "Team")
    expect(page.get_by_text("With files: handbook-of-the-whole-team.md.")).to_be_visible()
    window.button("Done").click()
    expect(chips).to_contain_text(["Preset: Team"])
    window.send("and now?")
    expect(window.answer).to_have_text("You said: and now?")
    assert "Ring twice." in server.requests[-1].system and "milk" not in server.requests[-1].system


def add_files(window: Window, *files: tuple[str, bytes]) -> None:
    with window.page.expect_file_chooser() as chooser:
        window.button("Add files").click()
    chooser.value.set_files([{"name": name, "mimeType": "", "buffer": body} for name, body in files])
