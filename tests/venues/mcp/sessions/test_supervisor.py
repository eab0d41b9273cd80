"""A link gives out the session of the moment, and no other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from toolyard.venues.mcp.outcomes import Era
from toolyard.venues.mcp.sessions.session import UpstreamSession
from toolyard.venues.mcp.sessions.stderr_log import StderrLog
from toolyard.venues.mcp.sessions.supervisor import SessionSupervisor


class FakeSession:
    """A session as far as a link looks at it."""

    modern = True
    in_flight = answers = 0

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.capabilities: dict[str, object] = {}


async def test_a_session_that_falls_asleep_is_given_to_nobody() -> None:
    async with asyncio.timeout(30):
        sessions, closing, close = list[UpstreamSession](), asyncio.Event(), asyncio.Event()

        @asynccontextmanager
        async def connect(era: Era) -> AsyncGenerator[UpstreamSession]:
            sessions.append(cast(UpstreamSession, FakeSession()))
            yield sessions[-1]
            closing.set()
            await close.wait()

        link = SessionSupervisor("sleepy", connect, StderrLog("sleepy"), idle_s=0.01, on_status_change=lambda: None)
        running = asyncio.create_task(link.run())
        await closing.wait()
        close.set()
        assert await link.get_session() is not sessions[0]
        link.stop()
        await running
