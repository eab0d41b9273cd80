"""What answers cost, who used how much, and what is left of a budget: as a person and an operator see it."""

import csv
import io
from contextlib import ExitStack

from msgspec.structs import replace
from playwright.sync_api import expect

from page.axe import run_axe
from page.site import start_site
from page.test_sharing import open_signed_in
from page.window import Window, Windows
from surfaces.api_client import build_key
from toolyard.core.items import Usage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price
from toolyard.testing import say

KEYS = [build_key("ann"), build_key("bob"), build_key("olga", "operator")]
SCENES = {
    "long": [replace(say("At length."), usage=Usage(input_tokens=1200, output_tokens=42))],
    "short": [replace(say("In short."), usage=Usage(input_tokens=800, output_tokens=3))],
}
PRICES = {"given": Price(input=0.0, output=100_000)}
BUDGETS = {
    "monthly": BudgetRule(amount=10.0, window="month", time_zone="UTC", scope="user", only=("ann",)),
    "small": BudgetRule(amount=1.2, window="total", scope="user", only=("bob",)),
    "team": BudgetRule(amount=500.0, window="total", scope="tenant"),
}


def check_total(window: Window, text: str) -> None:
    """Look up what the whole conversation has cost, which a phone shows in its menu."""
    window.button("Menu of this conversation").click()
    expect(window.page.get_by_role("link", name=text)).to_be_visible()
    window.page.keyboard.press("Escape")


def check_tight_budget(window: Window) -> None:
    """Find the sentence of a budget that is not nearly spent, and has no room for what two more answers may cost."""
    expect(window.answer).to_have_text("In short.")
    tight = "The budget small may have no room for another message: $0.90 of $1.20 is left"
    expect(window.page.get_by_role("status").filter(has_text=tight)).to_be_visible()


def test_costs_are_seen_below_answers_and_on_the_usage_page_and_a_budget_is_told_of_before_it_is_spent(
    windows: Windows, sites: ExitStack
) -> None:
    site = start_site(SCENES, keys=KEYS, prices=PRICES, budgets=BUDGETS, reserve_output_tokens=5)
    server = sites.enter_context(site)
    ann = open_signed_in(windows, server, "ann", width=375, dark=True)
    ann.send("long")
    expect(ann.answer).to_have_text("At length.")
    expect(ann.button("Stop")).to_be_hidden()
    expect(ann.page.locator(".spent, .budget-notice")).to_have_count(0)

    ann.page.goto(f"{server.url}/#/usage")
    expect(ann.page.locator(".figures")).to_contain_text("$4.20")
    expect(ann.page.get_by_role("button", name="By person")).to_have_count(0)
    budget = ann.page.get_by_role("row", name="monthly")
    expect(budget).to_contain_text("person ann · t")
    expect(budget.get_by_role("cell").first).to_have_text("$5.80")
    ann.page.get_by_role("group", name="Below each answer").get_by_role("button", name="Cost").click()
    assert run_axe(ann.page) == []

    ann.page.go_back()
    expect(ann.thread.get_by_role("link", name="This answer: $4.20")).to_be_visible()
    ann.send("long")
    expect(ann.thread.get_by_role("link", name="This answer: $4.20")).to_have_count(2)
    check_total(ann, "This conversation: $8.40")
    notice = ann.page.get_by_role("status").filter(has_text="budget")
    expect(notice).to_contain_text("84 % of the budget monthly is spent: $1.60 of $10.00 is left")
    assert run_axe(ann.page) == []
    notice.get_by_role("link").click()
    ann.button("Tokens").click()
    ann.page.go_back()
    expect(ann.thread.get_by_role("link", name="1,200 tokens in, 42 out")).to_have_count(2)

    bob = open_signed_in(windows, server, "bob")
    bob.send("short")
    check_tight_budget(bob)
    bob.page.goto(f"{server.url}/#/usage")
    expect(bob.page.locator(".figures")).to_contain_text("$0.30")

    olga = open_signed_in(windows, server, "olga")
    olga.page.goto(f"{server.url}/#/usage")
    people = olga.page.get_by_role("region", name="By person").get_by_role("row")
    expect(people).to_contain_text(["Person", "ann", "bob"])
    expect(people.nth(1)).to_contain_text("$8.40")
    olga.button("By model").click()
    expect(olga.page.get_by_role("row", name="given")).to_contain_text("$8.70")
    olga.button("By day").click()
    expect(olga.page.get_by_role("region", name="By day").get_by_role("row")).to_have_count(2)
    with olga.page.expect_download() as download:
        olga.page.get_by_role("link", name="Download CSV").click()
    lines = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8"))))
    assert {(line["user"], line["cost_micros"]) for line in lines} == {("ann", "8400000"), ("bob", "300000")}
    olga.page.get_by_role("textbox", name="From").fill("2020-01-01")
    olga.page.get_by_role("textbox", name="To").fill("2020-01-31")
    expect(olga.page.get_by_text("Nothing was used on these days.")).to_be_visible()
    olga.page.get_by_role("main").get_by_role("button", name="Mine").click()
    expect(olga.page.get_by_role("button", name="By person")).to_have_count(0)
