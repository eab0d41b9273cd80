"""Who uses the page and how: with a key, in the dark, on a phone, in Chinese, without a mouse, without eyes."""

import re
from contextlib import ExitStack
from typing import cast

from playwright.sync_api import Page, Route, expect

from page.site import HOLD, Site, start_site
from page.window import Window, Windows
from surfaces.api_client import Json, build_key
from toolyard import Limits, tool
from toolyard.core.settings.limits import SessionLimits
from toolyard.testing import call, say, together

KEYS = [build_key("ann"), build_key("bob"), build_key("olga", "operator")]


@tool(approval="ask", examples=["lights"])
def switch(entity: str, on: bool, brightness: int = 50) -> str:
    """Switch something on or off."""
    return f"{entity} is switched"


@tool(read_only=True)
def stock() -> list[dict[str, object]]:
    """What there is."""
    return [{"item": "milk", "left": 2}]


TOOLS = [switch, stock]
SCENES = {
    "lights": [together(call("stock"), call("switch", entity="hall", on=True)), say("Done, with `code` and **more**.")],
    "again": [call("stock")],
    "wait": [say("Just ", HOLD, "now.")],
}
WIRING = {"limits": Limits(turns_per_request=2)}


def expect_title(page: Page, title: str) -> None:
    """Expect a title, with the number of calls that wait: other tests of the same server leave some."""
    expect(page).to_have_title(re.compile(rf"^(\(\d+\) )?{title} · Toolyard$"))


def open_waiting_call(windows: Windows, server: Site, **how: object) -> Window:
    """A window in which a call waits for approval, beside one that is done."""
    window = windows.open(server, **how)  # pyright: ignore[reportArgumentType]
    window.composer.fill("lights")
    window.composer.press("Enter")
    expect(window.card("switch")).to_contain_text("needs approval")
    window.card("stock").get_by_role("button").first.click()
    return window


def test_dark_is_dark_and_a_choice_is_kept(windows: Windows, server: Site) -> None:
    def brightness(window: Window) -> int:
        return window.page.evaluate("() => +getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")

    window = windows.open(server, dark=True)
    assert brightness(window) < 60
    window.page.get_by_role("button", name="Theme: System").click()
    expect(window.page.get_by_role("button", name="Theme: Light")).to_be_visible()
    assert brightness(window) > 200
    window.page.reload()
    expect(window.page.get_by_role("button", name="Theme: Light")).to_be_visible()
    assert brightness(window) > 200


def test_on_a_phone_everything_fits_and_the_menu_slides_in(windows: Windows, server: Site) -> None:
    window = open_waiting_call(windows, server, width=375)
    page = window.page
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    assert page.evaluate("() => document.querySelector('.thread').scrollWidth") <= 375
    expect(page.get_by_role("link", name="Overview")).to_be_hidden()
    page.get_by_role("button", name="Open the menu").click()
    window.open_page("Overview")
    expect(page.locator(".uplot canvas")).to_have_count(5)
    expect(page.get_by_role("link", name="Overview")).to_be_hidden()
    page.wait_for_function("() => document.querySelector('main').scrollWidth <= 375")
    page.goto(f"{server.url}/#/chat")
    expect(window.composer).to_be_visible()


def test_in_chinese_everything_is(windows: Windows, server: Site) -> None:
    window = windows.open(server, locale="zh-CN")
    page = window.page
    expect(page.get_by_role("heading", name="我们来做点什么？")).to_be_visible()
    assert page.evaluate("() => document.documentElement.lang") == "zh-Hans"
    page.get_by_role("textbox", name="输入消息").fill("again")
    page.keyboard.press("Enter")
    expect(page.get_by_text("抱歉，处理超时，请简化您的请求或重试。")).to_be_visible()
    page.get_by_role("button", name="语言: English").click()
    expect(window.thread.get_by_text("A limit ended this run")).to_be_visible()


def test_from_a_limit_one_can_go_on(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("again")
    expect(window.thread.get_by_text("A limit ended this run")).to_be_visible()
    expect(window.thread.get_by_text("The request reached its limit of turns with tools")).to_be_visible()
    window.button("Continue").click()
    expect(window.answer).to_have_text("You said: Please go on.")
    expect(window.button("Continue")).to_be_hidden()


def test_without_a_mouse_a_call_is_approved(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    window.send("lights")
    expect(window.card("switch")).to_contain_text("needs approval")
    expect(window.composer).to_be_focused()
    focused, steps = "", 0
    while focused != "Approve" and (steps := steps + 1) < 60:
        page.keyboard.press("Shift+Tab")
        focused: str = page.evaluate("() => document.activeElement.textContent.trim()")
    page.keyboard.press("Enter")
    expect(window.answer).to_contain_text("Done")


def test_a_screen_reader_is_told_where_things_stand(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    status = window.page.get_by_role("status")
    window.send("wait")
    expect(status).to_have_text("Working")
    server.resume()
    expect(status).to_have_text("The answer is complete.")
    window.send("lights")
    expect(status).to_have_text("Waiting for you: 1")


def test_conversations_are_found_renamed_and_deleted(windows: Windows, sites: ExitStack) -> None:
    window = windows.open(sites.enter_context(start_site()))
    page = window.page
    listed = page.get_by_role("region", name="Conversations")
    for text in ("apples and pears", "bread"):
        window.start_chat()
        window.send(text)
        expect(window.answer).to_have_text(f"You said: {text}")
    expect(listed.get_by_role("listitem")).to_have_count(2)
    page.get_by_role("searchbox", name="Search conversations").fill("PEARS")
    expect(listed.locator(".conversation-title")).to_have_text(["apples and pears"])
    page.get_by_role("searchbox", name="Search conversations").fill("")
    page.get_by_role("button", name="Actions for bread").click()
    window.button("Rename").click()
    page.get_by_role("textbox", name="Rename").fill("Bakery")
    window.button("Save").click()
    expect(listed.get_by_role("link", name="Bakery")).to_be_visible()
    expect(page.get_by_role("heading", name="Bakery")).to_be_visible()
    expect_title(page, "Bakery")
    page.get_by_role("button", name="Actions for Bakery").click()
    window.button("Delete").click()
    expect(listed.get_by_role("listitem")).to_have_text(["apples and pears"])
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    window.open_page("Live")
    expect_title(page, "Live")
    listed.get_by_role("link", name="apples and pears").click()
    expect_title(page, "apples and pears")


def test_the_title_is_that_of_a_page_whose_code_takes_long_to_load(windows: Windows, server: Site) -> None:
    page = windows.open(server).page
    expect(page.get_by_role("heading", name="What shall we do?")).to_be_visible()
    held: list[Route] = []
    page.route("**/assets/Live-*.js", lambda route: held.append(route))
    with page.expect_request("**/assets/Live-*.js"):
        page.goto(f"{server.url}/#/live")
    expect_title(page, "Live")
    held[0].continue_()
    expect(page.get_by_role("heading", name="Live", exact=True)).to_be_visible()
    expect_title(page, "Live")


def test_with_keys_one_signs_in_and_sees_what_is_theirs(windows: Windows, sites: ExitStack) -> None:
    windows.expected_complaint = "401"
    server = sites.enter_context(start_site(SCENES, keys=KEYS, tools=TOOLS))
    ann, olga = windows.open(server), windows.open(server)
    ann.page.get_by_role("textbox", name="API key").fill("wrong")
    ann.button("Sign in").click()
    expect(ann.page.get_by_role("alert")).to_contain_text("not known")
    for window, name in ((ann, "ann"), (olga, "olga")):
        window.page.get_by_role("textbox", name="API key").fill(name)
        window.button("Sign in").click()
        expect(window.composer).to_be_visible()
    assert name not in olga.page.url
    ann.send("a secret of mine")
    expect(ann.answer).to_have_text("You said: a secret of mine")
    ann.page.reload()
    expect(ann.answer).to_have_text("You said: a secret of mine")
    expect(ann.button("Everyone")).to_have_count(0)
    olga.button("Everyone").click()
    olga.page.get_by_role("link", name="a secret of mine").click()
    expect(olga.answer).to_have_text("You said: a secret of mine")
    expect(olga.page.get_by_text("This conversation belongs to ann.")).to_be_visible()
    expect(olga.composer).to_have_count(0)
    expect(olga.page.get_by_role("button", name="Actions for a secret of mine")).to_have_count(0)
    ann.start_chat()
    ann.send("lights")
    expect(ann.card("switch").get_by_role("button", name="Approve")).to_be_visible()
    olga.page.goto(ann.page.url)
    expect(olga.card("switch")).to_contain_text("needs approval")
    expect(olga.page.get_by_text("This conversation belongs to ann.")).to_be_visible()
    expect(olga.button("Approve")).to_have_count(0)
    olga.page.keyboard.press("Escape")
    olga.page.goto(f"{server.url}/#/live")
    expect(olga.page.locator(".card").filter(has_text="lights")).to_contain_text("needs approval")
    expect(olga.page.get_by_role("button", name="Stop")).to_have_count(0)
    (cookie,) = cast(list[Json], ann.page.context.cookies())
    with ann.page.expect_event("load"):  # any other answer may tell the page before the cookie is removed
        ann.button("Sign out").click()
    expect(ann.page.get_by_role("textbox", name="API key")).to_be_visible()
    assert ann.page.context.cookies() == []
    ann.page.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": server.url}])
    ann.page.reload()
    expect(ann.page.get_by_role("textbox", name="API key")).to_be_visible()


def test_the_sign_in_page_says_how_long_one_stays_signed_in(windows: Windows, sites: ExitStack) -> None:
    windows.expected_complaint = "401"
    usual = sites.enter_context(start_site(keys=KEYS))
    for locale, words in (
        ("en", "You stay signed in for 12 hours without use, and for 14 days at most."),
        ("de", "Ohne Nutzung bleibst du 12 Stunden angemeldet, höchstens aber 14 Tage."),
        ("zh", "不使用时登录状态保持 12小时，最长 14天。"),
    ):
        expect(windows.open(usual, locale=locale).page.get_by_text(words)).to_be_visible()
    strict = sites.enter_context(start_site(keys=KEYS, sessions=SessionLimits(idle_s=900, total_s=5400)))
    expect(
        windows.open(strict).page.get_by_text("for 15 minutes without use, and for 1.5 hours at most")
    ).to_be_visible()


def test_one_stays_signed_in_in_every_tab_and_no_script_can_read_the_key(windows: Windows, sites: ExitStack) -> None:
    windows.expected_complaint = "401"
    server = sites.enter_context(start_site(SCENES, keys=KEYS, tools=TOOLS))
    ann = windows.open(server)
    ann.page.get_by_role("textbox", name="API key").fill("ann")
    ann.button("Sign in").click()
    expect(ann.composer).to_be_visible()
    tab = windows.open_tab(ann.page.context, server.url)
    expect(tab.composer).to_be_visible()
    read_storage = "() => JSON.stringify({...sessionStorage, ...localStorage, cookies: document.cookie})"
    stored = ann.page.evaluate(read_storage)
    (cookie,) = cast(list[Json], ann.page.context.cookies())
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert '"ann"' not in stored and cookie["value"] not in stored and "toolyard-" not in stored
    tab.button("Sign out").click()
    expect(tab.page.get_by_role("textbox", name="API key")).to_be_visible()
    ann.go_to("tools")  # without the sidebar, which may be gone already
    expect(ann.page.get_by_role("textbox", name="API key")).to_be_visible()
