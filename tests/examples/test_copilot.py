"""The board in a real browser, over AG-UI: a tool of the page, an approval with edits, a reload in mid-answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from types import ModuleType

import pytest
import pytest_asyncio
from msgspec import Struct
from playwright.async_api import Browser, Page, expect

from examples.browser import launch_browser, open_window
from examples.loading import build_once, load_module
from surfaces.http_server import serve_app
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Result
from toolyard.core.ports import Model, ModelRequest
from toolyard.testing import Scripted, call, say, together

pytestmark = pytest.mark.asyncio(loop_scope="module")


class BuiltBoard(Struct, frozen=True):
    """The example, whose page is built, and a browser."""

    example: ModuleType
    browser: Browser

    @asynccontextmanager
    async def open(self, model: Model | None = None) -> AsyncGenerator[Page, None]:
        """Serve the board as its command does, and open its page."""
        yard = self.example.build_yard() if model is None else self.example.build_yard(model)
        async with (
            asyncio.timeout(120),
            self.example.open_app(yard) as app,
            serve_app(app) as url,
            open_window(self.browser) as window,
        ):
            page = await window.new_page()
            await page.goto(url)
            yield page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def board() -> AsyncGenerator[BuiltBoard, None]:
    example = load_module("copilot")
    await asyncio.to_thread(build_once, "copilot", example.build_page)
    async with launch_browser() as browser:
        yield BuiltBoard(example, browser)


async def send_message(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def test_a_tool_of_the_page_runs_in_the_page_and_the_answer_goes_on(board: BuiltBoard) -> None:
    model = Scripted(
        [together(call("add_card", title="Milk"), call("add_card", title="Bread")), say("Both are there.")]
    )
    async with board.open(model) as page:
        await send_message(page, "Add milk and bread")
        await expect(page.get_by_text("Both are there.")).to_be_visible()
        await expect(page.locator("#board li")).to_have_text(["Milk", "Bread"])
        await page.reload()
        await expect(page.get_by_text("Both are there.")).to_be_visible()


async def test_an_approval_may_change_the_arguments(board: BuiltBoard) -> None:
    model = Scripted([together(call("remind", what="milk"), call("remind", what="tea")), say("As you wish.")])
    async with board.open(model) as page:
        await send_message(page, "Remind me")
        await expect(page.get_by_text("remind waits for an approval")).to_be_visible()
        await page.get_by_label("Arguments").fill('{"what": "bread"}')
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_label("Arguments")).to_have_value('{"what":"tea"}')
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_text("As you wish.")).to_be_visible()
    first, second = [item.content for item in model.requests[-1].history if isinstance(item, Result)]
    assert "a reminder of bread will be sent" in first and "denied_by_user" in second


class HoldingModel:
    """A model that waits in the middle of its answer until it is told to go on."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.requests = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self.requests += 1
        async with aclosing(Scripted([say("First half, ", "second half.")]).stream(request)) as events:
            async for event in events:
                if isinstance(event, TextAppended) and event.offset:
                    await self.go_on.wait()
                yield event

    async def close(self) -> None:
        pass


async def test_a_page_that_is_reloaded_in_mid_answer_follows_it(board: BuiltBoard) -> None:
    model = HoldingModel()
    async with board.open(model) as page:
        await send_message(page, "Talk")
        await expect(page.get_by_text("First half,")).to_be_visible()
        await page.reload()
        await expect(page.locator("#thread .assistant")).to_have_text("First half, ")
        model.go_on.set()
        await expect(page.get_by_text("First half, second half.")).to_be_visible()
        await expect(page.locator("#thread p")).to_have_count(2)
    assert model.requests == 1


async def test_without_a_model_the_board_proposes_and_asks(board: BuiltBoard) -> None:
    async with board.open() as page:
        await send_message(page, "add a card water the plants")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.locator("#board li")).to_have_text(["water the plants"])
