"""Takes the pictures of docs/images: the main views with something in them. `make screenshots` runs it."""

import asyncio
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from playwright.sync_api import Page, sync_playwright

from chromium import FLAGS, find_chromium
from page.administration import start_unconfigured
from page.site import Scenes, Site, start_site
from support import append_entries, claim_epoch
from toolyard import Settings, Yard, tool
from toolyard.core.conversation.events import CallEnded, Entry
from toolyard.core.conversation.state import State
from toolyard.core.items import Result
from toolyard.engine.access.authentication import LOCAL_ADMIN
from toolyard.observability.figures import FigureRecorder
from toolyard.observability.telemetry import Observers
from toolyard.stores.sqlite import SqliteStore
from toolyard.testing import Scripted, Turn, call, say, together

IMAGES = Path(__file__).parents[2] / "docs" / "images"


@tool(examples=["What do we need for pancakes?"], read_only=True)
def search_recipes(dish: str) -> list[dict[str, object]]:
    """Find recipes by the name of a dish."""
    return [
        {"ingredient": "flour", "amount": "250 g", "at home": "yes"},
        {"ingredient": "milk", "amount": "500 ml", "at home": "no"},
        {"ingredient": "eggs", "amount": "3", "at home": "no"},
    ]


@tool(examples=["Add milk to the groceries"])
def add_to_groceries(item: str, qty: int = 1) -> dict[str, object]:
    """Put an item on the grocery list."""
    if item == "saffron":
        raise ValueError("the shop does not have it")
    return {"ok": True, "item": item, "qty": qty}


@tool(approval="ask", examples=["Order everything on the list"])
def place_order(shop: str, items: list[str], budget: float = 20.0, express: bool = False) -> str:
    """Order groceries for delivery. It costs money, so somebody says yes first."""
    return f"ordered {len(items)} items at {shop}"


@tool(read_only=True, examples=["Is the oven on?"])
def home_state(room: str) -> dict[str, str]:
    """The state of the things in a room."""
    return {"room": room, "oven": "off"}


TOOLS = [search_recipes, add_to_groceries, place_order, home_state]
ANSWER = """You need **500 ml of milk** and **3 eggs**; there is flour at home. I have put both on the list.

| | for 4 people | at home |
|---|---|---|
| flour | 250 g | yes |
| milk | 500 ml | no |
| eggs | 3 | no |

```python
def batter(people: int) -> dict[str, float]:
    return {"flour_g": 62.5 * people, "milk_ml": 125 * people, "eggs": 0.75 * people}
```
"""
PANCAKES = "What do we need for pancakes? Add what is missing to the list."
ORDER = "Order it for tonight, please."
SCENES: Scenes = {
    PANCAKES: [
        call("search_recipes", dish="pancakes"),
        together(call("add_to_groceries", item="milk"), call("add_to_groceries", item="eggs", qty=3)),
        say(ANSWER),
    ],
    ORDER: [
        together(
            say("The bakery on the corner delivers until eight. Shall I?"),
            call("place_order", shop="Corner bakery", items=["milk", "eggs"], budget=12.5),
        ),
        say("Ordered."),
    ],
}
STORED = {
    "providers/openai": {"api_key": "a-key-that-nobody-sees"},
    "providers/house": {"base_url": "http://127.0.0.1:8000/v1", "api_key": "another"},
    "general/model": ["openai:gpt-5-mini", "house:qwen3"],
    "model_access/openai:*": {"roles": ["finance", "sales"]},
}
"""The settings of the picture of the administration, by their paths."""
TITLES = ("Is the oven on?", "Milk and saffron", "Leek soup for Sunday")
DAY: Sequence[Sequence[Turn]] = (
    [call("home_state", room="kitchen"), say("It is off.")],
    [together(call("add_to_groceries", item="milk"), call("add_to_groceries", item="saffron")), say("One of two.")],
    [call("search_recipes", dish="soup"), call("add_to_groceries", item="leek"), say("Done.")],
)


async def seed(path: Path) -> None:
    """A day of runs: a few real ones, told again as if they had happened earlier and taken longer."""
    chance = random.Random(7)
    async with Yard(tools=TOOLS, model=Scripted([turn for turns in DAY for turn in turns])) as yard:
        logs: list[Sequence[Entry]] = []
        for title in TITLES:
            run = yard.run(title, settings=Settings(title=title))
            async for _ in run:
                pass
            logs.append(await yard.service.conversations.read_entries(run.conversation))
        now = yard.service.clock.now()
    store = await SqliteStore.open(path)
    figures = FigureRecorder(
        store, lambda: now, lambda work: asyncio.create_task(work), lambda _: State(owner=LOCAL_ADMIN)
    )
    for number in range(160):
        hour = chance.choice([*range(2, 9), *range(3, 7), *range(10, 14), 16, 18, 22])
        shift = hour * 3600 + chance.random() * 3600
        entries = shift_entries(chance.choice(logs), f"conversation_{number}", now - shift, chance)
        await append_entries(store, entries[0].conversation, await claim_epoch(store, entries[0].conversation), entries)
        Observers(figures.handlers).observe(entries)
    await figures.close()
    await store.close()


def shift_entries(entries: Sequence[Entry], id: str, start: float, chance: random.Random) -> list[Entry]:
    """Return the entries as those of another conversation, which began at another time."""
    at, shifted = start, list[Entry]()
    for entry in entries:
        at += chance.expovariate(1 / 0.4)
        event = entry.event
        if isinstance(event, CallEnded):
            result: Result = replace(event.result, duration_ms=chance.lognormvariate(4.5, 0.8))
            event = CallEnded(result=result)
        run = f"{entry.run}_{id}" if entry.run else ""
        shifted.append(replace(entry, conversation=id, at=at, run=run, epoch=1, event=event, correlation_id=f"t_{id}"))
    return shifted


def take_screenshots(page: Page, server: Site) -> None:
    def save_picture(name: str) -> None:
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.screenshot(path=IMAGES / f"{name}.png")

    def send(text: str) -> None:
        box = page.get_by_role("textbox", name="Write a message")
        box.fill(text)
        box.press("Enter")

    page.goto(server.url)
    send(PANCAKES)
    page.get_by_role("button", name="Stop").wait_for(state="hidden")
    page.locator(".hljs-keyword").first.wait_for()
    save_picture("chat")
    send(ORDER)
    page.get_by_role("button", name="Edit").wait_for()
    page.emulate_media(color_scheme="dark")
    page.reload()
    page.get_by_role("button", name="Edit").click()
    save_picture("approval-dark")
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Approve with changes").click()
    page.get_by_text("Ordered.").wait_for()
    page.get_by_role("link", name="Trace", exact=True).click()
    page.locator("table.runs tbody tr").nth(1).get_by_role("link").first.click()
    page.locator(".waterfall .span").nth(1).click()
    save_picture("trace")
    page.goto(f"{server.url}/#/tools/add_to_groceries")
    page.get_by_label("item").fill("oranges")
    page.get_by_text("Last error").wait_for()
    save_picture("tools")
    page.goto(f"{server.url}/#/overview")
    page.locator(".uplot canvas").nth(4).wait_for()
    save_picture("overview")


def take_administration_picture(page: Page, server: Site) -> None:
    """Show models that are set in the page, on a server whose file sets none."""
    for path, value in STORED.items():
        assert page.request.put(f"{server.url}/settings/{path}", data={"value": value}).ok
    page.goto(f"{server.url}/#/administration/models")
    page.get_by_text("finance").wait_for()
    page.screenshot(path=IMAGES / "administration.png")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(seed(Path(folder) / "day.db"))
        store = f"sqlite:///{folder}/day.db"
        with sync_playwright() as playwright, start_site(SCENES, tools=TOOLS, store=store) as server:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
            take_screenshots(page, server)
            with start_unconfigured(tools=TOOLS) as unconfigured:
                take_administration_picture(page, unconfigured)
            browser.close()


if __name__ == "__main__":
    main()
