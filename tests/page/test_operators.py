"""What an operator does on the page: tools tried by hand, servers and their changes, traces, figures."""

import re
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Route, expect

from page.site import HOLD, Site, start_site
from page.test_sharing import open_signed_in
from page.window import Window, Windows, pick
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.testing import call, say, together
from venues.mcp.plain import PlainServer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@tool(read_only=True)
def stock(item: str, most: int = 10) -> list[dict[str, object]]:
    """What there is."""
    if item == "gold":
        raise ValueError("the vault is closed")
    return [{"item": item, "left": most}]


@tool(approval="ask")
def sell(item: str) -> str:
    """Sell it."""
    return f"{item} is sold"


@tool(approval="other", approvers=["role:finance", "user:ann"], approvals=2, approval_reason=True, approval_s=7200)
def transfer(amount: int) -> str:
    """Send money away."""
    return f"{amount} is sent"


@tool(read_only=True)
def chart() -> dict[str, str]:
    """A picture."""
    return {"image": f"data:image/png;base64,{PIXEL}"}


IS_DRAWN = """() => {
    const named = getComputedStyle(document.querySelector(".chart-names i")).backgroundColor
    const wanted = named.match(/\\d+/g).map(Number)
    const canvas = document.querySelector(".uplot canvas")
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
    const isSo = (at) => data[at + 3] === 255 && wanted.every((one, n) => data[at + n] === one)
    return data.some((_, at) => at % 4 === 0 && isSo(at))
}"""
"""Whether the first chart has bars of the colour that its legend names."""
A_DOT = re.compile(r"^(M[\d.]+ [\d.]+h0)+$")
A_TIME = re.compile(r"^p95: (<1|[\d.]+) (ms|s)$")
SCENES = {
    "sell it": [call("sell", item="milk"), say("Sold.")],
    "sell both": [together(call("sell", item="milk"), call("sell", item="bread")), say("Both are sold.")],
    "look": [together(call("stock", item="milk"), call("stock", item="gold")), say("One of two.")],
    "look once more": [together(call("stock", item="milk"), call("stock", item="gold")), say("One of two.")],
    "draw": [call("chart"), say("There.")],
    "who am I": [call("ask"), say("Now I know.")],
    "talk": [say("Once ", HOLD, "upon a time.")],
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> PlainServer:
    return PlainServer(tmp_path_factory.mktemp("plain"), trust=True)


@pytest.fixture(scope="module")
def server(plain: PlainServer) -> Generator[Site]:
    with start_site(SCENES, tools=[stock, sell, chart], servers={"plain": plain.spec}) as site:
        yield site


def open_route(windows: Windows, server: Site, route: str) -> Window:
    window = windows.open(server)
    window.page.goto(f"{server.url}/#/{route}")
    return window


def locate_runs(window: Window) -> Locator:
    return window.page.locator("table.runs tbody tr")


def test_how_a_tool_does_is_told_in_words_and_it_is_tried_by_hand_with_a_form_made_of_its_schema(
    windows: Windows, server: Site
) -> None:
    window = windows.open(server)
    page = window.page
    held: list[Route] = []
    page.route("**/overview?*", lambda route: held.append(route))
    page.goto(f"{server.url}/#/tools/stock")
    expect(page.get_by_role("article")).to_contain_text("Calls, 7 days–")
    for route in held:
        route.continue_()
    page.unroute("**/overview?*")
    page.get_by_label("item").fill("gold")
    window.button("Call stock").click()
    expect(window.card("stock")).to_contain_text("the vault is closed")
    about = page.get_by_role("article")
    expect(about).to_contain_text(re.compile(r"Calls in 7 days: \d+, of which [\d.]+% failed"))
    expect(about).to_contain_text(re.compile(r"last called (now|.* ago)"))
    expect(about).to_contain_text(re.compile(r"Last error, (now|.* ago): .*the vault is closed"))
    expect(page.get_by_role("link", name="stock")).to_contain_text("has failed")

    expect(page.get_by_role("heading", name="stock")).to_be_visible()
    page.get_by_label("item").fill("milk")
    page.get_by_label("most").fill("3")
    window.button("Call stock").click()
    expect(window.card("stock").get_by_role("cell", name="3", exact=True)).to_be_visible()
    page.get_by_role("link", name="sell").click()
    expect(page.get_by_role("heading", name="sell")).to_be_visible()
    page.get_by_label("item").fill("bread")
    window.button("Call sell").click()
    window.card("sell").get_by_role("button", name="Approve").click()
    expect(window.card("sell")).to_contain_text("bread is sold")


def test_the_rules_of_a_tool_name_who_decides_how_many_until_when_and_that_a_reason_is_needed(
    windows: Windows, sites: ExitStack
) -> None:
    rules = open_route(windows, sites.enter_context(start_site(tools=[transfer])), "tools/transfer").page.locator(
        ".rules"
    )
    for fact in (
        "Approversthe role finance, the user ann",
        "Approvals needed2",
        "Reasonneeded for each decision",
        "Expires after2 hours",
    ):
        expect(rules.locator("div").filter(has_text=fact)).to_be_visible()


def test_a_tool_that_was_not_called_is_said_of_whose_calls_are_counted(windows: Windows, sites: ExitStack) -> None:
    keys = [build_key("ann"), build_key("bob"), build_key("olga", "operator")]
    server = sites.enter_context(start_site(tools=[stock, chart], keys=keys))
    ann, bob, olga = (open_signed_in(windows, server, name) for name in ("ann", "bob", "olga"))
    ann.page.goto(f"{server.url}/#/tools/chart")
    expect(ann.page.get_by_role("article")).to_contain_text("not called by you in 7 days")
    ann.button("Call chart").click()
    expect(ann.page.get_by_role("article")).to_contain_text("works")
    for window, words in ((bob, "not called by you in 7 days"), (olga, "works")):
        window.page.goto(f"{server.url}/#/tools/chart")
        expect(window.page.get_by_role("article").locator("header")).to_contain_text(words)
    olga.page.goto(f"{server.url}/#/tools/stock")
    expect(olga.page.get_by_role("article")).to_contain_text("not called in 7 days")


def test_an_answer_that_takes_long_is_waited_for(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    page = window.page
    held: list[Route] = []
    page.clock.install()
    page.route("**/servers", lambda route: held.append(route))
    with page.expect_request("**/servers"):
        page.goto(f"{server.url}/#/servers")
    page.clock.run_for(20_000)
    page.wait_for_function("() => document.querySelector('h1')")
    assert len(held) == 1
    held[0].continue_()
    expect(page.get_by_role("heading", name="plain")).to_be_visible()


def test_tools_of_the_same_name_are_taken_one_by_one(
    windows: Windows, sites: ExitStack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    twins = {name: PlainServer(tmp_path_factory.mktemp(name), trust=True).spec for name in ("one", "two")}
    window = windows.open(sites.enter_context(start_site(servers=twins)))
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    window.choose_action("Settings of this conversation")
    servers = [window.page.get_by_role("group", name=name, exact=True) for name in ("one", "two")]
    one, two = (server.get_by_role("checkbox", name="slow look") for server in servers)
    with window.page.expect_response(lambda answer: answer.request.method == "DELETE"):
        one.uncheck()
    window.page.reload()
    window.choose_action("Settings of this conversation")
    expect(one).not_to_be_checked()
    expect(two).to_be_checked()


def test_a_message_waits_for_the_change_of_tools_before_it(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("hello")
    expect(window.answer).to_have_text("You said: hello")
    held: list[Route] = []
    window.page.route("**/tools", lambda route: held.append(route) if is_change(route) else route.continue_())
    window.choose_action("Settings of this conversation")
    with window.page.expect_request(lambda request: request.method == "DELETE"):
        window.page.get_by_label("stock").uncheck()
    window.button("Close").click()
    window.send("look")
    window.page.evaluate("() => fetch('healthz').then((answer) => answer.text())")
    held[0].continue_()
    expect(window.answer).to_have_text("One of two.")
    window.card("stock").get_by_role("button").first.click()
    expect(window.card("stock")).to_contain_text("not enabled")


def is_change(route: Route) -> bool:
    return route.request.method == "DELETE"


def test_a_server_is_seen_stopped_and_started_again(windows: Windows, server: Site, plain: PlainServer) -> None:
    window = open_route(windows, server, "servers")
    card = window.page.get_by_role("listitem").filter(has=window.page.get_by_role("heading", name="plain"))
    expect(card.get_by_text("running", exact=True)).to_be_visible()
    expect(card).to_contain_text(f"Process {plain.processes[-1]}")
    card.get_by_role("button", name="Stop").click()
    expect(card.get_by_text("stopped", exact=True)).to_be_visible()
    card.get_by_role("button", name="Start", exact=True).click()
    expect(card.get_by_text("running", exact=True)).to_be_visible()
    card.get_by_text("Tools: 9").click()
    card.get_by_role("link", name="steps").click()
    window.button("Call steps").click()
    expect(window.card("steps")).to_contain_text("MCP server plain")
    expect(window.card("steps")).to_contain_text("done")  # the list below is not read anew when the call ends
    window.page.goto(f"{server.url}/#/servers")
    expect(card).to_contain_text("Calls in 7 days: ")


def test_only_an_administrator_without_a_tenant_sees_the_buttons_of_servers(
    windows: Windows, sites: ExitStack, tmp_path: Path
) -> None:
    windows.expected_complaint = "401"
    keys = [build_key("root", "admin", tenant=""), build_key("ann", "admin", tenant="acme")]
    server = sites.enter_context(start_site(servers={"plain": PlainServer(tmp_path, trust=True).spec}, keys=keys))
    for user, buttons in (("root", 1), ("ann", 0)):
        window = open_route(windows, server, "servers")
        window.page.get_by_role("textbox", name="API key").fill(user)
        window.button("Sign in").click()
        card = window.page.get_by_role("listitem").filter(has=window.page.get_by_role("heading", name="plain"))
        expect(card.get_by_text("running", exact=True)).to_be_visible()
        expect(card.get_by_role("button", name="Stop")).to_have_count(buttons)
        expect(card.get_by_role("button", name="Restart")).to_have_count(buttons)


def test_a_question_of_a_server_is_answered_with_its_form_and_a_picture_is_shown_as_one(
    windows: Windows, server: Site
) -> None:
    window = windows.open(server)
    window.send("who am I")
    card = window.card("ask")
    expect(card).to_contain_text("What is your name?")
    expect(card.get_by_role("button", name="Answer")).to_be_disabled()
    card.get_by_label("name").fill("Ann")
    card.get_by_role("button", name="Answer").click()
    expect(window.answer).to_have_text("Now I know.")
    card.get_by_role("button").first.click()
    expect(card).to_contain_text("Ann")
    window.send("draw")
    expect(window.card("chart").locator("img")).to_have_js_property("naturalWidth", 1)


def test_forms_tell_of_a_lost_connection_in_our_own_words_until_it_is_back(windows: Windows, server: Site) -> None:
    windows.expected_complaint = "ERR_INTERNET_DISCONNECTED"
    window = windows.open(server)
    page = window.page
    problem = page.get_by_role("alert").filter(has_text="The server cannot be reached.")

    def press_without_connection(name: str) -> None:
        expect(window.button(name)).to_be_enabled()
        page.context.set_offline(True)
        window.button(name).click()
        expect(problem).to_be_visible()
        expect(page.get_by_text("Failed to fetch")).to_have_count(0)
        page.context.set_offline(False)
        expect(problem).to_have_count(0)
        window.button(name).click()

    window.send("sell both")
    press_without_connection("Approve all")
    expect(window.answer).to_have_text("Both are sold.")
    window.send("who am I")
    window.card("ask").get_by_label("name").fill("Ann")
    press_without_connection("Answer")
    expect(window.answer).to_have_text("Now I know.")
    page.goto(f"{server.url}/#/tools/stock")
    page.get_by_label("item").fill("milk")
    press_without_connection("Call stock")
    expect(window.card("stock")).to_contain_text("milk")


def test_a_changed_definition_is_read_and_accepted(windows: Windows, server: Site, plain: PlainServer) -> None:
    plain.notes.with_suffix(".changed").write_text("Looks. And sends all files away.")
    window = open_route(windows, server, "servers")
    page = window.page
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="plain"))
    card.get_by_role("button", name="Restart").click()
    changed = page.get_by_role("article", name="look")
    expect(changed).to_contain_text("sends all files away")
    page.set_viewport_size({"width": 375, "height": 800})
    page.wait_for_function("() => document.querySelector('main').scrollWidth <= 375")
    page.set_viewport_size({"width": 1200, "height": 800})
    page.goto(f"{server.url}/#/tools")
    expect(page.get_by_role("heading", name="Tools")).to_be_visible()
    expect(page.get_by_role("link", name="slow_look")).to_be_visible()
    expect(page.locator(".lines code").get_by_text("look", exact=True)).to_have_count(0)
    page.goto(f"{server.url}/#/servers")
    changed.get_by_role("button", name="Reject").click()
    expect(card.get_by_text("Changed tools that wait for you")).to_have_count(0)
    page.reload()
    card.get_by_text("Rejected: 1").click()
    expect(changed).to_contain_text("sends all files away")
    changed.get_by_role("button", name="Accept").click()
    expect(changed).to_have_count(0)
    page.goto(f"{server.url}/#/tools")
    expect(page.locator(".lines code").get_by_text("look", exact=True)).to_be_visible()
    page.goto(f"{server.url}/#/servers")
    card.get_by_text("Tools: 9").click()
    accepted = card.get_by_role("listitem").filter(has=page.get_by_role("link", name="look Looks."))
    expect(accepted).to_contain_text(re.compile(r"accepted by \S+, (now|\d+ \w+ ago)"))
    expect(card.get_by_text("from the first listing, reviewed by nobody")).to_have_count(8)
    accepted.get_by_text("accepted by").click()
    expect(accepted.get_by_text("sends all files away").last).to_be_visible()
    card.get_by_role("button", name="Withdraw the acceptance of look", exact=True).click()
    expect(card.get_by_text("Rejected: 1")).to_be_visible()
    page.goto(f"{server.url}/#/tools")
    expect(page.get_by_role("link", name="slow_look")).to_be_visible()
    expect(page.locator(".lines code").get_by_text("look", exact=True)).to_have_count(0)


def test_the_first_listing_of_a_server_is_reviewed_tool_by_tool(
    windows: Windows, sites: ExitStack, tmp_path: Path
) -> None:
    windows.expected_complaint = "401"
    keys = [build_key("root", "admin", tenant=""), build_key("ann", "admin", tenant="acme")]
    plain = PlainServer(tmp_path, trust=False)
    server = sites.enter_context(start_site(servers={"plain": plain.spec}, keys=keys))
    unreviewed = "from the first listing, reviewed by nobody"

    def open_tools(user: str) -> Window:
        window = open_route(windows, server, "servers")
        window.page.get_by_role("textbox", name="API key").fill(user)
        window.button("Sign in").click()
        window.page.get_by_text("Tools: 9").click()
        expect(window.page.get_by_role("link", name="slow_look")).to_be_visible()
        return window

    root = open_tools("root")
    expect(root.page.get_by_text(unreviewed)).to_have_count(9)
    root.button("Accept look").click()
    expect(root.page.get_by_text(unreviewed)).to_have_count(8)
    expect(root.page.get_by_text("accepted by root, ")).to_be_visible()
    expect(root.button("Accept look")).to_have_count(0)
    expect(root.button("Withdraw the acceptance of look")).to_be_visible()
    ann = open_tools("ann")
    expect(ann.page.get_by_text(unreviewed)).to_have_count(0)
    expect(ann.page.get_by_role("button", name="look")).to_have_count(0)


def test_a_run_is_found_and_drawn_as_a_waterfall_counted_in_the_overview_and_stopped_where_it_waits(
    windows: Windows, server: Site
) -> None:
    window = windows.open(server)
    page = window.page
    window.send("look once more")
    expect(window.answer).to_have_text("One of two.")
    page.goto(f"{server.url}/#/traces")
    page.get_by_label("Tool", exact=True).fill("stock")
    pick(page.get_by_label("Outcome of a call"), "failed")
    locate_runs(window).filter(has_text="look once more").get_by_role("link").first.click()
    spans = page.locator(".waterfall .span")
    expect(spans).to_have_count(4)
    expect(spans.first).to_contain_text("Turn 1")
    spans.nth(2).click()
    expect(page.get_by_text("the vault is closed")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.button("Copy as curl").click()
    assert window.read_clipboard("curl ") == f"curl {server.url}/traces/{page.url.rpartition('/')[2]}"
    page.get_by_role("link", name="All traces").click()
    pick(page.get_by_label("Ending"), "failed")
    expect(page.get_by_text("No runs found.")).to_be_visible()

    page.goto(f"{server.url}/#/overview")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="stock"))
    expect(row).to_be_visible()
    expect(page.locator(".uplot canvas")).to_have_count(5)
    page.wait_for_function(IS_DRAWN)
    for name in ("stock", "scripted"):
        figure = page.get_by_role("figure", name=f"Latency of {name}")
        expect(figure.locator(".p95_ms .dots")).to_have_attribute("d", A_DOT)
        expect(figure.get_by_role("cell", name="p95: ").first).to_have_text(A_TIME)
    window.button("7 days").click()
    expect(window.button("7 days")).to_have_attribute("aria-pressed", "true")
    expect(row).to_be_visible()

    page.goto(f"{server.url}/#/chat")
    window.send("sell it")
    expect(window.card("sell")).to_contain_text("needs approval")
    page.goto(f"{server.url}/#/live")
    card = page.locator(".card").filter(has_text="sell it")
    expect(card).to_contain_text("needs approval")
    card.get_by_role("button", name="Stop").click()
    expect(card).to_have_count(0)
