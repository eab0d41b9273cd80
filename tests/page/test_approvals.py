"""Approvals as people read them: values under labels, several alike at once, and the decisions so far."""

from contextlib import ExitStack
from datetime import date, datetime
from typing import Annotated, Literal

import pytest
from playwright.sync_api import expect
from pydantic import BaseModel, Field

from page.site import Site, start_site
from page.window import Windows
from support import wait_until
from toolyard import tool
from toolyard.testing import Turn, call, say

WIDTHS = pytest.mark.parametrize("width", [1200, 375], ids=["desktop", "phone"])
LETTER = "Dear customer, " + "we thank you for your patience. " * 30 + "The end of the letter."
PAID: list[str] = []


class Line(BaseModel):
    article: str = Field(title="What for")
    received: date


@tool(title="Pay an invoice", approval="ask")
def pay_invoice(
    invoice_number: Annotated[str, Field(title="Invoice", description="As printed on it")],
    due: date,
    urgent: bool,
    way: Literal["bank", "cash"],
    letter: str = "",
    remind: date | datetime | None = None,
    days: list[date] = [],  # noqa: B006
    lines: list[Line] = [],  # noqa: B006
) -> str:
    """Pay an invoice of a supplier. It costs money and cannot be taken back."""
    PAID.append(invoice_number)
    return f"paid {invoice_number}"


PAYMENT = {"invoice_number": "R-17", "due": "2026-03-01", "urgent": True, "way": "bank", "letter": LETTER}
LISTED = {
    "remind": "2026-02-27T10:00:00",
    "days": ["2026-03-02", "2026-03-03"],
    "lines": [{"article": "Flour", "received": "2026-02-03"}],
}
SCENES: dict[str, list[Turn]] = {
    "pay in parts": [call("pay_invoice", **PAYMENT, **LISTED), say("Paid.")],
    "pay": [call("pay_invoice", **PAYMENT), say("Paid.")],
    **{
        f"pay {number}": [call("pay_invoice", **{**PAYMENT, "invoice_number": number, "letter": ""}), say("Paid.")]
        for number in ("A", "B", "C")
    },
}


@pytest.fixture
def server(sites: ExitStack) -> Site:
    PAID.clear()
    return sites.enter_context(start_site(SCENES, tools=[pay_invoice]))


@WIDTHS
def test_values_are_under_labels_and_the_json_is_one_click_away(windows: Windows, server: Site, width: int) -> None:
    window = windows.open(server, width=width)
    window.send("pay")
    card = window.card("Pay an invoice")
    expect(card.get_by_text("Pay an invoice: may it run?", exact=True)).to_be_visible()
    expect(card.get_by_text("Pay an invoice of a supplier.", exact=True)).to_be_visible()
    expect(card).to_contain_text("waits for your decision, asked")
    labels, values = card.get_by_role("term"), card.get_by_role("definition")
    expect(labels).to_contain_text(["Invoice", "Due", "Urgent", "Way", "Letter"])
    expect(labels.first).to_contain_text("As printed on it")
    expect(values.nth(0)).to_have_text("R-17")
    expect(values.nth(1)).to_have_text("Sunday, March 1, 2026")
    expect(values.nth(2)).to_have_text("Yes")
    end = values.nth(4).get_by_text("The end of the letter.")
    expect(end).to_be_hidden()
    values.nth(4).locator("summary").click()
    expect(end).to_be_visible()
    assert values.nth(4).inner_text().count("Dear customer") == 1  # the whole takes the place of its beginning
    expect(card.locator("pre")).to_have_count(0)
    card.get_by_role("button", name="As JSON").click()
    expect(card.locator("pre")).to_contain_text('"due": "2026-03-01"')
    assert window.page.evaluate("() => document.querySelector('.thread').scrollWidth") <= width
    card.get_by_role("button", name="Edit").click()
    assert card.get_by_label("Letter").evaluate("(field) => field.tagName") == "TEXTAREA"
    card.get_by_role("textbox", name="Invoice").fill("R-18")
    expect(card.get_by_role("group", name="Changes")).to_have_text("InvoiceR-17R-18")
    card.get_by_role("button", name="Approve").click()
    expect(window.answer).to_have_text("Paid.")
    assert PAID == ["R-18"]


def test_dates_are_dates_in_lists_and_where_a_time_may_stand_too(windows: Windows, server: Site) -> None:
    window = windows.open(server)
    window.send("pay in parts")
    card = window.card("Pay an invoice")
    remind, days, lines = (card.get_by_role("definition").nth(index) for index in (5, 6, 7))
    expect(remind).to_contain_text("Friday, February 27, 2026 at 10:00")
    expect(days.get_by_role("listitem")).to_have_text(["Monday, March 2, 2026", "Tuesday, March 3, 2026"])
    line = lines.get_by_role("listitem")
    expect(line.get_by_role("term")).to_have_text(["What for", "Received"])
    expect(line.get_by_role("definition")).to_have_text(["Flour", "Tuesday, February 3, 2026"])
    card.get_by_role("button", name="Edit").click()
    expect(card.get_by_role("textbox", name="Remind")).to_have_value("2026-02-27T10:00:00")


@WIDTHS
def test_several_alike_are_approved_at_once_and_each_is_in_the_history(
    windows: Windows, server: Site, width: int
) -> None:
    window = windows.open(server, width=width)
    page = window.page
    window.send("pay")
    card = window.card("Pay an invoice")
    card.get_by_role("button", name="Deny").click()
    card.get_by_role("textbox", name="Reason").fill("it was paid in May")
    card.get_by_role("button", name="Deny").click()
    expect(window.answer).to_have_text("Paid.")
    for number in ("A", "B", "C"):
        window.start_chat()
        window.send(f"pay {number}")
        expect(window.card("Pay an invoice")).to_contain_text("waits for your decision")
    page.goto(f"{server.url}/#/inbox")
    expect(window.card("Pay an invoice", 2)).to_be_visible()
    window.button("Approve all 3").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    server.run(wait_until(lambda: len(PAID) == 3))  # calls that were approved have yet to run
    assert sorted(PAID) == ["A", "B", "C"]
    page.get_by_text("Decisions so far").click()
    decisions = page.get_by_role("main").get_by_role("listitem").filter(has_text="Pay an invoice")
    expect(decisions).to_have_count(4)
    expect(decisions.last).to_contain_text("denied")
    expect(decisions.last).to_contain_text("it was paid in May")
    expect(decisions.first).to_contain_text("approved")
    expect(decisions.first).to_contain_text("local")
    decisions.get_by_role("link", name="pay C").click()  # which of them came last is not said
    expect(window.answer).to_have_text("Paid.")
