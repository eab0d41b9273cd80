"""Anthropic's own client and programs: what waits inside one is a sentence with a link, and the answer goes on."""

import pytest

from surfaces.anthropic.anthropic_clients import HELLO, join_texts, serve_script, to_param
from surfaces.api_client import Json
from surfaces.openai.clients import add_to_groceries, added, list_exchange, order
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import call, say

CODE = "import asyncio\nawait asyncio.gather(add_to_groceries(item='eggs'), order(item='milk'))"


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_call_inside_a_program_is_approved_and_the_answer_goes_on(streamed: bool) -> None:
    added.clear()
    script = [call("run_code", code=CODE), say("Done."), say("Welcome.")]
    async with serve_script(script, [add_to_groceries, order], code=True) as served:

        async def ask(messages: list[Json]) -> Json:
            return (await served.stream(messages))[1] if streamed else await served.create(messages)

        first = await ask(HELLO)
        assert "`order` waits for an approval" in join_texts(first)
        conversation, call_id = parse_call_id(join_texts(first).partition("?call=")[2])
        await served.yard.approve(conversation, call_id)
        last = await ask([*HELLO, to_param(first), {"role": "user", "content": "Thanks"}])
        assert join_texts(last) == "Welcome."
    assert added == ["eggs", "ordered milk"]
    exchange = [f"run_code[{CODE!r}]", 'run_code={"value":["added eggs","ordered milk"]}']
    assert list_exchange(served.model.requests[-1].history) == exchange
