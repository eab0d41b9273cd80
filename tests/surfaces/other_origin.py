"""A page that another server serves, in a real browser, and the server that it uses."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from playwright.async_api import Browser, Page

from examples.browser import open_window
from surfaces.http_server import serve_app
from toolyard import Yard, tool
from toolyard.app import Wiring
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.testing import Scripted, call, say

ANN = Key(name="ann", hash=hash_key("ann-secret"), user="ann", tenant="t")


@tool
def add_to_groceries(item: str, qty: int = 1) -> dict[str, object]:
    """Put an item on the grocery list."""
    return {"ok": True, "id": "notion-id-123", "item": item}


@dataclass
class Backend:
    """A server behind which a page of another origin waits, and the methods and paths that it was asked for."""

    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


async def serve_front_end(scope: Mapping[str, object], receive: object, send: Callable[..., Awaitable[None]]) -> None:
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send(
        {"type": "http.response.body", "body": b"<!doctype html><title>AiChat</title><link rel=icon href=data:,>"}
    )


@asynccontextmanager
async def open_page_of_another_origin(
    browser: Browser, *, allowed_origin: str = "its own", keys: list[Key] | None = None, expected: str = "nothing"
) -> AsyncGenerator[tuple[Page, Backend], None]:
    """Open a page of one server and let it use another one that allows its origin, or `allowed_origin` instead."""
    backend = Backend()
    model = Scripted(lambda request: say("ok") if len(request.history) > 1 else call("add_to_groceries", item="milk"))
    async with asyncio.timeout(60), serve_app(serve_front_end) as front_end:
        origins = frozenset({front_end if allowed_origin == "its own" else allowed_origin})
        wiring = Wiring(model=model, tools=(add_to_groceries,), cors_origins=origins, keys=keys or [])
        async with Yard.from_wiring(wiring) as yard:
            app = yard.asgi()

            async def record_request(scope: dict[str, object], receive: object, send: object) -> None:
                backend.requests.append((str(scope["method"]), str(scope["path"])))
                await app(scope, receive, send)  # pyright: ignore[reportArgumentType]

            async with serve_app(record_request) as backend.url, open_window(browser, expected) as window:
                page = await window.new_page()
                await page.goto(front_end)
                yield page, backend
