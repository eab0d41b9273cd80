"""A yard inside somebody else's application: mounted under a path, it answers there as it does alone."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import pytest
import uvicorn
from fastapi import FastAPI
from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from surfaces.http_server import serve_app
from toolyard import Yard
from toolyard.core.errors import Misconfigured
from toolyard.hosting import Message
from toolyard.testing import Scripted, say

Asgi = Callable[..., Awaitable[None]]


class ClosingModel(Scripted):
    """A scripted model that counts how often it was closed: a yard closes it once each time that it is closed."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1


def mount_in_fastapi(app: Asgi) -> Asgi:
    host = FastAPI()
    host.mount("/assistant", app)
    return host


def mount_in_starlette(app: Asgi) -> Asgi:
    host = Starlette()
    host.mount("/assistant", app)
    return host


def mount_in_litestar(app: Asgi) -> Asgi:
    @asgi("/assistant", is_mount=True, copy_scope=True)
    async def assistant(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)

    return Litestar([assistant], openapi_config=None)


def serve_directly(app: Asgi) -> Asgi:
    return app


def run_host(app: Asgi, lifespan: str, check: Callable[[str], Awaitable[None]]) -> None:
    """Serve an application in an event loop of its own, as uvicorn does, until the check has ended."""

    async def serve() -> None:
        config = uvicorn.Config(app, lifespan=lifespan, log_config=None)  # pyright: ignore[reportArgumentType]
        async with asyncio.timeout(30), serve_app(app, config) as url:
            await check(url)

    asyncio.run(serve())


async def get_status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as answer:
        return answer.status


def serve_with_lifespan(yard: Yard) -> AbstractAsyncContextManager[str]:
    return serve_app(yard.asgi(), uvicorn.Config(yard.asgi(), lifespan="on", log_config=None))


HOSTS = {
    "FastAPI": (mount_in_fastapi, "/assistant"),
    "Starlette": (mount_in_starlette, "/assistant"),
    "Litestar": (mount_in_litestar, "/assistant"),
    "uvicorn": (serve_directly, ""),
}


@pytest.mark.parametrize("lifespan", ["on", "off"])
@pytest.mark.parametrize("host", HOSTS)
async def test_a_yard_that_nobody_has_opened_is_opened_once_by_its_requests_and_closed_at_exit(
    host: str, lifespan: str, tmp_path: Path
) -> None:
    mount, path = HOSTS[host]
    model = ClosingModel([say("hel", "lo")])
    # The file of a store is open in one process once: a second opening of the yard would be refused.
    yard = Yard(model=model, store=f"sqlite:///{tmp_path}/yard.db")

    async def check(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            statuses = await asyncio.gather(*(get_status(session, f"{url}{path}/readyz") for _ in range(10)))
            assert statuses == [200] * 10
            async with session.post(f"{url}{path}/ai/respond", json={"prompt": "hi"}) as answer:
                assert answer.status == 200 and '"ending":"done"' in await answer.text()
            assert not model.closed

    await asyncio.to_thread(run_host, mount(yard.asgi()), lifespan, check)
    assert model.closed == 1


async def test_an_application_may_serve_a_yard_again_after_it_was_closed(tmp_path: Path) -> None:
    model = ClosingModel([])
    app = Yard(model=model, store=f"sqlite:///{tmp_path}/yard.db").asgi()

    async def check(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            assert await get_status(session, f"{url}/readyz") == 200

    for lifespan in ("on", "off", "on"):
        await asyncio.to_thread(run_host, app, lifespan, check)
    assert model.closed == 3


async def test_a_host_with_lifespan_has_the_yard_open_before_the_first_request_and_closed_at_its_own_end() -> None:
    model = ClosingModel([say("hello")])
    yard = Yard(model=model)
    async with asyncio.timeout(30), serve_with_lifespan(yard) as url, aiohttp.ClientSession() as session:
        assert await get_status(session, f"{url}/readyz") == 200
        assert await yard.ask("hi") == "hello"
    assert model.closed == 1
    with pytest.raises(Misconfigured, match="not open"):
        yard.run("hi")


async def test_a_yard_that_is_open_already_is_joined_and_stays_open() -> None:
    model = ClosingModel([say("hello")])
    async with asyncio.timeout(30), Yard(model=model) as yard:
        async with serve_with_lifespan(yard) as url, aiohttp.ClientSession() as session:
            assert await get_status(session, f"{url}/readyz") == 200
        assert await yard.ask("hi") == "hello"
        assert not model.closed
    assert model.closed == 1


async def test_a_yard_is_not_opened_a_second_time_while_it_is_open() -> None:
    async with Yard(model=Scripted([say("hello")])) as yard:
        with pytest.raises(Misconfigured, match="open already"):
            await yard.__aenter__()
        assert await yard.ask("hi") == "hello"


async def test_a_yard_that_cannot_be_opened_fails_the_start_of_its_host_and_a_request_without_one() -> None:
    app = Yard(model="nowhere:model").asgi()
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "nowhere" in str(sent)
    for _ in range(2):
        with pytest.raises(Misconfigured, match="nowhere"):
            await app({"type": "http"}, receive, send)


async def test_a_yard_mounted_in_an_application_answers_under_its_path() -> None:
    async def home(request: Request) -> PlainTextResponse:
        return PlainTextResponse("the shop")

    shop = Starlette()
    shop.add_route("/", home)
    async with asyncio.timeout(30), Yard(model=Scripted([say("hel", "lo")])) as yard:
        shop.mount("/assistant", yard.asgi())
        async with serve_app(shop) as url:
            await check_answers(url)


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
