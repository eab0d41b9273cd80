"""The chat of the AI SDK in a real browser, with `useChat` and with assistant-ui, on the tools of the household."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from msgspec import Struct
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from examples.browser import launch_browser, open_window
from examples.loading import build_once, load_module
from page.site import HOLD, Site
from surfaces.http_server import serve_app
from toolyard.core.conversation.events import Entry, RunEnded
from toolyard.core.items import ModelText, Result, UserMessage
from toolyard.testing import call, fail, say, together
from toolyard.yard import LOCAL_CALLER, Yard

TEST_S = 90.0
LIGHT = call("ha_service_call", domain="light", service="turn_off", entity_id="light.kitchen")
SCENES = {
    "Talk": [say("First half, ", HOLD, "second half.")],
    "Add milk and bread": [
        together(say("I add both."), call("add_to_groceries", item="milk"), call("add_to_groceries", item="bread")),
        say("Both are on the list."),
    ],
    "Lights out": [LIGHT, say("That is that.")],
    "Lights out, slowly": [LIGHT, say("It is ", HOLD, "off.")],
    "Fail": [fail("the model is out")],
}
pytestmark = pytest.mark.asyncio(loop_scope="module")


class SceneModel(Site):
    """A model that plays scenes, and keeps what it is asked for."""

    def __init__(self) -> None:
        super().__init__(SCENES, asyncio.get_running_loop())


class ServedChat(Struct, frozen=True):
    """The example as its command serves it, and a browser."""

    url: str
    yard: Yard
    model: SceneModel
    browser: Browser


class ChatWindow:
    """A window of a visitor who uses the chat."""

    def __init__(self, chat: ServedChat, context: BrowserContext) -> None:
        self.chat = chat
        self._context = context

    async def open_tab(self, path: str = "") -> "Tab":
        page = await self._context.new_page()
        await page.goto(f"{self.chat.url}/{path}")
        return Tab(page)


class Tab:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.answers = page.locator("article.assistant")

    async def send(self, text: str) -> None:
        await self.page.get_by_label("Message", exact=True).fill(text)
        await self.press("Send")

    async def press(self, button: str) -> None:
        await self.page.get_by_role("button", name=button, exact=True).first.click()

    def find_cards(self, tool: str) -> Locator:
        return self.page.get_by_role("group", name=tool)

    async def expect_messages(self, *texts: str) -> None:
        """Return once exactly these texts are shown: a message of two paragraphs has two."""
        await expect(self.page.locator("article > p")).to_have_text(list(texts))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chat() -> AsyncGenerator[ServedChat, None]:
    example = load_module("react-chat")
    await asyncio.to_thread(build_once, "react-chat", example.build_pages)
    model = SceneModel()
    yard = example.build_yard(model)
    async with launch_browser() as browser, example.open_app(yard) as app, serve_app(app) as url:
        yield ServedChat(url, yard, model, browser)


@pytest_asyncio.fixture(loop_scope="module")
async def window(chat: ServedChat) -> AsyncGenerator[ChatWindow, None]:
    chat.model.requests.clear()
    async with open_window(chat.browser) as context:
        yield ChatWindow(chat, context)


async def test_a_text_is_shown_and_is_still_there_after_a_reload(window: ChatWindow) -> None:
    tab = await window.open_tab()
    await tab.send("Hello")
    await tab.expect_messages("Hello", "You said: Hello")
    await tab.page.reload()
    await tab.expect_messages("Hello", "You said: Hello")


async def test_two_tools_run_in_parallel_and_have_cards(window: ChatWindow) -> None:
    tab = await window.open_tab()
    await tab.send("Add milk and bread")
    await tab.expect_messages("Add milk and bread", "I add both.", "Both are on the list.")
    cards = tab.find_cards("add_to_groceries")
    await expect(cards).to_contain_text(['done{"item":"milk"}', 'done{"item":"bread"}'])
    await cards.first.get_by_text("Result").click()
    await expect(cards.first.get_by_text('"ok": true')).to_be_visible()


@pytest.mark.parametrize(
    ("edits", "button", "state", "result"),
    [
        ({}, "Approve", "done", "light.turn_off light.kitchen"),
        ({"light.kitchen": "light.bath"}, "Approve", "done", "light.turn_off light.bath"),
        ({}, "Deny", "denied", "denied_by_user"),
    ],
    ids=["granted", "edited", "denied"],
)
async def test_an_approval_is_answered(
    window: ChatWindow, edits: dict[str, str], button: str, state: str, result: str
) -> None:
    tab = await window.open_tab()
    await tab.send("Lights out")
    card = tab.find_cards("ha_service_call")
    await expect(card).to_contain_text("needs your approval")
    for old, new in edits.items():
        arguments = await card.get_by_label("Arguments").input_value()
        await card.get_by_label("Arguments").fill(arguments.replace(old, new))
    await tab.press(button)
    await tab.expect_messages("Lights out", "That is that.")
    await expect(card).to_contain_text(state)
    (returned,) = [item.content for item in window.chat.model.requests[-1].history if isinstance(item, Result)]
    assert result in returned


async def test_a_failure_is_said_in_words_and_the_chat_goes_on(window: ChatWindow) -> None:
    tab = await window.open_tab()
    await tab.send("Fail")
    await expect(tab.page.get_by_role("alert")).to_contain_text("the model is out")
    await tab.send("And now?")
    await expect(tab.page.get_by_text("You said: And now?")).to_be_visible()
    await expect(tab.page.get_by_role("alert")).to_have_count(0)


async def test_stop_ends_the_run_at_the_server(window: ChatWindow) -> None:
    tab = await window.open_tab()
    await tab.send("Talk")
    await expect(tab.answers).to_contain_text("First half,")
    await tab.press("Stop")
    await tab.send("And now?")  # a run that went on would keep this one waiting
    await tab.expect_messages("Talk", f"First half, {HOLD}", "And now?", "You said: And now?")


@pytest.mark.parametrize(
    ("text", "seen", "answer"),
    [("Talk", "First half,", f"First half, {HOLD}second half."), ("Lights out, slowly", "It is", f"It is {HOLD}off.")],
    ids=["an answer", "an answer after an approval"],
)
@pytest.mark.parametrize("ends_meanwhile", [False, True], ids=["goes on", "ended meanwhile"])
async def test_a_reload_in_mid_answer_resumes_to_the_same_message(
    window: ChatWindow, text: str, seen: str, answer: str, ends_meanwhile: bool
) -> None:
    tab = await window.open_tab()
    await tab.send(text)
    if text != "Talk":
        await tab.press("Approve")
    await expect(tab.answers).to_contain_text(seen)
    asked = len(window.chat.model.requests)
    if ends_meanwhile:
        await tab.page.goto("about:blank")
        await finish_answer(window.chat)
        await tab.page.goto(window.chat.url)
    else:
        await tab.page.reload()
        await expect(tab.answers).to_contain_text(seen)
        window.chat.model.resume()
    await tab.expect_messages(text, answer)
    await expect(tab.answers).to_have_count(1)
    assert len(window.chat.model.requests) == asked


async def finish_answer(chat: ServedChat) -> None:
    """Let the model go on, and return once the open run has ended."""
    service = chat.yard.service
    conversations = [conversation.id for conversation in await service.conversations.list_cards(LOCAL_CALLER)]
    (open_conversation,) = [id for id in conversations if (await service.conversations.view(id)).run is not None]
    reader = await chat.yard.follow(open_conversation)
    chat.model.resume()
    async with asyncio.timeout(TEST_S):
        async for item in reader:
            if isinstance(item, Entry) and isinstance(item.event, RunEnded):
                break
    reader.detach()


async def test_a_message_is_edited_and_answered_again(window: ChatWindow) -> None:
    tab = await window.open_tab()
    await tab.send("One")
    await tab.expect_messages("One", "You said: One")
    await tab.send("Two")
    await tab.expect_messages("One", "You said: One", "Two", "You said: Two")
    await tab.press("Edit")
    await expect(tab.page.get_by_label("Message", exact=True)).to_have_value("One")
    await tab.send("Three")
    await tab.expect_messages("Three", "You said: Three")
    await tab.press("Try again")
    await expect(tab.page.get_by_role("button", name="Try again")).to_be_visible()
    await tab.expect_messages("Three", "You said: Three")
    histories = [request.history for request in window.chat.model.requests]
    texts = [[item.text for item in history if isinstance(item, UserMessage | ModelText)] for history in histories]
    assert texts == [["One"], ["One", "You said: One", "Two"], ["Three"], ["Three"]]


async def test_two_tabs_show_one_run(window: ChatWindow) -> None:
    first = await window.open_tab()
    await first.send("Lights out, slowly")
    await expect(first.find_cards("ha_service_call")).to_contain_text("needs your approval")
    second = await window.open_tab()
    await second.press("Approve")
    await expect(second.answers).to_contain_text("It is")
    await first.press("Approve")  # the same answer again: it follows the run
    await expect(first.answers).to_contain_text("It is")
    window.chat.model.resume()
    for tab in (first, second):
        await tab.expect_messages("Lights out, slowly", f"It is {HOLD}off.")
    assert len(window.chat.model.requests) == 2


async def test_assistant_ui_has_a_conversation_with_a_tool_and_an_approval(window: ChatWindow) -> None:
    tab = await window.open_tab("assistant-ui.html")
    await tab.send("Add milk and bread")
    await tab.expect_messages("Add milk and bread", "I add both.", "Both are on the list.")
    await expect(tab.find_cards("add_to_groceries")).to_contain_text(['done{"item":"milk"}', 'done{"item":"bread"}'])
    await tab.send("Lights out")
    card = tab.find_cards("ha_service_call")
    await expect(card).to_contain_text("needs your approval")
    await tab.press("Approve")
    await expect(card).to_contain_text("done")
    shown = ["Add milk and bread", "I add both.", "Both are on the list.", "Lights out", "That is that."]
    await tab.expect_messages(*shown)
    await tab.page.get_by_role("link", name="useChat").click()
    await tab.expect_messages(*shown)
