"""Serve a yard and open OpenAI's own client of it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from openai import AsyncOpenAI

from surfaces.served import serve_yard
from toolyard import ToolLike, Yard
from toolyard.testing import Script, Scripted

TEST_TIMEOUT_S = 60.0


@asynccontextmanager
async def open_client(
    script: Script, tools: Sequence[ToolLike] = (), *, store: str = "memory:", max_retries: int = 0
) -> AsyncGenerator[tuple[AsyncOpenAI, Yard], None]:
    """Serve a yard with a scripted model, and open a client of it. The block fails after TEST_TIMEOUT_S."""
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        Yard(tools=tools, model=Scripted(script), store=store) as yard,
        serve_yard(yard) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=max_retries) as client,
    ):
        yield client, yard
