"""A trace in a real browser: what it cost, what went to the model, and the ways from and to its conversation."""

import json
import re
import shlex
from collections.abc import Generator

import pytest
from playwright.sync_api import expect

from page.site import HOLD, Site, start_site
from page.window import Windows
from toolyard import tool
from toolyard.core.ports import Model
from toolyard.core.settings.prices import Price
from toolyard.models.chat import OpenAIChat
from toolyard.testing import call, say
from wire.strict_chat import StrictChat, says

SECRET = "sk-very-secret-0123456789"
PRODUCTS = [{"name": "milk", "price": 2}, {"name": "bread", "price": 3}]
WITHOUT_CLIPBOARD = """() => {
    window.board = navigator.clipboard
    Object.defineProperty(navigator, "clipboard", { value: undefined })
}"""
"""As it is for a page that did not come over HTTPS, from another machine."""
SHOW = {
    "name": "show_products",
    "description": "Show products to the customer.",
    "parameters": {"type": "object", "properties": {"products": {"type": "array"}}},
}


@tool(read_only=True)
def stock() -> str:
    """What there is."""
    return "milk"


SCENES = {
    "what is there?": [call("show_products", products=PRODUCTS), say("These.")],
    "talk": [say("Once ", HOLD, "upon a time.")],
}


@pytest.fixture(scope="module")
def strict() -> StrictChat:
    return StrictChat(says("It's so."))


@pytest.fixture(scope="module")
def server(strict: StrictChat) -> Generator[Site]:
    """Beside the scenes there is a model behind a wire, at a price."""
    serving = strict.serving()
    addresses: list[str] = []

    def make_priced_model(name: str) -> Model:
        return OpenAIChat(base_url=addresses[0], model=name, api_key=SECRET)

    prices = {"priced": Price(input=10_000, output=20_000)}
    with start_site(SCENES, tools=[stock], named_model=make_priced_model, prices=prices, keep_requests=True) as site:
        addresses.append(site.run(serving.__aenter__()))
        yield site
        site.run(serving.__aexit__(None, None, None))


def test_what_a_run_cost_and_what_went_to_the_model_are_shown_and_copied(
    windows: Windows, server: Site, strict: StrictChat
) -> None:
    done = server.run(server.yard.execute("Isn't it?", model="priced"))
    window = windows.open(server)
    page = window.page
    page.goto(f"{server.url}/#/traces")
    page.get_by_label("Conversation id").fill(done.conversation)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Only this conversation")).to_be_visible()
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    page.locator("table.runs tbody tr").get_by_role("link").first.click()
    cost = (done.usage.input_tokens * 10_000 + done.usage.output_tokens * 20_000) / 1_000_000
    expect(page.get_by_text(re.compile(rf"^\$0*{cost:g}0*$"))).to_be_visible()
    page.locator(".waterfall .span").first.click()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".span-details").get_by_role("button", name="Copy as curl").click()
    words = shlex.split(window.read_clipboard("curl -N"))
    assert words[2].endswith("/chat/completions") and words[-2] == "-d"
    assert json.loads(words[-1]) == json.loads(strict.bodies[0]) and SECRET not in str(words)
    page.evaluate(WITHOUT_CLIPBOARD)
    page.get_by_role("button", name="Copy", exact=True).first.click()
    page.wait_for_function(
        "async (id) => await board.readText() === id", arg=page.get_by_role("heading", level=1).inner_text()
    )
    page.get_by_role("link", name="Conversation").click()
    expect(window.answer).to_have_text("It's so.")


def test_what_runs_is_seen_live_and_leads_to_its_trace_its_conversation_and_its_end(
    windows: Windows, server: Site
) -> None:
    window = windows.open(server)
    page = window.page
    window.send("talk")
    expect(window.answer).to_contain_text("Once")
    page.goto(f"{server.url}/#/live")
    card = page.locator(".card").filter(has_text="talk")
    expect(card.get_by_text("running", exact=True)).to_be_visible()
    card.get_by_role("link", name="Trace").click()
    expect(page.locator(".waterfall .span")).to_contain_text(["Turn 1"])
    expect(page.get_by_text("in progress")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Conversation").click()
    expect(window.answer).to_contain_text("Once")
    window.button("Stop").click()
    expect(window.thread.get_by_text("Stopped", exact=True)).to_be_visible()
    expect(window.button("Stop")).to_be_hidden()


def test_what_the_application_shows_is_drawn_here_too_and_a_result_may_be_handed_in(
    windows: Windows, server: Site
) -> None:
    """Also where the connection was lost: the result stays, and is sent once."""
    windows.expected_complaint = "ERR_INTERNET_DISCONNECTED"
    window = windows.open(server)
    body = {"messages": [{"role": "user", "content": "what is there?"}], "tools": [SHOW]}
    response = window.page.request.post(f"{server.url}/chat/v1/conversation", data=body)
    assert response.ok, response.text()
    window.page.goto(f"{server.url}/#/chat/{response.json()['conversationId']}")
    card = window.card("show_products")
    expect(card).to_contain_text("Show products runs in the application that asked")
    expect(card.get_by_role("cell", name="bread")).to_be_visible()
    card.get_by_role("button", name="Submit a result").click()
    result = card.get_by_role("textbox", name="Result")
    result.fill('{"shown": true}')
    window.page.context.set_offline(True)
    card.get_by_role("button", name="Submit a result").click()
    problem = card.get_by_role("alert")
    expect(problem).to_have_text("The server cannot be reached. Check the connection, then try again.")
    expect(result).to_have_value('{"shown": true}')
    window.page.context.set_offline(False)
    expect(problem).to_have_count(0)
    sent: list[str] = []
    window.page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/result") else None)
    card.get_by_role("button", name="Submit a result").dblclick()
    expect(window.answer).to_have_text("These.")
    expect(card.get_by_role("cell", name="bread")).to_be_visible()
    assert len(sent) == 1
