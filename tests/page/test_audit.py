"""The audit log on the page: read, filtered, verified and saved by administrators, and seen by nobody else."""

import json
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from page.site import Site, start_site
from page.test_sharing import open_signed_in
from page.window import Window, Windows, pick
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.core.store.audit_chain import AuditAction, AuditOutcome, AuditRecord, seal_record
from toolyard.stores.memory import MemoryStore
from toolyard.testing import call, say
from venues.mcp.plain import PlainServer

KEYS = [build_key("root", "admin", tenant=""), build_key("ada", "admin"), build_key("olga", "operator", "approver")]
WIDTHS = {"desktop": 1200, "phone": 375}


@tool(approval="ask")
def sell(item: str) -> str:
    """Sell it."""
    return f"{item} is sold"


SCENES = {"sell it": [call("sell", item="milk"), say("Sold.")]}


@pytest.fixture
def server(sites: ExitStack, tmp_path: Path) -> Site:
    plain = PlainServer(tmp_path, trust=True)
    return sites.enter_context(start_site(SCENES, tools=[sell], servers={"plain": plain.spec}))


def write(store: MemoryStore, action: AuditAction, target: str, **fields: object) -> None:
    entries = store._data.audit  # pyright: ignore[reportPrivateUsage]
    record = AuditRecord(at=time.time(), action=action, target=target, actor="ann", tenant="t")
    entries.append(seal_record(replace(record, **fields), entries[-1] if entries else None))


@pytest.fixture(scope="module")
def filled() -> Generator[Site]:
    """A server with 250 entries: 245 keys, and the last five of other kinds."""
    store = MemoryStore()
    for number in range(1, 246):
        write(store, "key.add", f"key-{number}", at=time.time() - 90_000)
    refused: AuditOutcome = "refused"
    write(store, "key.revoke", "key-1", actor="bob", tenant="elsewhere")
    write(store, "key.revoke", "key-1", actor="bob", tenant="elsewhere", outcome=refused, cause=246)
    write(store, "sign_in.refuse", "", actor="", tenant="", address="10.0.0.9", outcome=refused, count=1234)
    write(store, "config.load", "rules:1a2b", actor="", tenant="")
    write(store, "preset.save", "ann/mine")
    with start_site(keys=KEYS, opened_store=store) as site:
        yield site


def open_audit(windows: Windows, server: Site, name: str = "", **how: object) -> Window:
    window = open_signed_in(windows, server, name, **how) if name else windows.open(server, **how)  # pyright: ignore[reportArgumentType]
    window.page.goto(f"{server.url}/#/audit")
    expect(window.page.get_by_role("heading", name="Audit log")).to_be_visible()
    return window


def locate_rows(page: Page) -> Locator:
    return page.locator("table.audit tbody tr")


@pytest.mark.parametrize("width", WIDTHS.values(), ids=list(WIDTHS))
def test_what_people_do_is_listed_and_leads_to_where_it_was_done(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    page = window.page
    window.send("sell it")
    window.card("sell").get_by_role("button", name="Approve").click()
    expect(window.answer).to_have_text("Sold.")
    conversation = page.url.rpartition("/")[2]
    window.go_to("servers")  # whose button has the name of that of a chat
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("stopped", exact=True)).to_be_visible()
    page.goto(f"{server.url}/#/audit")
    rows = locate_rows(page)
    expect(rows.nth(0)).to_contain_text("server.stop")
    expect(rows.nth(1)).to_contain_text("call.approve")
    page.wait_for_function("(width) => document.querySelector('main').scrollWidth <= width", arg=width)
    rows.nth(0).get_by_role("link", name="plain").click()
    expect(page.get_by_role("heading", name="Servers")).to_be_visible()
    page.go_back()
    rows.nth(1).get_by_role("link", name=conversation).click()
    expect(window.answer).to_have_text("Sold.")


def test_pages_of_a_hundred_follow_each_other_without_a_gap(windows: Windows, filled: Site) -> None:
    page = open_audit(windows, filled, "root").page
    rows, more = locate_rows(page), page.get_by_role("button", name="Earlier entries")
    expect(rows).to_have_count(100)
    more.click()
    expect(rows).to_have_count(200)
    more.click()
    expect(rows).to_have_count(250)
    expect(more).to_have_count(0)
    numbers = [int(number) for number in rows.locator("td:last-child").all_inner_texts()]
    assert numbers == list(range(250, 0, -1))


def test_entries_are_filtered_by_action_actor_outcome_and_time(windows: Windows, filled: Site) -> None:
    page = open_audit(windows, filled, "root").page
    rows = locate_rows(page)
    page.get_by_label("Action").click()
    expect(page.get_by_role("option")).to_have_text(["any", *get_args(AuditAction)])
    page.keyboard.press("Escape")
    pick(page.get_by_label("Action"), "key.revoke")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("refused of no. 246")
    pick(page.get_by_label("Outcome"), "allowed")
    expect(rows).to_have_count(1)
    pick(page.get_by_label("Action"), "any")
    pick(page.get_by_label("Outcome"), "any")
    page.get_by_label("Actor").fill("bob")
    expect(rows).to_have_count(2)
    page.get_by_label("Actor").fill("nobody")
    expect(page.get_by_text("No entries found.")).to_be_visible()
    page.get_by_label("Actor").fill("")
    pick(page.get_by_label("Time"), "24 hours")
    expect(rows).to_have_count(5)
    expect(rows.filter(has_text="config.load")).to_contain_text("the server")
    expect(rows.filter(has_text="sign_in.refuse")).to_contain_text("1,234")
    expect(rows.filter(has_text="sign_in.refuse")).not_to_contain_text("the server")


def test_an_entry_leads_to_its_conversation_only_if_the_reader_may_see_it(windows: Windows, sites: ExitStack) -> None:
    store = MemoryStore()
    for action in ("call.approve", "original.read", "message.delete"):
        write(store, action, f"conv_1/{action}", actor_tenant="t")
    write(store, "share.create", "conv_2/share_1", actor="ada", actor_tenant="t")
    keys = [*KEYS, build_key("oda", "admin", "operator"), build_key("rex", "admin", "operator", tenant="")]
    server = sites.enter_context(start_site(keys=keys, opened_store=store))
    for name, links in (("ada", ["conv_2"]), ("oda", ["conv_2", "conv_1", "conv_1", "conv_1"]), ("rex", [])):
        page = open_audit(windows, server, name).page
        expect(locate_rows(page)).to_have_count(4)
        assert locate_rows(page).get_by_role("link").all_inner_texts() == links, name
        expect(locate_rows(page).filter(has_text="original.read")).to_contain_text("conv_1/original.read")


def test_the_selected_entries_are_saved_as_lines_of_json(windows: Windows, filled: Site) -> None:
    page = open_audit(windows, filled, "root").page
    for choice, count in (("any", 250), ("key.revoke", 2)):
        pick(page.get_by_label("Action"), choice)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Download").click()
        assert saved.value.suggested_filename == "audit.jsonl"
        entries = [json.loads(line) for line in Path(saved.value.path()).read_text().splitlines()]
        assert len(entries) == count and all(len(entry["hash"]) == 64 for entry in entries)
        assert [entry["number"] for entry in entries] == sorted((entry["number"] for entry in entries), reverse=True)


def test_the_chain_is_verified_by_a_button_and_a_change_is_told(windows: Windows, sites: ExitStack) -> None:
    store = MemoryStore()
    for number in range(1204):
        write(store, "key.add", f"key-{number}")
    server = sites.enter_context(start_site(opened_store=store))
    page = open_audit(windows, server).page
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("status").filter(has_text="1,204 entries, chain intact")).to_be_visible()
    entries = store._data.audit  # pyright: ignore[reportPrivateUsage]
    entries[3] = replace(entries[3], actor="mallory")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("alert")).to_contain_text("The chain is broken: entry 4 was changed")


def test_an_administrator_of_a_tenant_sees_its_entries_and_no_button_for_the_chain_of_all(
    windows: Windows, filled: Site
) -> None:
    page = open_audit(windows, filled, "ada").page
    pick(page.get_by_label("Time"), "24 hours")
    expect(locate_rows(page)).to_have_count(1)
    expect(locate_rows(page)).to_contain_text("preset.save")
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    expect(page.get_by_role("button", name="Verify")).to_have_count(0)


def test_a_viewer_without_the_role_sees_neither_the_entry_in_the_menu_nor_data(windows: Windows, filled: Site) -> None:
    asked: list[str] = []
    window = open_signed_in(windows, filled, "olga")
    page = window.page
    page.on("request", lambda request: asked.append(request.url))
    window.button("More pages").click()
    expect(page.get_by_role("link", name="Overview")).to_be_visible()
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("Audit")
    expect(page.get_by_text("Nothing found.")).to_be_visible()
    page.keyboard.press("Escape")
    page.goto(f"{filled.url}/#/audit")
    expect(page.get_by_text("The audit log is for administrators.")).to_be_visible()
    expect(page.get_by_role("table")).to_have_count(0)
    assert not [url for url in asked if "/audit?" in url or "/audit/" in url]


def test_the_page_speaks_the_other_languages(windows: Windows, filled: Site) -> None:
    for locale, button, title, verify in (
        ("de", "Anmelden", "Prüfprotokoll", "Prüfen"),
        ("zh", "登录", "审计日志", "验证"),
    ):
        windows.expected_complaint = "401"
        page = windows.open(filled, locale=locale).page
        page.locator("input").first.fill("root")
        page.get_by_role("button", name=button, exact=True).click()
        page.goto(f"{filled.url}/#/audit")
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        expect(page.get_by_role("button", name=verify)).to_be_visible()
        expect(locate_rows(page)).to_have_count(100)
