"""Puts a server of standard streams behind streamable HTTP, byte for byte. `bridge.py PORT SCRIPT [ARGUMENT…]`.

Made by hand, for one client: what the server says of a request goes to that request's stream, what it says of none to
the newest one that is open, and changes that nobody subscribed to by a request to the stream of a GET.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Json = Any
Stream = asyncio.Queue[Json]
META_PREFIX = "io.modelcontextprotocol/"


class Bridge:
    def __init__(self) -> None:
        self.notifications: Stream = asyncio.Queue()
        self.streams: dict[Json, Stream] = {}
        self.child: asyncio.subprocess.Process | None = None

    def send(self, message: Json) -> None:
        assert self.child is not None and self.child.stdin is not None
        self.child.stdin.write(json.dumps(message).encode() + b"\n")

    async def read_messages(self) -> None:
        assert self.child is not None and self.child.stdout is not None
        async for line in self.child.stdout:
            message = json.loads(line)
            self._choose_stream(message).put_nowait(message)

    def _choose_stream(self, message: Json) -> Stream:
        if "method" not in message:
            return self.streams.get(message["id"], self.notifications)
        params: Json = message.get("params") or {}
        meta: Json = params.get("_meta") or {}
        subscription_id = meta.get(f"{META_PREFIX}subscriptionId")
        if subscription_id is not None:
            return self.streams.get(subscription_id, self.notifications)
        is_news = message["method"].endswith(("/list_changed", "/updated"))
        return self.notifications if is_news or not self.streams else list(self.streams.values())[-1]

    async def post(self, request: Request) -> Response:
        message = await request.json()
        if "id" not in message or "method" not in message:
            self.send(message)
            return Response(status_code=202)
        headers = {"mcp-session-id": "only"} if message["method"] == "initialize" else {}
        stream = self.streams[message["id"]] = asyncio.Queue()
        self.send(message)
        return StreamingResponse(
            self._write_events(message["id"], stream), media_type="text/event-stream", headers=headers
        )

    async def _write_events(self, id: Json, stream: Stream) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                message = await stream.get()
                is_answer = "method" not in message
                if is_answer and self.streams.get(id) is stream:
                    del self.streams[id]
                yield b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
                if is_answer:
                    return
        finally:
            if self.streams.get(id) is stream:
                del self.streams[id]
                self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    async def get(self, request: Request) -> Response:
        return StreamingResponse(self._write_events(None, self.notifications), media_type="text/event-stream")

    async def delete(self, request: Request) -> Response:
        return JSONResponse({})


bridge = Bridge()


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    pipe = asyncio.subprocess.PIPE
    bridge.child = await asyncio.create_subprocess_exec(sys.executable, *sys.argv[2:], stdin=pipe, stdout=pipe)
    reading = asyncio.create_task(bridge.read_messages())
    yield
    bridge.child.kill()
    await reading


routes = [
    Route("/mcp", bridge.post, methods=["POST"]),
    Route("/mcp", bridge.get, methods=["GET"]),
    Route("/mcp", bridge.delete, methods=["DELETE"]),
]
uvicorn.run(Starlette(routes=routes, lifespan=lifespan), port=int(sys.argv[1]), log_level="warning")
