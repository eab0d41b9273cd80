"""With `approval_hold_s` a request stays open while its run waits for a person."""

import asyncio

import pytest

from surfaces.openai.clients import Served, added, join_content, order, serve_script
from toolyard import Caller
from toolyard.testing import call, say

SCRIPT = [call("order", item="milk"), say("Ordered.")]
LOCAL = Caller(user="local", roles=frozenset({"admin"}))


async def approve(served: Served) -> None:
    """Approve the call once the run waits for it."""
    service = served.yard.service
    while True:
        for card in await service.list_conversations(LOCAL, unlisted=True):
            for call_id, waiting in (await service.view(card.id)).calls.items():
                if waiting.phase == "asking":
                    await served.yard.approve(card.id, call_id)
                    return
        await asyncio.sleep(0.01)


async def read_text(served: Served, streamed: bool) -> str:
    if streamed:
        return join_content(await served.stream())
    return str((await served.complete()).choices[0].message.content)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_decision_continues_the_same_answer(streamed: bool) -> None:
    async with serve_script(SCRIPT, [order], approval_hold_s=50) as served:
        asking = asyncio.create_task(read_text(served, streamed))
        await approve(served)
        text = await asking
    assert (text, added) == ("Ordered.", ["ordered milk"])


async def test_a_response_is_continued_as_well() -> None:
    async with serve_script(SCRIPT, [order], approval_hold_s=50) as served:
        asking = asyncio.create_task(served.client.responses.create(model="default", input="Hello"))
        await approve(served)
        assert (await asking).output_text == "Ordered."


@pytest.mark.parametrize("streamed", [True, False])
async def test_after_its_time_the_sentence_comes(streamed: bool) -> None:
    async with serve_script(SCRIPT[:1], [order], approval_hold_s=0.05) as served:
        text = await read_text(served, streamed)
    assert "`order` waits for an approval" in text
