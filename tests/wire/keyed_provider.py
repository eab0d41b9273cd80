"""A provider of chat completions that asks for its key, lists its models, and keeps the keys that it was sent."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

from tcp_servers import serve_web_app
from wire.local import streaming
from wire.reply_bytes import DONE, STOP, chunk, piece


class KeyedProvider:
    """Answers `text` to requests with one of its keys, and 401 to others."""

    def __init__(self, text: str, *keys: str, models: tuple[str, ...] = ("small", "large")) -> None:
        self.text = text
        self.keys = set(keys)
        self.models = models
        self.sent_keys: list[str] = []
        """The key of each request, in order; empty for none."""
        self.bodies: list[dict[str, object]] = []
        self.first_call = ""
        """The tool that the answer to a single message calls, without arguments; empty for none."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Yield the base URL."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_get("/v1/models", self._list)
        async with serve_web_app(app) as url:
            yield f"{url}/v1"

    def _refuse(self, request: web.Request) -> web.Response | None:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.sent_keys.append(key)
        if key in self.keys:
            return None
        error = {"message": f"the key {key} is wrong", "type": "invalid_request_error", "code": "invalid_api_key"}
        return web.json_response({"error": error}, status=401)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refuse(request):
            return refusal
        self.bodies.append(body := json.loads(await request.read()))
        if self.first_call and body["messages"][-1]["role"] == "user":
            return await streaming([piece(self.first_call, "{}", index=0, id="call_1"), chunk("tool_calls"), DONE])(
                request
            )
        return await streaming([chunk(content=self.text), STOP, DONE])(request)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        models = [{"id": name, "object": "model"} for name in self.models]
        return self._refuse(request) or web.json_response({"object": "list", "data": models})
