"""A provider's failure at one replica is the same failure for a client that repeats its request at another one."""

import asyncio
from contextlib import AsyncExitStack

import aiohttp
import pytest

from postgres import create_database
from replicas.pair import open_replicas
from surfaces.failing_provider import CUT_WITHIN, FAILURES, FailingProvider
from surfaces.http_server import serve_yard
from surfaces.test_provider_failures import ANSWERS, Answer, read_answer

FINAL = ("no credit", "wrong key", "no such model", "too long", "filtered")
"""Failures of which the client is told as they are stored."""
RETRY = {"x-stainless-retry-count": "1"}


async def ask(session: aiohttp.ClientSession, url: str, text: str, stream: bool) -> Answer:
    body = {"messages": [{"role": "user", "content": text}], "stream": stream}
    async with session.post(f"{url}/v1/chat/completions", json=body, headers=RETRY) as response:
        return await read_answer(response)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_both_replicas_answer_a_repeated_request_with_the_same_failure(kind: str, stream: bool) -> None:
    provider = FailingProvider()
    # A reply that is cut off in its middle has sent the headers of a stream, or not: that depends on when one joins.
    failures = [failure for failure in FAILURES if not stream or failure != CUT_WITHIN]
    answers: dict[str, list[Answer]] = {}
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(create_database()) if kind == "postgres" else None
        model = await stack.enter_async_context(provider.open_model())
        replicas = await stack.enter_async_context(open_replicas(2, database, script=model))
        urls = [await stack.enter_async_context(serve_yard(replica.yard)) for replica in replicas]
        session = await stack.enter_async_context(aiohttp.ClientSession())
        for failure in failures:
            at_once = await asyncio.gather(*(ask(session, url, failure, stream) for url in urls))
            asked = len(provider.asked)
            answers[failure] = [*at_once, await ask(session, urls[1], failure, stream)]
            assert (len(provider.asked) == asked) == (failure in FINAL), failure
    assert answers == {failure: [ANSWERS[failure]] * 3 for failure in failures}
