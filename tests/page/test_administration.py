"""What an administrator sets on the page: the first minutes, providers and models, MCP servers."""

import json
import re
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, expect

from page.administration import fill, locate_field, open_section, serve_mcp, serve_provider, start_unconfigured
from page.site import start_site
from page.test_sharing import open_signed_in
from page.window import Window, Windows, pick
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.core.settings.models.cards import Provider
from toolyard.core.settings.runtime import EntryId
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.engine.settings.setting_store import ConfiguredEntry
from toolyard.models.resolver import ModelSettings
from venues.mcp.modern import SIGNED
from venues.mcp.plain import PlainServer
from wire.keyed_provider import KeyedProvider

ADMIN = "root"


@tool
def pay() -> str:
    """Pay."""
    return "paid"


KEYS = [build_key(ADMIN, "admin", tenant="")]
WIDTHS = pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])


def locate_card(window: Window, name: str) -> Locator:
    heading = window.page.get_by_role("heading", name=name, exact=True)
    return window.page.locator("li.card").filter(has=heading)


def check_is_gone(window: Window, secret: str) -> None:
    """Check that the page has a secret no longer, once the dialog is closed in which it was."""
    expect(window.page.get_by_role("dialog")).to_have_count(0)
    assert secret not in window.page.content()


@WIDTHS
def test_from_an_empty_server_to_the_first_call_of_a_tool_and_a_key(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    server = sites.enter_context(start_unconfigured())
    provider = KeyedProvider("ready", "right-key")
    address = sites.enter_context(serve_provider(server, provider))
    tools_address = sites.enter_context(serve_mcp(server))
    window = windows.open(server, width=width)
    page = window.page
    page.get_by_role("link", name="Set up this server in three steps").click()
    page.get_by_role("main").get_by_role("link", name="Connect a model").click()
    pick(page.get_by_role("combobox", name="Provider"), "Another address")
    fill(window, Name_of_the_provider="shop", Address=address, API_key="wrong-key", Default_model="small")
    window.button("Test").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("key")
    assert "wrong-key" not in page.get_by_role("dialog").inner_text()
    fill(window, API_key="right-key")
    window.button("Test").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("It answered: “ready”")
    window.button("Save").click()
    expect(locate_card(window, "shop").get_by_role("definition").last).to_have_text("stored")
    expect(locate_card(window, "Default model and fallbacks")).to_contain_text("shop:small")
    check_is_gone(window, "right-key")
    page.get_by_role("link", name="First steps").click()
    expect(page.get_by_text("shop:small answers.")).to_be_visible()
    page.get_by_role("link", name="Add an MCP server").click()
    fill(window, Name="numbers", Address=tools_address)
    expect(window.button("Add it")).to_have_count(0)
    window.button("Test").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("numbers answers with")
    window.button("Add it").click()
    expect(locate_card(window, "numbers")).to_contain_text("each call of its tools asks a person first")
    page.goto(f"{server.url}/#/tools/whoami")
    window.button("Call whoami").click()
    window.card("whoami").get_by_role("button", name="Approve").click()
    expect(window.card("whoami")).to_contain_text("done")
    open_section(window, "start")
    page.get_by_role("link", name="Create a key").click()
    fill(window, Person="ann", Name_of_the_key="Ann's laptop")
    page.get_by_role("dialog").get_by_role("button", name="Create a key").click()
    secret = page.locator(".new-secret code").inner_text()
    page.keyboard.press("Escape")  # which must not lose the secret
    window.button("I have kept it").click()
    expect(locate_card(window, "Ann's laptop")).to_contain_text("ann")
    check_is_gone(window, secret)
    other = windows.open(server, width=width)
    windows.expected_complaint = "401"
    other.page.get_by_role("textbox", name="API key").fill(secret)
    other.button("Sign in").click()
    other.send("hello")
    expect(other.answer).to_have_text("ready")
    assert provider.sent_keys[-1] == "right-key"


def test_whoever_wants_no_model_goes_on_without_one(windows: Windows, sites: ExitStack) -> None:
    window = windows.open(sites.enter_context(start_unconfigured()))
    open_section(window, "start")
    window.button("Go on without").click()
    expect(window.page.get_by_text("You go on without a model.")).to_be_visible()
    window.page.reload()
    expect(window.page.get_by_text("You go on without a model.")).to_be_visible()
    expect(window.page.get_by_text("done", exact=True)).to_have_count(1)


@WIDTHS
def test_entries_of_the_file_are_read_only_and_say_where_they_stand(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    entry = EntryId("providers", "anthropic")
    configured = {entry: ConfiguredEntry(value={"api_key": "***"}, location="toolyard.toml:12")}
    settings = ModelSettings(environment={}, providers={"anthropic": Provider(api_key="from-the-file")})
    servers = {"near": ServerSpec(url="http://127.0.0.1:9/mcp")}
    places = {EntryId("servers", "near"): "toolyard.toml:20"}
    server = sites.enter_context(
        start_unconfigured(configured_settings=configured, model_settings=settings, servers=servers, locations=places)
    )
    window = windows.open(server, width=width)
    open_section(window, "models")
    card = locate_card(window, "anthropic")
    expect(card).to_contain_text("Set in toolyard.toml:12. Change it there; here it is read-only.")
    expect(card.get_by_role("button")).to_have_text(["Test"])
    expect(window.page.get_by_text("toolyard.db.secret, which this server has made")).to_be_visible()
    window.page.get_by_role("link", name="Needs a restart").click()
    rows = window.page.get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="store")).to_contain_text("toolyard.toml:3")
    open_section(window, "servers")
    expect(locate_card(window, "near")).to_contain_text(
        "Set in toolyard.toml:20. Change it there; here it is read-only."
    )


def test_a_stored_entry_beside_one_of_the_file_is_shown_as_a_conflict_and_removed(
    windows: Windows, sites: ExitStack, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with start_unconfigured(store=store) as before:
        window = windows.open(before)
        open_section(window, "models/add")
        page = window.page
        pick(page.get_by_role("combobox", name="Provider"), "anthropic")
        fill(window, API_key="stored-key")
        window.button("Save").click()
        expect(locate_card(window, "anthropic")).to_contain_text("set here")
        page.goto("about:blank")
    entry = EntryId("providers", "anthropic")
    configured = {entry: ConfiguredEntry(value={"api_key": "***"}, location="toolyard.toml:12")}
    window = windows.open(sites.enter_context(start_unconfigured(store=store, configured_settings=configured)))
    open_section(window, "models")
    expect(locate_card(window, "anthropic")).to_contain_text("There are two of this name")
    window.button("Remove the one that is not used").click()
    expect(locate_card(window, "anthropic")).not_to_contain_text("There are two of this name")
    expect(locate_card(window, "anthropic")).to_contain_text("from the file")


@WIDTHS
def test_who_may_use_a_model_and_how_it_answers_and_what_is_wrong_is_said_at_its_field(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    windows.expected_complaint = "422"
    server = sites.enter_context(start_unconfigured())
    window = windows.open(server, width=width)
    open_section(window, "models")
    page = window.page
    page.get_by_role("region", name="Options and window").get_by_role("button", name="Add").click()
    fill(window, Model="openai:gpt-5", Temperature="7")
    window.button("Save").click()
    field = page.get_by_role("spinbutton", name="Temperature")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile(r"varied\). must be from 0 to 2$"))
    field.fill("0.5")
    fill(window, Context_window="9000")
    window.button("Save").click()
    options = page.get_by_role("region", name="Options and window").locator("li.card")
    expect(options.get_by_role("definition")).to_have_text(["0.5", "9000"])
    page.get_by_role("region", name="Who may use which").get_by_role("button", name="Add").click()
    fill(window, Model="openai:gpt-5", Roles="finance\nlegal")
    window.button("Save").click()
    access = page.get_by_role("region", name="Who may use which").locator("li.card")
    expect(access.get_by_role("definition")).to_have_text("finance, legal")
    access.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(access).to_have_count(0)


def test_whoever_is_too_late_sees_the_newer_value_and_a_changed_address_needs_the_key_again(
    windows: Windows, sites: ExitStack
) -> None:
    windows.expected_complaint = "4"  # 412 and 422
    server = sites.enter_context(start_unconfigured())
    first = windows.open(server)
    open_section(first, "models/add")
    pick(first.page.get_by_role("combobox", name="Provider"), "Another address")
    fill(first, Name_of_the_provider="shop", Address="http://127.0.0.1:9/v1", API_key="the-key")
    first.button("Save").click()
    expect(locate_card(first, "shop")).to_be_visible()
    expect(first.page.get_by_role("dialog")).to_have_count(0)  # or it would close the next one, once it is saved
    second = windows.open(server)
    for window in (first, second):
        open_section(window, "models")
        window.button("Edit shop").click()
    expect(locate_field(first, "API key")).to_have_attribute("placeholder", "stored")
    fill(first, Address="http://127.0.0.1:9/v2")
    first.button("Save").click()
    expect(first.page.get_by_role("dialog")).to_contain_text("was given for another address: send its value again")
    fill(first, API_key="the-key")
    first.button("Save").click()
    expect(locate_card(first, "shop")).to_contain_text("http://127.0.0.1:9/v2")
    fill(second, Address="http://127.0.0.1:9/v3", API_key="other-key")
    second.button("Save").click()
    newer = second.page.get_by_role("alert")
    expect(newer).to_contain_text("Somebody has changed this since you opened it.")
    expect(newer).to_contain_text("http://127.0.0.1:9/v2")
    second.button("Keep mine").click()
    second.button("Save").click()
    expect(locate_card(second, "shop")).to_contain_text("http://127.0.0.1:9/v3")


@WIDTHS
def test_servers_of_an_mcp_json_are_tested_added_trusted_and_removed(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    server = sites.enter_context(start_unconfigured(keys=KEYS))
    address = sites.enter_context(serve_mcp(server))
    window = open_signed_in(windows, server, ADMIN, width=width)
    page = window.page
    open_section(window, "servers/add")
    expect(window.button("By command")).to_have_count(0)  # with keys, commands are not added over HTTP
    window.button("From mcp.json").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("{not json")
    window.button("Test").click()
    expect(dialog.get_by_role("alert")).to_contain_text("This is not JSON")
    pasted = {"mcpServers": {"numbers": {"url": address, "headers": {"X-Key": "planted-secret"}}}}
    dialog.get_by_role("textbox").fill(json.dumps(pasted))
    window.button("Test").click()
    expect(dialog.get_by_role("status")).to_contain_text("numbers answers with")
    window.button("Add them").click()
    card = locate_card(window, "numbers")
    expect(card).to_contain_text("running")
    assert "planted-secret" not in page.content()
    card.get_by_role("button", name="Trust it").click()
    expect(card).to_contain_text("Trusted: its tools run by their own rules")
    pick(card.get_by_role("combobox", name="Changed tools"), "are used at once")
    expect(card).to_contain_text("Changed tools are used at once, without anybody reading the change.")
    card.get_by_role("button", name="Address and secrets: numbers").click()
    expect(locate_field(window, "Value of Headers 1")).to_have_attribute("placeholder", "stored")
    window.button("Cancel").click()
    card.get_by_role("button", name="Remove numbers").click()
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(card).to_have_count(0)


@WIDTHS
def test_all_tools_of_a_server_that_wait_are_accepted_or_rejected_at_once(
    windows: Windows, sites: ExitStack, tmp_path: Path, width: int
) -> None:
    plain = PlainServer(tmp_path)
    added: list[dict[str, object]] = []
    window = windows.open(sites.enter_context(start_unconfigured()), width=width)
    page = window.page
    open_section(window, "servers/add")
    window.button("By command").click()
    fill(window, Name="plain", Command=plain.spec.command, Arguments="\n".join(plain.spec.args))
    window.button("Test").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("plain answers with 9 tools")
    window.button("Add it").click()
    card = locate_card(window, "plain")
    expect(card).to_contain_text("Tools: 9")
    for name in ("one", "two"):
        added.append({"name": name, "description": "New.", "inputSchema": {"type": "object"}})
    plain.add_tools(*added)
    card.get_by_role("button", name="Restart").click()
    expect(card).to_contain_text("Changed tools that wait for you: 2")
    card.get_by_role("button", name="Accept all (2)").click()
    expect(card).to_contain_text("Tools: 11")


def test_an_administrator_signs_in_to_a_server_with_the_address_that_the_browser_shows(
    windows: Windows, sites: ExitStack
) -> None:
    server = sites.enter_context(start_unconfigured())
    address = sites.enter_context(serve_mcp(server, SIGNED))
    window = windows.open(server)
    page = window.page
    open_section(window, "servers/add")
    fill(window, Name="mail", Address=address)
    window.button("Test").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("a person has to sign in")
    window.button("Add it").click()
    window.button("Sign in to mail").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign in", exact=True).click()
    sign_in_page = page.get_by_role("link", name="Open the sign-in page").get_attribute("href")
    assert sign_in_page is not None
    answer = page.get_by_label("Address that the browser shows afterwards")
    answer.fill("http://127.0.0.1:9/callback?code=x&state=another")
    window.button("Finish").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not the address of that sign-in")
    answer.fill(read_redirect(sign_in_page))
    window.button("Finish").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Signed in")
    window.button("Close").click()
    expect(locate_card(window, "mail")).to_contain_text("running")


@WIDTHS
def test_the_page_notices_that_somebody_has_signed_in_to_a_server_in_a_new_tab(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    server = sites.enter_context(start_unconfigured())
    address = sites.enter_context(serve_mcp(server, SIGNED))
    server.run(server.yard.servers.add("mail", ServerSpec(url=address)))
    window = windows.open(server, width=width)
    page = window.page
    open_section(window, "servers")
    window.button("Sign in to mail").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="Open the sign-in page").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Signed in")
    window.button("Close").click()
    expect(locate_card(window, "mail")).to_contain_text("running")


@WIDTHS
def test_tenants_divisions_redaction_and_searches_are_set_on_the_page(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    keys = [build_key("tess", "admin", tenant="acme"), *KEYS]
    server = sites.enter_context(start_unconfigured(keys=keys, tools=[pay]))
    window = open_signed_in(windows, server, ADMIN, width=width)
    page = window.page
    open_section(window, "more")
    dialog, tenants = page.get_by_role("dialog"), page.get_by_role("region", name="Tenants")
    tenants.get_by_role("button", name="Add").click()
    fill(window, Name="acme", Prompt="Be kind.")
    dialog.get_by_label("Tools", exact=True).fill("pey")
    window.button("Save").click()
    expect(dialog).to_contain_text("which is not a tool")
    dialog.get_by_label("Tools", exact=True).fill("none")
    dialog.get_by_text("Limits", exact=True).click()
    dialog.get_by_label("Tokens per request").fill("500")
    dialog.get_by_text("Divisions of this tenant").click()
    division = dialog.get_by_role("group", name="Divisions of this tenant")
    division.get_by_role("button", name="Add a line").click()
    division.get_by_label("Name").fill("food")
    division.get_by_label("Language").fill("de")
    window.button("Save").click()
    expect(dialog).to_have_count(0)  # which is of the same region, and says this before it is saved
    expect(tenants).to_contain_text("Be kind.")
    stored = page.evaluate("fetch('/settings/tenants/acme').then((response) => response.json())")["setting"]["value"]
    assert stored == {
        "prompt": "Be kind.",
        "tools": "none",
        "limits": {"run_tokens": 500},
        "divisions": {"food": {"language": "de"}},
    }
    window.button("Edit Secrets in results").click()
    dialog.get_by_label("github_token").check()
    dialog.get_by_role("group", name="Own patterns").get_by_role("button", name="Add a line").click()
    dialog.get_by_label("Name of Own patterns 1").fill("staff")
    dialog.get_by_label("Value of Own patterns 1").fill(r"EMP-\d{6}")
    window.button("Save").click()
    expect(locate_card(window, "Secrets in results")).to_contain_text("github_token")
    window.button("Edit Web search").click()
    pick(dialog.get_by_label("Where to search"), "off")
    window.button("Save").click()
    expect(locate_card(window, "Web search")).to_contain_text("off")
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("navigation", name="Sections").get_by_role("link", name="More settings")).to_be_visible()
    tess = open_signed_in(windows, server, "tess", width=width)
    windows.expected_complaint = "4"  # also of 422, for the tool that there is not
    open_section(tess, "more")
    card = locate_card(tess, "acme")
    expect(card.get_by_role("button")).to_have_text(["Edit"])
    card.get_by_role("button").click()
    expect(tess.page.get_by_role("dialog").get_by_role("textbox")).to_have_count(2)
    tess.page.get_by_role("dialog").get_by_label("Prompt").fill("Be brief.")
    tess.button("Save").click()
    expect(card).to_contain_text("Be brief.")


def read_redirect(url: str) -> str:
    """Return where a page redirects to, without following it: nothing listens there."""
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc, timeout=30)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().headers["location"]


def test_administration_is_one_entry_that_plain_users_do_not_have(windows: Windows, sites: ExitStack) -> None:
    keys = [build_key("ann"), build_key("tess", "admin", tenant="t"), *KEYS]
    server = sites.enter_context(start_site(keys=keys))
    sections = {
        "ann": None,
        "tess": ["People and keys", "Audit log"],
        ADMIN: [
            "First steps",
            "Models",
            "MCP servers",
            "Tool rules",
            "Costs",
            "People and keys",
            "More settings",
            "Needs a restart",
            "Audit log",
        ],
    }
    for user, expected in sections.items():
        window = open_signed_in(windows, server, user)
        page = window.page
        window.button("More pages").click()
        expect(page.get_by_role("link", name="Administration")).to_have_count(int(expected is not None))
        open_section(window, "")
        if expected is None:
            expect(page.get_by_text("Administration is for administrators.")).to_be_visible()
        else:
            expect(page.get_by_role("navigation", name="Sections").get_by_role("link")).to_have_text(expected)


@WIDTHS
def test_a_user_signs_in_to_a_server_for_themselves_and_revokes_it(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    keys = [build_key("ann"), *KEYS]
    server = sites.enter_context(start_unconfigured(keys=keys))
    address = sites.enter_context(serve_mcp(server, SIGNED))
    spec = ServerSpec(url=address, auth="caller", trust=True)
    server.run(server.yard.servers.add("mail", spec))
    window = open_signed_in(windows, server, "ann", width=width)
    page = window.page
    page.goto(f"{server.url}/#/servers")
    connections = page.get_by_role("region", name="My connections")
    expect(connections).to_contain_text("You have not signed in to any server.")
    connections.get_by_role("button", name="Sign in to mail").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign in", exact=True).click()
    sign_in_page = page.get_by_role("link", name="Open the sign-in page").get_attribute("href")
    assert sign_in_page is not None
    page.get_by_label("Address that the browser shows afterwards").fill(read_redirect(sign_in_page))
    window.button("Finish").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("Signed in")
    window.button("Close").click()
    window.button("Revoke the connection to mail").click()
    expect(connections).to_contain_text("not signed in")
    expect(window.button("Revoke the connection to mail")).to_have_count(0)
