"""A provider's list of models: it answers only at its own path, and only to a request with its key."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from tcp_servers import serve_web_app


def openai_list(*names: str) -> bytes:
    """The list as OpenAI, Anthropic and most others have it."""
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in names]}).encode()


def gemini_list(**methods: list[str]) -> bytes:
    """Google's list: each model with the methods that it has."""
    models = [
        {"name": f"models/{name.replace('_', '-')}", "supportedGenerationMethods": supported}
        for name, supported in methods.items()
    ]
    return json.dumps({"models": models}).encode()


class StrictModelList:
    """Serves `body`, or an error with `status`. Another path or method, or a missing header, is refused."""

    def __init__(self, path_and_query: str, headers: Mapping[str, str], body: bytes) -> None:
        self._path_and_query = path_and_query
        self._headers = headers
        self.body = body
        self.status = 200
        self.paths: list[str] = []
        self.refusals: list[str] = []
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    def hold(self) -> None:
        """Keep requests waiting until `release`."""
        self._may_answer.clear()

    def release(self) -> None:
        self._may_answer.set()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str, None]:
        """Yield the address, without a path."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with serve_web_app(app) as url:
            yield url

    async def _answer(self, received: web.Request) -> web.Response:
        self.paths.append(received.path_qs)
        await self._may_answer.wait()
        if (received.method, received.path_qs) != ("GET", self._path_and_query):
            return self._refuse(404, f"{received.method} {received.path_qs}")
        for name, value in self._headers.items():
            if received.headers.get(name) != value:
                return self._refuse(401, f"{name}: {received.headers.get(name)}")
        if self.status != 200:
            return web.Response(status=self.status, text=str(dict(received.headers)))
        return web.Response(body=self.body, content_type="application/json")

    def _refuse(self, status: int, fault: str) -> web.Response:
        self.refusals.append(fault)
        return web.Response(status=status, text="no")
