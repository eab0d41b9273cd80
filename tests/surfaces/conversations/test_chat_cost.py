"""What a chat costs does not grow with the history of its conversation."""

import asyncio
import gc
import statistics
import time
from collections.abc import AsyncGenerator

from surfaces.api_client import ApiClient, build_yard, connect_api_client
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import ModelText
from toolyard.core.ports import ModelRequest
from toolyard.testing import say

ROUNDS = 60
WARM_UP = 5
MAX_RATIO = 1.5


class ConstantModel:
    """A model that answers without looking at the history, so that only the server's own work is measured."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="yes")
        yield TurnEnded(items=(text,), finish="stop")

    async def close(self) -> None:
        pass


async def create_with_history(http: ApiClient, messages: int) -> str:
    """Return the path of a conversation that holds so many messages."""
    history = [{"role": ("user", "assistant")[index % 2], "content": f"message {index}"} for index in range(messages)]
    body = {"prompt": "go on", "history": history, "keep": True}
    done = [event async for _, event in http.stream_post("/ai/respond", body)][-1]
    return f"/conversations/{done['conversation_id']}"


async def measure_chat_s(http: ApiClient, path: str) -> float:
    """Return the CPU time of one chat."""
    started_at = time.process_time()
    await http.post(f"{path}/chat", {"content": "and?"})
    return time.process_time() - started_at


async def test_a_chat_costs_as_much_after_5000_messages_as_after_10() -> None:
    yard = build_yard(ConstantModel())
    async with asyncio.timeout(120), yard, connect_api_client(yard) as http:
        short, long = await create_with_history(http, 10), await create_with_history(http, 5000)
        for path in (short, long) * WARM_UP:
            await measure_chat_s(http, path)
        gc.collect()
        gc.disable()  # a collection costs by what is alive, which is both histories: it is nobody's own
        try:
            costs = [(await measure_chat_s(http, short), await measure_chat_s(http, long)) for _ in range(ROUNDS)]
        finally:
            gc.enable()
        ratio = statistics.median(long for _, long in costs) / statistics.median(short for short, _ in costs)
        assert ratio <= MAX_RATIO, f"{ratio:.2f} times as much"


async def test_the_answer_counts_the_messages_of_its_last_model_request() -> None:
    yard = build_yard(lambda _: say("yes"))
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        path = await create_with_history(http, 10)
        for count in (13, 15, 17):  # 10 before, the first prompt and its answer, then two for each chat
            answer = await http.post(f"{path}/chat", {"content": "and?"})
            assert answer["messages_in_context"] == count
