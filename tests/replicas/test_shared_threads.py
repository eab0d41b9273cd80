"""A thread of a front end that reaches several replicas: a message is answered once, and any of them takes answers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from postgres import create_database
from replicas.pair import Replica, open_replicas
from surfaces.ag_ui.test_runs import HELLO, SHOW, join_text, list_interrupts, order, post
from toolyard import ModelRequest
from toolyard.core.items import Result
from toolyard.testing import Turn, call, say

asked: list[int] = []
"""The turns that the model was asked for in this test."""


def choose_turn(request: ModelRequest) -> Turn:
    """Order milk after an approval, show it in the front end, then end."""
    asked.append(request.turn)
    results = sum(isinstance(item, Result) for item in request.history)
    return (call("order", item="milk"), call("show"), say("Done."))[results]


@asynccontextmanager
async def open_pair(kind: str) -> AsyncGenerator[list[Replica]]:
    asked.clear()
    if kind == "memory":
        async with open_replicas(script=choose_turn, tools=[order]) as replicas:
            yield replicas
        return
    async with create_database() as url, open_replicas(2, url, script=choose_turn, tools=[order]) as replicas:
        yield replicas


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_thread_goes_on_at_any_replica(kind: str) -> None:
    async with open_pair(kind) as replicas:
        streams = await asyncio.gather(*(post(replica.http, HELLO, tools=[SHOW]) for replica in replicas))
        interrupts = [list_interrupts(stream) for stream in streams]
        assert interrupts[0] == interrupts[1]
        resume = [{"interruptId": interrupts[0][0]["id"], "status": "resolved", "payload": {"approved": True}}]
        resumed = await asyncio.gather(*(post(replica.http, HELLO, resume=resume) for replica in reversed(replicas)))
        (call_id,) = resumed[0][-1]["outcome"]["pendingToolCallIds"]
        messages = [
            HELLO,
            {"id": "a", "role": "assistant", "toolCalls": [{"id": call_id}]},
            {"id": "t", "role": "tool", "toolCallId": call_id, "content": "shown"},
        ]
        answers = await asyncio.gather(*(post(replica.http, *messages) for replica in replicas))
        assert [join_text(stream) for stream in answers] == ["Done."] * 2
        assert [join_text(await post(replica.http, HELLO)) for replica in replicas] == ["Done."] * 2
    assert asked == [1, 2, 3]
