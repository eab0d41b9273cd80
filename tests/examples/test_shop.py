"""The shop in a real browser: what is said in the chat changes the cart, draws cards and moves the page."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from client.drivers import build_package
from examples.browser import page_of
from examples.loading import load_module
from surfaces.http_server import serve_app
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Result
from toolyard.core.ports import Model, ModelRequest
from toolyard.testing import Scripted, call, say, together

SHOP = Path(__file__).parents[2] / "examples" / "shop"
TRAIL = """window.trail = [];
new MutationObserver(() => {
  const page = document.querySelector("main[data-page]")?.dataset.page;
  if (page && page !== window.trail.at(-1)) window.trail.push(page);
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-page"] });"""
"""Notes every page that is shown."""


@asynccontextmanager
async def open_shop(folder: Path, model: Model | None = None) -> AsyncGenerator[Page, None]:
    """Serve the shop as its command does, and open its page."""
    build_package()
    shop = load_module("shop")
    yard = shop.build_yard() if model is None else shop.build_yard(model)
    async with (
        asyncio.timeout(120),
        shop.open_app(yard, folder / "shop.db") as app,
        serve_app(app) as url,
        page_of(url, TRAIL) as page,
    ):
        yield page


async def send_message(page: Page, text: str) -> None:
    """Wait for the answer before, as its button tells, and say something."""
    await expect(page.locator("main[data-page]")).to_be_visible()
    await expect(page.locator("#chat .said").first).to_be_visible()
    await expect(page.locator("#chat-send")).to_have_text("Send")
    await page.get_by_label("Message").fill(text)
    await page.get_by_label("Message").press("Enter")


async def wait_for_pages(page: Page, *places: str) -> None:
    """Wait until these pages were shown, one after the other."""
    await page.wait_for_function("(places) => String(window.trail) === String(places)", arg=places)


@pytest.mark.proves("000.display-tools")
async def test_milk_and_bread_get_into_the_cart_cards_appear_and_the_page_moves(tmp_path: Path) -> None:
    search_turn = together(call("search_products", query="milk"), call("search_products", query="bread"))
    add_turn = together(call("add_to_cart", code="01001"), call("add_to_cart", code="02001"))
    show_turn = together(call("show_cart"), call("open_cart"))
    model = Scripted([search_turn, add_turn, show_turn, say("I've added ", "both to your cart!")])
    async with open_shop(tmp_path, model) as page:
        chat = page.locator("#chat")
        await send_message(page, "Add milk and bread to my cart")
        await expect(chat.get_by_text("I've added both to your cart!")).to_be_visible()
        await expect(page.locator("#cart-count")).to_have_text("2")
        await expect(chat.locator(".cart-card .name")).to_have_text(["Full Cream Milk", "White Bread"])
        await expect(page.locator("main .line .name")).to_have_text(["Full Cream Milk", "White Bread"])
        await wait_for_pages(page, "home", "cart")


async def test_calls_that_run_side_by_side_are_both_known_after_a_reload(tmp_path: Path) -> None:
    model = Scripted([together(call("add_to_cart", code="07011"), call("add_to_cart", code="09011")), say("Done!")])
    async with open_shop(tmp_path, model) as page:
        routes: list[Route] = []

        async def hold_route(route: Route) -> None:
            """The first is answered when both are under way."""
            routes.append(route)
            if len(routes) == 2:
                for each_route in routes:
                    await each_route.continue_()

        await page.goto(f"{page.url.partition('#')[0]}#/cart")
        await page.reload()  # where no product is known yet
        await page.route("**/api/products/0*", hold_route)
        await send_message(page, "Add milk and bread to my cart")
        await expect(page.locator("#chat").get_by_text("Done!")).to_be_visible()
        noted_count = await page.evaluate("() => JSON.parse(localStorage.getItem('grocer.calls')).length")
        assert (len(routes), noted_count) == (2, 2)


async def test_without_a_model_the_customer_chooses_and_the_rest_is_done(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as page:
        chat, count = page.locator("#chat"), page.locator("#cart-count")
        await send_message(page, "Add milk to my cart")
        await expect(chat.get_by_text("Which “milk” do you mean?")).to_have_count(1)
        await send_message(page, "1")
        await expect(count).to_have_text("1")
        await send_message(page, "Add milk and bread to my cart")
        await expect(chat.get_by_text("Which “milk” do you mean?")).to_have_count(2)
        await send_message(page, "1")
        await expect(chat.get_by_text("Which “bread” do you mean?")).to_have_count(1)
        await send_message(page, "1")
        await expect(count).to_have_text("3")
        await send_message(page, "Show me my cart")
        await expect(chat.locator(".cart-card .name")).to_have_text(["Full Cream Milk", "White Bread"])
        await expect(chat.get_by_text("This is the cart: €4.87 in all.")).to_be_visible()
        await send_message(page, "Show me cheese")
        await expect(chat.locator(".cards .card")).to_have_count(6)
        await send_message(page, "Remove the bread")
        await expect(count).to_have_text("2")
        await send_message(page, "Take me to checkout")
        await expect(page.locator("main[data-page=checkout] h1")).to_have_text("Checkout")
        await wait_for_pages(page, "home", "checkout")


@pytest.mark.proves("000.navigation-tools")
async def test_eight_tools_move_the_page_and_the_model_is_told_where_it_is(tmp_path: Path) -> None:
    places = ["search", "category", "product", "cart", "checkout", "orders", "account", "home"]
    arguments = {"search": {"query": "milk"}, "category": {"category": "dairy"}, "product": {"code": "01001"}}
    steps = [call(f"open_{page_name}", **arguments.get(page_name, {})) for page_name in places]
    model = Scripted([*steps, call("open_category", category="Cars"), say("There.")])
    async with open_shop(tmp_path, model) as page:
        await send_message(page, "Show me around")
        await expect(page.locator("#chat").get_by_text("There.")).to_be_visible()
        await wait_for_pages(page, "home", *places)
    results = [item for item in model.requests[-1].history if isinstance(item, Result)]
    assert results[1].content == '{"page":"category","argument":"Dairy"}'
    assert results[-1].error is not None and results[-1].error.error == "there is no category Cars"


async def test_what_the_shop_refuses_the_model_is_told_and_the_cart_stays_as_it_is(tmp_path: Path) -> None:
    model = Scripted(
        [together(call("add_to_cart", code="99999"), call("remove_from_cart", code="01001")), say("Sorry.")]
    )
    async with open_shop(tmp_path, model) as page:
        await send_message(page, "Add caviar")
        await expect(page.locator("#chat").get_by_text("Sorry.")).to_be_visible()
        await expect(page.locator("#chat .step.badly")).to_have_count(2)
        await expect(page.locator("#cart-count")).to_have_text("0")
    error_texts = [item.error.error for item in model.requests[1].history if isinstance(item, Result) and item.error]
    assert error_texts == ["there is no product 99999", "Error: there is no product 01001 in the cart"]


class StallingModel:
    """A model that begins and does not go on."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        yield TextAppended(turn=request.turn, offset=0, text="Well,")
        await asyncio.Event().wait()

    async def close(self) -> None: ...


async def test_the_customer_stops_the_assistant_and_goes_on(tmp_path: Path) -> None:
    async with open_shop(tmp_path, StallingModel()) as page:
        await send_message(page, "Tell me a story")
        await expect(page.locator("#chat").get_by_text("Well,")).to_be_visible()
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator("#chat").get_by_text("Stopped.")).to_be_visible()
        await expect(page.get_by_role("button", name="Send")).to_be_visible()


async def test_a_customer_can_do_without_the_assistant(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as page:
        await page.get_by_label("Search products").fill("dark chocolate")
        await page.get_by_label("Search products").press("Enter")
        await expect(page.locator("main[data-page=search]")).to_be_visible()
        await page.locator("main .card", has_text="Dark Chocolate").first.get_by_role("button", name="Add").click()
        await page.get_by_role("link", name="Cart").first.click()
        await page.get_by_role("button", name="More Dark Chocolate").click()
        await expect(page.locator("#cart-count")).to_have_text("2")
        await page.get_by_role("link", name="Go to checkout").click()
        await page.get_by_label("Name").fill("Ann")
        await page.get_by_label("Address").fill("1 High Street")
        await page.get_by_role("button", name="Place order").click()
        await expect(page.locator("main[data-page=orders]")).to_contain_text("2 × Dark Chocolate")
        await page.reload()
        await expect(page.locator("main[data-page=orders]")).to_contain_text("Order 1001")


async def test_no_more_than_there_is_gets_into_the_cart(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as page:
        """Of one product there are three."""
        await page.get_by_role("link", name="Meat and fish").click()
        add = page.locator("main[data-page=category] button.add[data-stock='3']")
        for words in ("Add", "Add · 1", "Add · 2"):
            await expect(add).to_have_text(words)
            await add.click()
        await expect(add).to_have_text("No more")
        await page.get_by_role("link", name="Cart").first.click()
        await expect(page.get_by_role("button", name="More")).to_be_disabled()
        await page.get_by_role("button", name="Less").click()
        await page.get_by_role("button", name="More").click()
        await expect(page.locator("#cart-count")).to_have_text("3")


async def test_two_tabs_have_one_cart(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as page:
        await expect(page.locator("main .card").first).to_be_visible()
        async with page.expect_popup() as opened:
            await page.evaluate("void window.open(location.href)")
        other = await opened.value
        await other.locator("main .card button.add").first.click()
        await expect(page.locator("#cart-count")).to_have_text("1")
        await page.locator("main .card button.add").nth(1).click()
        await expect(other.locator("#cart-count")).to_have_text("2")


async def test_a_page_that_is_loaded_anew_goes_on_where_it_was_and_no_call_runs_twice(tmp_path: Path) -> None:
    """The result of a call is lost with the page; the page that comes back is handed the call again."""
    model = Scripted([call("add_to_cart", code="01001"), say("It is in your cart."), say("You are welcome.")])
    async with open_shop(tmp_path, model) as page:

        async def lose(route: Route) -> None:
            if "toolResults" in (route.request.post_data or ""):
                lost.set()  # it stays on its way until the page has gone
            else:
                await route.continue_()

        lost = asyncio.Event()
        await page.route("**/chat/v1/conversation", lose)
        await send_message(page, "Add milk")
        await lost.wait()
        await page.unroute("**/chat/v1/conversation")
        await page.reload()
        await expect(page.locator("#chat .said", has_text="Add milk")).to_have_count(1)
        await expect(page.locator("#chat .said", has_text="It is in your cart.")).to_have_count(1)
        await expect(page.locator("#cart-count")).to_have_text("1")
        await send_message(page, "Thanks")
        await expect(page.locator("#chat").get_by_text("You are welcome.")).to_be_visible()
        await page.reload()
        await expect(page.locator("#chat .said:not(.mine)")).to_have_count(3)


def test_the_catalogue_is_some_hundreds_of_products_and_the_same_every_time(tmp_path: Path) -> None:
    write_catalogue = load_module("shop", "make_catalogue").write_catalogue
    counts = [write_catalogue(tmp_path / name) for name in ("one.db", "two.db")]
    rows: list[list[tuple[object, ...]]] = []
    for name in ("one.db", "two.db"):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            rows.append(connection.execute("SELECT * FROM products ORDER BY code").fetchall())
    assert rows[0] == rows[1] and counts[0] == len(rows[0]) > 300
    assert len({row[0] for row in rows[0]}) == counts[0] and {row[6] == 0 for row in rows[0]} == {True, False}
