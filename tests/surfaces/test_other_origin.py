"""A front end that another server serves, as the seed draws it: port 3000 asks port 8080, in a real browser."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from playwright.async_api import Page

from examples.browser import page_of
from surfaces.served import serve_app
from toolyard import Yard, tool
from toolyard.app import Wiring
from toolyard.core.store import Key
from toolyard.engine.authentication import hash_key
from toolyard.testing import Scripted, call, say

ASK = """async ([url, headers]) => {
  const answer = await fetch(`${url}/ai/respond`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify({ prompt: "Add milk to groceries", mode: "tools+chat" }),
  })
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) text += piece.value
  const events = text.split("\\n").filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice(6)))
  return { status: answer.status, correlation: answer.headers.get("x-correlation-id"), events }
}"""
TRY = """([url, headers]) => fetch(`${url}/ai/respond`, {
  method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: '{"prompt": "x"}',
}).then((answer) => `answered ${answer.status}`, (error) => `failed: ${error.name}`)"""
ANN = Key(name="ann", hash=hash_key("ann-secret"), user="ann", tenant="t")
SIGNED_IN = {"Authorization": "Bearer ann-secret"}


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
    *, allowed_origin: str = "its own", keys: list[Key] | None = None, expected: str = "nothing"
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

            async with serve_app(record_request) as backend.url, page_of(front_end, expected=expected) as page:
                yield page, backend


@pytest.mark.proves("003.front-end-elsewhere")
@pytest.mark.parametrize(("keys", "headers"), [([], {}), ([ANN], SIGNED_IN)], ids=["no key", "key"])
async def test_a_page_of_a_listed_origin_is_preflighted_and_reads_the_stream(
    keys: list[Key], headers: dict[str, str]
) -> None:
    async with open_page_of_another_origin(keys=keys) as (page, backend):
        answer = await page.evaluate(ASK, [backend.url, headers])
        assert answer["status"] == 200 and answer["correlation"]
        assert [(event["type"], event.get("state")) for event in answer["events"]] == [
            ("tool.status", "started"), ("tool.status", "finished"), ("text.delta", None), ("done", None),
        ]  # fmt: skip
        assert backend.requests == [("OPTIONS", "/ai/respond"), ("POST", "/ai/respond")]


async def test_an_error_can_be_read_by_the_page_as_well() -> None:
    async with open_page_of_another_origin(keys=[ANN], expected="401") as (page, backend):
        assert await page.evaluate(TRY, [backend.url, {"Authorization": "Bearer wrong"}]) == "answered 401"


@pytest.mark.parametrize(
    ("allowed_origin", "keys"), [("https://other.example", []), ("https://other.example", [ANN]), ("*", [])]
)
async def test_a_page_of_an_origin_that_is_not_listed_gets_nothing_and_does_nothing(
    allowed_origin: str, keys: list[Key]
) -> None:
    async with open_page_of_another_origin(allowed_origin=allowed_origin, keys=keys, expected="") as (page, backend):
        assert await page.evaluate(TRY, [backend.url, SIGNED_IN]) == "failed: TypeError"
        assert backend.requests == [("OPTIONS", "/ai/respond")]


async def test_a_star_lists_every_origin_where_a_key_is_needed() -> None:
    async with open_page_of_another_origin(allowed_origin="*", keys=[ANN]) as (page, backend):
        answer = await page.evaluate(ASK, [backend.url, SIGNED_IN])
        assert answer["status"] == 200 and answer["events"][-1]["type"] == "done"
