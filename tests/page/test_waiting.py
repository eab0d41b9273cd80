"""What waits is seen everywhere: in the list, the tab's title, a notification, the inbox and Live; and decided."""

from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from page.site import HOLD, Site, start_site
from page.window import Window, Windows
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.testing import call, say

SOLD: list[tuple[str, int]] = []


@tool(approval="ask")
def sell(item: str, amount: int = 1) -> str:
    """Sell an item to the customer at the counter."""
    SOLD.append((item, amount))
    return f"{item} is sold"


@tool(approval="other", approvers=["user:bob"])
def refund(amount: int) -> str:
    """Give money back."""
    SOLD.append(("refund", amount))
    return "given back"


@tool(approval="ask", approval_reason=True)
def write_off(item: str) -> str:
    """Take an item off the books."""
    SOLD.append((item, 0))
    return f"{item} is written off"


TOOLS = [sell, refund, write_off]
SCENES = {
    "sell milk": [call("sell", item="milk"), say("Sold.")],
    "sell bread": [call("sell", item="bread"), say("Sold.")],
    "sell nothing": [call("sell", article="x"), say("I could not.")],
    "refund it": [call("refund", amount=5), say("It is back.")],
    "lose milk": [call("write_off", item="milk"), say("It is lost.")],
    "lose bread": [call("write_off", item="bread"), say("It is not lost.")],
    "talk": [say("Once ", HOLD, "upon a time.")],
}
FAKE_NOTIFICATION = """() => {
    window.shown = []
    window.Notification = class {
        static permission = "default"
        static requestPermission = async () => (Notification.permission = "granted")
        constructor(title, { body }) { shown.push(`${title}: ${body}`) }
    }
    Object.defineProperty(document, "hidden", { get: () => window.isHidden ?? false })
}"""


@pytest.fixture
def server(sites: ExitStack) -> Site:
    SOLD.clear()
    return sites.enter_context(start_site(SCENES, tools=TOOLS))


def sign_in(windows: Windows, server: Site, user: str) -> Window:
    window = windows.open(server)
    window.page.get_by_role("textbox", name="API key").fill(user)
    window.button("Sign in").click()
    expect(window.composer).to_be_visible()
    return window


@pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
def test_what_waits_is_counted_and_decided_in_the_inbox(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    page = window.page
    window.send("sell milk")
    expect(window.card("sell")).to_contain_text("Sell an item to the customer at the counter.")
    expect(page).to_have_title("(1) sell milk · Toolyard")
    page.get_by_role("link", name="Inbox 1").and_(page.locator(":visible")).click()
    expect(page.get_by_role("heading", name="Waiting for you")).to_be_visible()
    card = window.card("sell")
    expect(card).to_contain_text("waits for your decision")
    assert page.evaluate("() => document.querySelector('main').scrollWidth") <= width
    card.get_by_role("button", name="Edit").click()
    expect(card.get_by_label("amount")).to_have_value("1")
    expect(card.get_by_role("group", name="Changes")).to_have_count(0)  # a default that the form fills in is none
    card.get_by_label("amount").fill("3")
    expect(card.get_by_role("group", name="Changes")).to_contain_text("Amount")
    card.get_by_role("button", name="Approve with changes").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(page).to_have_title("Inbox · Toolyard")
    page.go_back()
    expect(window.answer).to_have_text("Sold.")  # a call that was approved has yet to run
    assert SOLD == [("milk", 3)]


def test_an_edited_call_shows_what_was_changed(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("sell milk")
    card = window.card("sell")
    card.get_by_role("button", name="Edit").click()
    card.get_by_label("item").fill("cream")
    card.get_by_role("button", name="Approve with changes").click()
    expect(window.answer).to_have_text("Sold.")
    card.get_by_role("button").first.click()
    changes = card.get_by_role("group", name="Changes")
    expect(changes.locator("del")).to_have_text("milk")
    expect(changes.locator("ins").first).to_have_text("cream")


def test_the_list_of_conversations_tells_what_runs_and_what_waits(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    window.send("talk")
    expect(window.answer).to_contain_text("Once")
    items = page.get_by_role("region", name="Conversations").get_by_role("listitem")
    expect(items.filter(has_text="talk").get_by_role("img", name="running")).to_be_visible()
    window.start_chat()
    window.send("sell milk")
    expect(items.filter(has_text="sell milk").get_by_role("img", name="waiting")).to_be_visible()
    server.resume()
    expect(items.filter(has_text="talk").get_by_role("img")).to_have_count(0)


def test_a_hidden_tab_notifies_once_it_was_allowed_to(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    page.add_init_script(f"({FAKE_NOTIFICATION})()")
    page.goto(f"{server.url}/#/inbox")
    page.reload()
    other = windows.open(server)
    window.button("Notify me").click()
    expect(window.button("Notify me")).to_have_count(0)
    other.send("sell milk")
    expect(window.card("sell")).to_contain_text("waits for your decision")
    expect(page).to_have_title("(1) Inbox · Toolyard")
    assert page.evaluate("() => shown") == []
    page.evaluate("() => { window.isHidden = true }")
    other.start_chat()
    other.send("sell bread")
    page.wait_for_function("() => shown.length === 1")
    assert page.evaluate("() => shown") == ["Sell waits for you: sell bread"]


def test_an_approver_finds_the_calls_of_the_tenant_and_decides_them_in_place(
    windows: Windows, sites: ExitStack
) -> None:
    SOLD.clear()
    windows.expected_complaint = "401"
    keys = [build_key("ann"), build_key("bob"), build_key("eve", "approver"), build_key("zoe", "approver", tenant="u")]
    server = sites.enter_context(start_site(SCENES, tools=TOOLS, keys=keys))
    ann = sign_in(windows, server, "ann")
    ann.send("sell milk")
    expect(ann.card("sell")).to_contain_text("waits for your decision")
    for user in ("bob", "zoe"):
        stranger = sign_in(windows, server, user)
        stranger.page.goto(f"{server.url}/#/inbox")
        expect(stranger.page.get_by_text("Nothing waits for you.")).to_be_visible()
    eve = sign_in(windows, server, "eve")
    expect(eve.page.get_by_role("link", name="Inbox 1")).to_be_visible()
    eve.page.goto(f"{server.url}/#/inbox")
    expect(eve.page.get_by_role("listitem").filter(has_text="sell milk").last).to_contain_text("ann")
    expect(eve.page.get_by_role("main").get_by_role("link", name="sell milk")).to_be_visible()
    expect(eve.page.get_by_role("main").get_by_role("link", name="Trace")).to_be_visible()
    eve.card("sell").get_by_role("button", name="Approve").click()
    expect(ann.answer).to_have_text("Sold.")
    assert SOLD == [("milk", 1)]


def test_a_call_is_decided_on_the_live_page(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("sell milk")
    expect(window.card("sell")).to_contain_text("waits for your decision")
    window.go_to("live")
    window.card("sell").get_by_role("button", name="Deny").click()
    window.card("sell").get_by_role("button", name="Deny").click()
    expect(window.page.get_by_text("Nothing runs or waits at the moment.")).to_be_visible()
    assert SOLD == []


def test_a_call_that_needs_a_reason_is_neither_approved_nor_denied_without_one(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    hint = "Give a reason first: this call is neither approved nor denied without one."
    for message, decision, answer in (
        ("lose milk", "Approve", "It is lost."),
        ("lose bread", "Deny", "It is not lost."),
    ):
        window.start_chat()
        window.send(message)
        expect(window.card("write_off")).to_contain_text("waits for your decision")
        window.go_to("inbox")
        card = window.card("write_off")
        reason = card.get_by_placeholder("Reason (required)")
        expect(reason).to_have_accessible_description(hint)
        for text, enabled in (("", False), (" ", False), ("it is sour", True)):
            reason.fill(text)
            for name in ("Approve", "Deny"):
                expect(card.get_by_role("button", name=name)).to_be_enabled(enabled=enabled)
            expect(card.get_by_text(hint)).to_have_count(int(not enabled))
        card.get_by_role("button", name=decision).click()
        expect(window.page.get_by_text("Nothing waits for you.")).to_be_visible()
        window.page.go_back()
        expect(window.answer).to_have_text(answer)
    assert SOLD == [("milk", 0)]


def test_a_call_that_was_refused_before_it_ran_is_not_a_failure(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("sell nothing")
    expect(window.answer).to_have_text("I could not.")
    expect(window.card("sell")).to_contain_text("not run")
    expect(window.card("sell")).not_to_contain_text("failed")


def test_a_user_whom_a_call_names_as_approver_is_told_of_it_without_the_role(
    windows: Windows, sites: ExitStack
) -> None:
    SOLD.clear()
    windows.expected_complaint = "401"
    keys = [build_key("ann"), build_key("bob"), build_key("cy")]
    server = sites.enter_context(start_site(SCENES, tools=TOOLS, keys=keys))
    bob, other = sign_in(windows, server, "bob"), sign_in(windows, server, "cy")
    page = bob.page
    page.add_init_script(f"({FAKE_NOTIFICATION})()")
    page.reload()
    expect(bob.composer).to_be_visible()
    page.evaluate("() => { Notification.permission = 'granted'; window.isHidden = true }")
    ann = sign_in(windows, server, "ann")
    ann.send("refund it")
    expect(ann.card("refund")).to_contain_text("Approvals missing: 1, by the user bob")
    expect(page.get_by_role("link", name="Inbox 1")).to_be_visible()
    expect(page).to_have_title("(1) Toolyard")
    assert page.evaluate("() => shown") == ["Refund waits for you: Requested by ann"]
    page.get_by_role("link", name="Inbox 1").click()
    expect(page.get_by_role("main")).to_contain_text("Requested by ann")
    expect(page.get_by_role("main").get_by_role("link")).to_have_count(0)  # they would lead to what bob may not see
    bob.card("refund").get_by_role("button", name="Approve").click()
    expect(ann.answer).to_have_text("It is back.")
    expect(page).to_have_title("Inbox · Toolyard")
    expect(page.get_by_role("link", name="Inbox 1")).to_have_count(0)
    assert SOLD == [("refund", 5)]
    expect(other.page).to_have_title("Toolyard")


def test_who_waits_for_others_is_told_whom_and_reads_who_decided_and_why(windows: Windows, sites: ExitStack) -> None:
    @tool(approval="other", approvers=["role:finance"], approvals=2, approval_reason=True)
    def pay(amount: int) -> str:
        """Pay an amount."""
        return f"{amount} is paid"

    windows.expected_complaint = "401"
    keys = [build_key("ann"), build_key("bob", "finance"), build_key("cy", "finance")]
    server = sites.enter_context(start_site({"pay": [call("pay", amount=5), say("Paid.")]}, tools=[pay], keys=keys))
    ann = sign_in(windows, server, "ann")
    ann.send("pay")
    expect(ann.card("pay")).to_contain_text("needs approval")
    header = ann.page.get_by_role("main").locator("header")
    expect(header).to_contain_text("Waiting for the role finance")
    expect(header).not_to_contain_text("Waiting for you")
    expect(ann.page.get_by_role("status")).to_have_text("Waiting for the role finance")
    for user, reason, before in (("bob", "It is invoice 7.", ""), ("cy", "Seen.", "approved by bob: It is invoice 7.")):
        window = sign_in(windows, server, user)
        window.page.goto(f"{server.url}/#/inbox")
        expect(window.card("pay")).to_contain_text(before)
        window.card("pay").get_by_placeholder("Reason (required)").fill(reason)
        window.card("pay").get_by_role("button", name="Approve").click()
        expect(window.page.get_by_text("Nothing waits for you.")).to_be_visible()
    expect(ann.answer).to_have_text("Paid.")
    ann.card("pay").get_by_role("button").first.click()
    expect(ann.card("pay")).to_contain_text("approved by bob: It is invoice 7.")
    expect(ann.card("pay")).to_contain_text("approved by cy: Seen.")
    ann.page.get_by_role("link", name="Trace", exact=True).click()
    ann.page.locator("table.runs tbody tr").get_by_role("link").first.click()
    ann.page.locator(".waterfall .span", has_text="pay").click()
    expect(ann.page.get_by_role("main")).to_contain_text("approved by bob: It is invoice 7.")
