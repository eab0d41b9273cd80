"""Budgets and prices that an administrator makes, changes and removes on the page, and a run that waits for one."""

from contextlib import ExitStack

from msgspec.structs import replace
from playwright.sync_api import expect

from page.administration import open_section
from page.axe import run_axe
from page.site import start_site
from page.test_administration import locate_card
from page.test_sharing import open_signed_in
from page.window import Windows, pick
from surfaces.api_client import build_key
from toolyard.core.items import Usage
from toolyard.core.settings.prices import Price
from toolyard.testing import say

KEYS = [build_key("ann"), build_key("root", "admin", tenant="")]
SCENES = {"go": [replace(say("Here it is."), usage=Usage(input_tokens=1, output_tokens=5))]}
PRICES = {"given": Price(input=0.0, output=200_000)}
SECRET = "a secret of more than thirty characters"


def test_a_price_is_set_with_its_tools_and_tiers(windows: Windows, sites: ExitStack) -> None:
    server = sites.enter_context(start_site(SCENES, keys=KEYS, secret=SECRET))
    root = open_signed_in(windows, server, "root", width=375)
    open_section(root, "costs")
    dialog = root.page.get_by_role("dialog")
    prices = root.page.get_by_role("region", name="Prices")
    prices.get_by_role("button", name="Add").click()
    dialog.get_by_role("combobox", name="Model").fill("given")
    dialog.get_by_role("spinbutton", name="Input, per million tokens").fill("0")
    dialog.get_by_role("spinbutton", name="Output, per million tokens").fill("200000")
    dialog.get_by_text("More fields").click()
    tools = dialog.get_by_role("group", name="Provider's tools, per thousand uses")
    tools.get_by_role("button").click()
    tools.get_by_role("textbox", name="Name of").fill("web_search")
    tools.get_by_role("spinbutton", name="Value of").fill("10")
    dialog.get_by_text("Prices of long requests").click()
    tiers = dialog.get_by_role("group", name="Prices of long requests", exact=True)
    tiers.get_by_role("button", name="Add").click()
    tiers.get_by_role("spinbutton", name="Input, per million tokens").fill("1")
    tiers.get_by_role("spinbutton", name="Output, per million tokens").fill("2")
    tiers.get_by_role("spinbutton", name="Above").fill("-1")
    root.button("Save").click()
    expect(dialog.get_by_text("must be a whole number")).to_be_visible()
    tiers.get_by_role("spinbutton", name="Above").fill("200000")
    root.button("Save").click()
    expect(locate_card(root, "given")).to_contain_text("web_search 10")
    expect(locate_card(root, "given")).to_contain_text("above 200000")
    windows.expected_complaint = "4"  # 401 before the sign-in, and 422


def test_a_budget_is_set_with_errors_at_its_fields_and_a_run_waits_until_it_is_raised(
    windows: Windows, sites: ExitStack
) -> None:
    site = start_site(SCENES, keys=KEYS, secret=SECRET, prices=PRICES, reserve_output_tokens=5)
    server = sites.enter_context(site)
    root = open_signed_in(windows, server, "root", width=375)
    open_section(root, "costs")
    dialog = root.page.get_by_role("dialog")
    root.page.get_by_role("region", name="Budgets").get_by_role("button", name="Add").click()
    dialog.get_by_role("textbox", name="Name").fill("team")
    dialog.get_by_role("spinbutton", name="Amount").fill("-1")
    pick(dialog.get_by_role("combobox", name="When it is used up"), "wait until it is raised")
    dialog.get_by_role("combobox", name="Time zone").fill("Mars/Olympus")
    root.button("Save").click()
    expect(dialog.get_by_role("spinbutton", name="Amount")).to_have_attribute("aria-invalid", "true")
    expect(dialog.get_by_text("must be a number above 0")).to_be_visible()
    dialog.get_by_role("spinbutton", name="Amount").fill("0.5")
    root.button("Save").click()
    expect(dialog.get_by_text("is not a time zone")).to_be_visible()
    dialog.get_by_role("combobox", name="Time zone").fill("Europe/Zurich")
    dialog.get_by_role("combobox", name="Currency").fill("CHF")
    root.button("Save").click()
    expect(dialog.get_by_role("combobox", name="Currency")).to_have_attribute("aria-invalid", "true")
    assert run_axe(root.page) == []
    dialog.get_by_role("combobox", name="Currency").fill("")
    root.button("Save").click()
    expect(locate_card(root, "team")).to_contain_text("wait until it is raised")
    assert run_axe(root.page) == []

    ann = open_signed_in(windows, server, "ann", dark=True)
    ann.send("go")
    waiting = ann.page.get_by_text(
        "The budget team is used up. This goes on by itself when an administrator raises it."
    )
    expect(waiting).to_be_visible()
    expect(ann.page.get_by_text("Waiting for the budget team").first).to_be_visible()
    expect(ann.page.get_by_role("link", name="Raise it")).to_have_count(0)
    assert run_axe(ann.page) == []

    root.button("Edit team").click()
    dialog.get_by_role("spinbutton", name="Amount").fill("5")
    root.button("Save").click()
    expect(ann.answer).to_have_text("Here it is.")
    expect(waiting).to_have_count(0)

    root.button("Remove team").click()
    dialog.get_by_role("button", name="Remove").click()
    expect(locate_card(root, "team")).to_have_count(0)
    windows.expected_complaint = "4"  # 401 before the sign-in, and 422
