"""Clients of the API for tests of conversations, and the yards that they call."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import pytest

from surfaces.http_server import connect_client
from surfaces.in_process_client import open_in_process_client
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.conversation.settings import Settings
from toolyard.core.ports import Model
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.testing import Script, Scripted

Json = Any
NOTHING_ENABLED = Settings(tools=frozenset())
both_ways = pytest.mark.parametrize("way", ["inside", "socket"])


class Transport(Protocol):
    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object], dict[str, str]]: ...

    def stream(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> AsyncGenerator[tuple[str, dict[str, object]], None]: ...


class ApiClient:
    """A client of the API with the headers of one caller. Its methods check the status of each response."""

    def __init__(self, transport: Transport, **headers: str) -> None:
        self._transport = transport
        self._headers = headers

    def with_key(self, key: str) -> "ApiClient":
        return ApiClient(self._transport, x_api_key=key)

    async def send_request(
        self, method: str, path: str, body: object = None, **more: str
    ) -> tuple[int, Json, dict[str, str]]:
        return await self._transport.ask(method, path, body, **self._headers, **more)

    async def get(self, path: str, expect: int = 200) -> Json:
        return await self._request_expecting("GET", path, None, expect)

    async def post(self, path: str, body: object = None, expect: int = 200) -> Json:
        return await self._request_expecting("POST", path, body, expect)

    async def put(self, path: str, body: object = None, expect: int = 200) -> Json:
        return await self._request_expecting("PUT", path, body, expect)

    async def delete(self, path: str, body: object = None, expect: int = 200) -> Json:
        return await self._request_expecting("DELETE", path, body, expect)

    async def create_conversation(self, title: str = "Test", **more: object) -> str:
        """Create a conversation, and return its path."""
        created = await self.post("/conversations", {"title": title, **more}, expect=201)
        return f"/conversations/{created['conversation']['id']}"

    async def list_messages(self, conversation: str) -> list[Json]:
        return (await self.get(f"{conversation}/messages"))["messages"]

    def stream_events(self, path: str, last_id: str = "") -> AsyncGenerator[tuple[str, Json], None]:
        headers = {"last_event_id": last_id} if last_id else {}
        return self._transport.stream("GET", path, **self._headers, **headers)

    def stream_get(self, path: str, **more: str) -> AsyncGenerator[tuple[str, Json], None]:
        return self._transport.stream("GET", path, **self._headers, **more)

    def stream_chat(self, conversation: str, content: str) -> AsyncGenerator[tuple[str, Json], None]:
        return self._transport.stream("POST", f"{conversation}/chat", {"content": content}, **self._headers)

    def stream_post(self, path: str, body: object, **more: str) -> AsyncGenerator[tuple[str, Json], None]:
        return self._transport.stream("POST", path, body, **self._headers, **more)

    async def read_until_done(self, conversation: str, last_id: str = "") -> list[tuple[str, Json]]:
        """Return the events after an id up to the first run that has ended; a run that waits has not."""
        received: list[tuple[str, Json]] = []
        async with aclosing(self.stream_events(f"{conversation}/events", last_id)) as events:
            async for event in events:
                received.append(event)
                if is_over(event[1]):
                    break
        return received

    async def read_until_error(self, conversation: str) -> Json:
        """Return the error that ends a stream of events."""
        received = [event async for _, event in self.stream_events(f"{conversation}/events")]
        assert received[-1]["type"] == "error", received
        return received[-1]

    async def _request_expecting(self, method: str, path: str, body: object, expect: int) -> Json:
        status, answer, headers = await self.send_request(method, path, body)
        assert status == expect, (status, answer)
        assert headers["content-type"].startswith("application/json")
        assert answer["success"] is (status < 400)
        if status >= 400:
            assert {"ok", "error", "error_type", "details", "correlation_id"} <= set(answer)
        return answer


def is_over(event: Json) -> bool:
    return event["type"] == "done" and event["ending"] != "waiting"


def join_deltas(events: Sequence[tuple[str, Json]]) -> str:
    return "".join(event["content"] for _, event in events if event["type"] == "text.delta")


def drop_deltas(events: Sequence[tuple[str, Json]]) -> list[Json]:
    return [event for _, event in events if event["type"] != "text.delta"]


def build_key(user: str, *roles: str, tenant: str = "t", **more: object) -> Key:
    """Return a key of a user; its secret is the user's name."""
    return Key(
        name=f"{user}@{tenant}", hash=hash_key(user), user=user, tenant=tenant, roles=frozenset(roles), **more  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


@asynccontextmanager
async def connect_api_client(yard: Yard, way: str = "inside") -> AsyncGenerator[ApiClient, None]:
    """Open a client of an open yard, in this process or over a socket."""
    async with (connect_client if way == "socket" else open_in_process_client)(yard) as transport:
        yield ApiClient(transport)


def build_yard(script: Script | Model | str, **wiring: object) -> Yard:
    """Return a yard with a scripted model, or with this model or the model of this name."""
    is_model = isinstance(script, str) or hasattr(script, "stream")
    model: Model = script if is_model else Scripted(script)  # pyright: ignore[reportAssignmentType, reportArgumentType]
    return Yard.from_wiring(Wiring(model=model, **wiring))  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def open_api_client(
    script: Script | Model | str = (), way: str = "inside", **wiring: object
) -> AsyncGenerator[ApiClient, None]:
    """Open a yard and a client of it. The block fails after 30 s."""
    async with asyncio.timeout(30), build_yard(script, **wiring) as yard, connect_api_client(yard, way) as http:
        yield http
