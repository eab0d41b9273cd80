"""What the tests of conversations share: a yard, a client of it, and the words of the API."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Protocol

import pytest

from surfaces.inside import inside
from surfaces.served import client
from toolyard import Scripted, Yard
from toolyard.app import Wiring
from toolyard.core.conversation_settings import Settings
from toolyard.core.ports import Model
from toolyard.core.store import Key
from toolyard.engine.authentication import hash_key
from toolyard.models.scripted import Script

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


class Talk:
    """Requests as one caller; each says which status it expects."""

    def __init__(self, transport: Transport, **headers: str) -> None:
        self._transport = transport
        self._headers = headers

    def by(self, key: str) -> "Talk":
        return Talk(self._transport, x_api_key=key)

    async def answer(
        self, method: str, path: str, body: object = None, **more: str
    ) -> tuple[int, Json, dict[str, str]]:
        return await self._transport.ask(method, path, body, **self._headers, **more)

    async def get(self, path: str, expect: int = 200) -> Json:
        return await self._expected("GET", path, None, expect)

    async def post(self, path: str, body: object = None, expect: int = 200) -> Json:
        return await self._expected("POST", path, body, expect)

    async def put(self, path: str, body: object = None, expect: int = 200) -> Json:
        return await self._expected("PUT", path, body, expect)

    async def delete(self, path: str, body: object = None, expect: int = 200) -> Json:
        return await self._expected("DELETE", path, body, expect)

    async def create(self, title: str = "Test", **more: object) -> str:
        """The path of a new conversation."""
        made = await self.post("/conversations", {"title": title, **more}, expect=201)
        return f"/conversations/{made['conversation']['id']}"

    async def messages(self, conversation: str) -> list[Json]:
        return (await self.get(f"{conversation}/messages"))["messages"]

    def events(self, path: str, last: str = "") -> AsyncGenerator[tuple[str, Json], None]:
        headers = {"last_event_id": last} if last else {}
        return self._transport.stream("GET", path, **self._headers, **headers)

    def chat_stream(self, conversation: str, content: str) -> AsyncGenerator[tuple[str, Json], None]:
        return self._transport.stream("POST", f"{conversation}/chat", {"content": content}, **self._headers)

    def post_stream(self, path: str, body: object, **more: str) -> AsyncGenerator[tuple[str, Json], None]:
        return self._transport.stream("POST", path, body, **self._headers, **more)

    async def until_done(self, conversation: str, last: str = "") -> list[tuple[str, Json]]:
        """Everything after a place up to the first run that is over, not only waiting."""
        seen: list[tuple[str, Json]] = []
        async with aclosing(self.events(f"{conversation}/events", last)) as events:
            async for event in events:
                seen.append(event)
                if is_over(event[1]):
                    break
        return seen

    async def until_error(self, conversation: str) -> Json:
        """The error that ends a stream of events."""
        seen = [event async for _, event in self.events(f"{conversation}/events")]
        assert seen[-1]["type"] == "error", seen
        return seen[-1]

    async def _expected(self, method: str, path: str, body: object, expect: int) -> Json:
        status, told, headers = await self.answer(method, path, body)
        assert status == expect, (status, told)
        assert headers["content-type"].startswith("application/json")
        assert told["success"] is (status < 400)
        if status >= 400:
            assert {"ok", "error", "error_type", "details", "correlation_id"} <= set(told)
        return told


def is_over(event: Json) -> bool:
    return event["type"] == "done" and event["ending"] != "waiting"


def said(events: Sequence[tuple[str, Json]]) -> str:
    return "".join(event["content"] for _, event in events if event["type"] == "text.delta")


def others(events: Sequence[tuple[str, Json]]) -> list[Json]:
    return [event for _, event in events if event["type"] != "text.delta"]


def key(user: str, *roles: str, tenant: str = "t", **more: object) -> Key:
    """The key of a user: its secret is the user's name."""
    return Key(
        name=f"{user}@{tenant}", hash=hash_key(user), user=user, tenant=tenant, roles=frozenset(roles), **more  # pyright: ignore[reportArgumentType]
    )  # fmt: skip


@asynccontextmanager
async def talking(yard: Yard, way: str = "inside") -> AsyncGenerator[Talk, None]:
    async with (client if way == "socket" else inside)(yard) as transport:
        yield Talk(transport)


def wired(script: Script | Model, **wiring: object) -> Yard:
    model: Model = script if hasattr(script, "stream") else Scripted(script)  # pyright: ignore[reportAssignmentType, reportArgumentType]
    return Yard.from_wiring(Wiring(model=model, **wiring))  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def open_talk(script: Script | Model = (), way: str = "inside", **wiring: object) -> AsyncGenerator[Talk, None]:
    """Open a yard and a client of it, in this process or over a socket."""
    async with asyncio.timeout(30), wired(script, **wiring) as yard, talking(yard, way) as http:
        yield http
