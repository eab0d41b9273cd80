"""An MCP client made by hand, so that tests see every byte: of either era, over a real socket."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from surfaces.served import served
from surfaces.talk import wired
from toolyard import Yard
from toolyard.core.ports import Model
from toolyard.models.scripted import Script

Json = Any
MODERN = "2026-07-28"
OWN = "io.modelcontextprotocol/"


class Answer:
    """The messages that came back for one request, the response last."""

    def __init__(self, status: int, headers: dict[str, str], messages: list[Json]) -> None:
        self.status = status
        self.headers = headers
        self.messages = messages

    @property
    def result(self) -> Json:
        assert self.messages and "result" in self.messages[-1], (self.status, self.messages)
        return self.messages[-1]["result"]

    @property
    def error(self) -> Json:
        assert self.messages and "error" in self.messages[-1], (self.status, self.messages)
        return self.messages[-1]["error"]

    @property
    def text(self) -> str:
        (only,) = self.result["content"]
        return only["text"]


class Host:
    def __init__(self, session: aiohttp.ClientSession, url: str, **headers: str) -> None:
        self._session = session
        self._url = url
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._ids = 0

    def by(self, key: str) -> "Host":
        return Host(self._session, self._url, x_api_key=key)

    async def send(self, method: str, body: object = None, **headers: str) -> Answer:
        """Whatever is sent, and whatever comes back."""
        async with self.open(method, body, **headers) as (status, told, messages):
            return Answer(status, told, [message async for message in messages])

    @asynccontextmanager
    async def open(
        self, method: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[int, dict[str, str], AsyncGenerator[Json, None]], None]:
        sent = {"accept": "application/json, text/event-stream", **self.headers}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = io.BytesIO(body) if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("content-type", "application/json")
        async with self._session.request(method, f"{self._url}/mcp", data=data, headers=sent) as answer:
            told = {name.lower(): value for name, value in answer.headers.items()}
            yield answer.status, told, _messages(answer)

    def modern_body(self, method: str, params: Json = None, **capabilities: object) -> tuple[Json, dict[str, str]]:
        """A request as the newest revision has it, and the headers that go with it."""
        self._ids += 1
        given = dict(params or {})
        meta = {f"{OWN}protocolVersion": MODERN, f"{OWN}clientCapabilities": capabilities}
        given["_meta"] = meta | given.get("_meta", {})
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if name := given.get("name") or given.get("uri"):
            headers["mcp-name"] = name
        return {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": given}, headers

    async def modern(self, method: str, params: Json = None, **capabilities: object) -> Answer:
        body, headers = self.modern_body(method, params, **capabilities)
        return await self.send("POST", body, **headers)

    async def call(self, tool: str, arguments: Json = None, **more: Json) -> Answer:
        capabilities = more.pop("capabilities", {})
        return await self.modern("tools/call", {"name": tool, "arguments": arguments or {}, **more}, **capabilities)

    @asynccontextmanager
    async def session(self, version: str = "2025-11-25", **capabilities: object) -> AsyncGenerator["Legacy", None]:
        """A client of the earlier revisions, initialized."""
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = await self.send("POST", body)
        made = Legacy(self._session, self._url, **self.headers, mcp_session_id=answer.headers["mcp-session-id"])
        made.headers["mcp-protocol-version"] = answer.result["protocolVersion"]
        made.told = answer.result
        said = await made.send("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (said.status, said.messages) == (202, [])
        yield made


class Legacy(Host):
    told: Json = None

    def body(self, method: str, params: Json = None) -> Json:
        self._ids += 1
        return {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params or {}}

    async def ask(self, method: str, params: Json = None) -> Answer:
        return await self.send("POST", self.body(method, params))

    async def say(self, **message: Json) -> Answer:
        """A notification, or an answer to a request of the server."""
        return await self.send("POST", {"jsonrpc": "2.0", **message})


async def _messages(answer: aiohttp.ClientResponse) -> AsyncGenerator[Json, None]:
    if answer.content_type == "application/json":
        if text := await answer.text():
            yield json.loads(text)
        return
    assert answer.content_type == "text/event-stream", answer.content_type
    rest = b""
    async for piece in answer.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@asynccontextmanager
async def hosting(yard: Yard, **headers: str) -> AsyncGenerator[Host, None]:
    async with served(yard) as url, aiohttp.ClientSession() as session:
        yield Host(session, url, **headers)


@asynccontextmanager
async def open_host(script: Script | Model = (), **wiring: object) -> AsyncGenerator[tuple[Host, Yard], None]:
    """Serve a yard, and open an MCP client of it."""
    async with asyncio.timeout(30), wired(script, **wiring) as yard, hosting(yard) as host:
        yield host, yard
