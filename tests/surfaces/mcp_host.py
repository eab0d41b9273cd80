"""A hand-written MCP client of either era over a real socket, so that tests see every byte."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard import Yard
from toolyard.core.ports import Model
from toolyard.testing import Script

Json = Any
MODERN = "2026-07-28"
META_PREFIX = "io.modelcontextprotocol/"


class HostAnswer:
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
    """A client of the current revision, which needs no session."""

    def __init__(self, session: aiohttp.ClientSession, url: str, **headers: str) -> None:
        self._session = session
        self._url = url
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._ids = 0

    def with_key(self, key: str) -> "Host":
        return Host(self._session, self._url, x_api_key=key)

    async def send(self, method: str, body: object = None, **headers: str) -> HostAnswer:
        """Send a request with any method and body, and return all messages of the response."""
        async with self.open_request(method, body, **headers) as (status, response_headers, messages):
            return HostAnswer(status, response_headers, [message async for message in messages])

    @asynccontextmanager
    async def open_request(
        self, method: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[int, dict[str, str], AsyncGenerator[Json, None]], None]:
        """Send a request, and yield the status, the headers and the messages of the response as they arrive."""
        all_headers = {"accept": "application/json, text/event-stream", **self.headers}
        all_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = io.BytesIO(body) if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        if data is not None:
            all_headers.setdefault("content-type", "application/json")
        async with self._session.request(method, f"{self._url}/mcp", data=data, headers=all_headers) as response:
            response_headers = {name.lower(): value for name, value in response.headers.items()}
            yield response.status, response_headers, _read_messages(response)

    def build_modern_request(
        self, method: str, params: Json = None, **capabilities: object
    ) -> tuple[Json, dict[str, str]]:
        """Return a request of the newest revision, and the headers that repeat parts of it."""
        self._ids += 1
        request_params = dict(params or {})
        meta = {f"{META_PREFIX}protocolVersion": MODERN, f"{META_PREFIX}clientCapabilities": capabilities}
        request_params["_meta"] = meta | request_params.get("_meta", {})
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if name := request_params.get("name") or request_params.get("uri"):
            headers["mcp-name"] = name
        return {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": request_params}, headers

    async def request_modern(self, method: str, params: Json = None, **capabilities: object) -> HostAnswer:
        body, headers = self.build_modern_request(method, params, **capabilities)
        return await self.send("POST", body, **headers)

    async def call_tool(self, tool: str, arguments: Json = None, **more: Json) -> HostAnswer:
        capabilities = more.pop("capabilities", {})
        return await self.request_modern(
            "tools/call", {"name": tool, "arguments": arguments or {}, **more}, **capabilities
        )

    @asynccontextmanager
    async def open_session(
        self, version: str = "2025-11-25", **capabilities: object
    ) -> AsyncGenerator["LegacyHost", None]:
        """Open a client of the earlier revisions, with its session initialized."""
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = await self.send("POST", body)
        legacy = LegacyHost(self._session, self._url, **self.headers, mcp_session_id=answer.headers["mcp-session-id"])
        legacy.headers["mcp-protocol-version"] = answer.result["protocolVersion"]
        legacy.initialize_result = answer.result
        acknowledgement = await legacy.send("POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (acknowledgement.status, acknowledgement.messages) == (202, [])
        yield legacy


class LegacyHost(Host):
    """A client of the earlier revisions, with a session."""

    initialize_result: Json = None

    def build_request(self, method: str, params: Json = None) -> Json:
        self._ids += 1
        return {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params or {}}

    async def ask(self, method: str, params: Json = None) -> HostAnswer:
        return await self.send("POST", self.build_request(method, params))

    async def send_message(self, **message: Json) -> HostAnswer:
        """Send a notification, or a response to a request of the server."""
        return await self.send("POST", {"jsonrpc": "2.0", **message})


async def _read_messages(response: aiohttp.ClientResponse) -> AsyncGenerator[Json, None]:
    if response.content_type == "application/json":
        if text := await response.text():
            yield json.loads(text)
        return
    assert response.content_type == "text/event-stream", response.content_type
    unfinished = b""
    async for piece in response.content.iter_any():
        *lines, unfinished = (unfinished + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@asynccontextmanager
async def connect_host(yard: Yard, **headers: str) -> AsyncGenerator[Host, None]:
    """Serve an open yard, and open an MCP client of it."""
    async with serve_yard(yard) as url, aiohttp.ClientSession() as session:
        yield Host(session, url, **headers)


@asynccontextmanager
async def open_host(script: Script | Model = (), **wiring: object) -> AsyncGenerator[tuple[Host, Yard], None]:
    """Open and serve a yard, and open an MCP client of it. The block fails after 30 s."""
    async with asyncio.timeout(30), build_yard(script, **wiring) as yard, connect_host(yard) as host:
        yield host, yard
