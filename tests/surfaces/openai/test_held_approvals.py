"""With `approval_hold_s` a request stays open while its run waits for a person."""

import asyncio

import pytest

from surfaces.openai.clients import Served, added, join_content, order, serve_script
from toolyard.core.conversation.events import Entry, RunSuspended
from toolyard.testing import call, say

SCRIPT = [call("order", item="milk"), say("Ordered.")]


class Waits:
    """The runs that wait for a person, in the order in which they began to."""

    def __init__(self) -> None:
        self._suspended: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def observe(self, entry: Entry) -> None:
        if isinstance(entry.event, RunSuspended):
            self._suspended.put_nowait((entry.conversation, entry.event.waiting_for[0]))

    async def approve(self, served: Served) -> None:
        """Approve the call that the next run waits for."""
        await served.yard.approve(*await self._suspended.get())


async def read_text(served: Served, streamed: bool) -> str:
    if streamed:
        return join_content(await served.stream())
    return str((await served.complete()).choices[0].message.content)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_decision_continues_the_same_answer(streamed: bool) -> None:
    waits = Waits()
    async with serve_script(SCRIPT, [order], approval_hold_s=50, observers=[waits.observe]) as served:
        asking = asyncio.create_task(read_text(served, streamed))
        await waits.approve(served)
        text = await asking
    assert (text, added) == ("Ordered.", ["ordered milk"])


async def test_a_response_is_continued_as_well() -> None:
    waits = Waits()
    async with serve_script(SCRIPT, [order], approval_hold_s=50, observers=[waits.observe]) as served:
        asking = asyncio.create_task(served.client.responses.create(model="default", input="Hello"))
        await waits.approve(served)
        assert (await asking).output_text == "Ordered."


@pytest.mark.parametrize("streamed", [True, False])
async def test_after_its_time_the_sentence_comes(streamed: bool) -> None:
    async with serve_script(SCRIPT[:1], [order], approval_hold_s=0.05) as served:
        text = await read_text(served, streamed)
    assert "`order` waits for an approval" in text
