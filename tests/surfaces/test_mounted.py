"""A yard inside somebody else's application: mounted under a path, it answers there as it does alone."""

import asyncio

import aiohttp
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from ports import listen
from toolyard import Yard
from toolyard.testing import Scripted, say


async def test_a_yard_mounted_in_an_application_answers_under_its_path() -> None:
    async def home(request: Request) -> PlainTextResponse:
        return PlainTextResponse("the shop")

    shop = Starlette()
    shop.add_route("/", home)
    async with asyncio.timeout(30), Yard(model=Scripted([say("hel", "lo")])) as yard:
        shop.mount("/assistant", yard.asgi())
        server = uvicorn.Server(uvicorn.Config(shop, lifespan="off", log_config=None))
        listening = listen()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            await check_answers(f"http://127.0.0.1:{listening.getsockname()[1]}")
        finally:
            server.should_exit = True
            await serving


async def check_answers(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/") as answer:
            assert await answer.text() == "the shop"
        async with session.get(f"{url}/assistant/healthz") as answer:
            assert answer.status == 200 and (await answer.json())["status"] == "ok"
        async with session.post(f"{url}/assistant/ai/respond", json={"prompt": "hi"}) as answer:
            body = await answer.text()
            assert answer.status == 200 and '"content":"hel"' in body and '"ending":"done"' in body
        async with session.get(f"{url}/assistant/nowhere") as answer:
            assert answer.status == 404 and (await answer.json())["error_type"] == "not_found"


async def test_a_yard_that_is_not_open_yet_says_so_to_whoever_asks() -> None:
    app = Yard(model=Scripted([])).asgi()

    async def nothing() -> dict[str, object]:
        return {}

    async def ignore(message: object) -> None: ...

    with pytest.raises(Exception, match="not open"):
        (await app({"type": "http"}, nothing, ignore))  # pyright: ignore[reportArgumentType]
