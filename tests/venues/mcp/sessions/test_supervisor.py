"""A link gives out the session of the moment, and no other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from toolyard.venues.mcp.sessions.session import Era, Session
from toolyard.venues.mcp.sessions.stderr_log import Said
from toolyard.venues.mcp.sessions.supervisor import Link


class Unused:
    """A session as far as a link looks at it."""

    modern = True
    in_flight = answers = 0

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.capabilities: dict[str, object] = {}


async def test_a_session_that_falls_asleep_is_given_to_nobody() -> None:
    async with asyncio.timeout(30):
        sessions, closing, close = list[Session](), asyncio.Event(), asyncio.Event()

        @asynccontextmanager
        async def connect(era: Era) -> AsyncGenerator[Session]:
            sessions.append(cast(Session, Unused()))
            yield sessions[-1]
            closing.set()
            await close.wait()

        link = Link("sleepy", connect, Said("sleepy"), idle_s=0.01, changed=lambda: None)
        running = asyncio.create_task(link.run())
        await closing.wait()
        close.set()
        assert await link.session() is not sessions[0]
        link.stop()
        await running
