"""Talk to `/v1/responses` as Open Responses has it: plain JSON by HTTP, and messages on a WebSocket."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from surfaces.api_client import Json

FINAL = ("response.completed", "response.failed", "response.incomplete", "error")


class Talk:
    """A WebSocket of a client."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def create(self, input: object = "Hello", **fields: object) -> list[Json]:
        """Send a request and return its events up to the last one."""
        await self.socket.send_json({"type": "response.create", "model": "default", "input": input, **fields})
        return await self.read_events()

    async def read_events(self) -> list[Json]:
        events: list[Json] = []
        while not events or events[-1]["type"] not in FINAL:
            events.append(await self.socket.receive_json())
        return events


@asynccontextmanager
async def open_talk(url: str, **headers: str) -> AsyncGenerator[Talk, None]:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}/v1/responses", headers=fields, max_msg_size=0) as socket,
    ):
        yield Talk(socket)


async def refuse_handshake(url: str, path: str = "/v1/responses", **headers: str) -> int:
    """Return the status that a handshake is refused with."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{url}{path}", headers=headers):
            pass
    return refused.value.status


async def stream(url: str, body: Json, path: str = "/responses") -> list[Json]:
    """Return the events of a streamed response as they are sent."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1{path}", json={**body, "stream": True}) as response,
    ):
        lines = (await response.read()).split(b"\n")
    return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: {")]


async def post(url: str, path: str, body: object) -> tuple[int, Json]:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1{path}", json=body) as response:
        return response.status, await response.json()
