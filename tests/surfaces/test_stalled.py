"""A client that takes nothing is cut off after a while, and costs one timer an answer until then."""

import asyncio

from toolyard.surfaces import _door


def test_an_answer_that_nobody_takes_is_ended_and_one_that_is_taken_is_not() -> None:
    async def answer(chunks: int, blocked: bool) -> int:
        taken = 0

        async def send(message: _door.Message) -> None:
            nonlocal taken
            taken += 1
            await (asyncio.Event().wait() if blocked else asyncio.sleep(0.01))

        sender = _door._Sender(send, [], stalled_s=0.05)  # pyright: ignore[reportPrivateUsage]
        try:
            for _ in range(chunks):
                await sender({"type": "http.response.body"})
        finally:
            sender.close()
        return taken

    async def test() -> None:
        assert await asyncio.wait_for(answer(20, blocked=False), 10) == 20
        stalled = asyncio.create_task(answer(1, blocked=True))
        done, _ = await asyncio.wait((stalled,), timeout=10)
        assert done and stalled.cancelled()

    asyncio.run(test())
