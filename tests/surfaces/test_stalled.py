"""A client that takes nothing is cut off after a while, and costs one timer an answer until then."""

import asyncio

from toolyard.surfaces.http.guard import ResponseSender
from toolyard.surfaces.http.request_context import Message, RequestHead

STALLED_S = 0.05


async def test_an_answer_that_nobody_takes_is_ended_and_one_that_is_taken_is_not() -> None:
    async def answer(until: float, blocked: bool) -> bool:
        async def send(message: Message) -> None:
            await (asyncio.Event().wait() if blocked else asyncio.sleep(0))

        head = RequestHead(path="/", headers={}, correlation_id="", status=0)
        sender = ResponseSender(send, head, [], stalled_s=STALLED_S)
        try:
            while asyncio.get_running_loop().time() < until:
                await sender({"type": "http.response.body"})
        finally:
            sender.close()
        return True

    long = asyncio.get_running_loop().time() + 5 * STALLED_S
    assert await asyncio.wait_for(answer(long, blocked=False), 10)
    stalled = asyncio.create_task(answer(long + 10, blocked=True))
    done, _ = await asyncio.wait((stalled,), timeout=10)
    assert done and stalled.cancelled()
