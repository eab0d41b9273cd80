"""OpenAI's own types parse every event, chunk and object strictly: as they are sent, without conversions."""

from collections.abc import AsyncGenerator, Sequence

import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from surfaces.api_client import Json
from surfaces.openai.clients import Served, serve_model, serve_script
from surfaces.openai.sockets import stream
from toolyard import tool
from toolyard.core.conversation.events import ModelDelta, ReasoningAppended, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import ModelText, Reasoning
from toolyard.core.ports import ModelRequest
from toolyard.testing import Turn, call, fail, say, together

EVENT: TypeAdapter[Json] = TypeAdapter(ResponseStreamEvent)
RESPONSE: TypeAdapter[Json] = TypeAdapter(Response)
CHUNK: TypeAdapter[Json] = TypeAdapter(ChatCompletionChunk)
PHOTO_PARAMETERS = {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}
PHOTO = {"type": "function", "name": "take_photo", "parameters": PHOTO_PARAMETERS, "strict": False}


@tool
def add(item: str) -> str:
    """Add an item."""
    return f"added {item}"


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    return item


SCENARIOS: dict[str, tuple[Sequence[Turn], Json, str]] = {
    "text": ([say("Hi ", "there.")], {}, "completed"),
    "server tool": ([together(say("Wait."), call("add", item="milk")), say("Done.")], {}, "completed"),
    "failed tool": ([call("add", item=5), say("Done.")], {}, "completed"),
    "client tool": ([call("take_photo", of="a cat")], {"tools": [PHOTO]}, "completed"),
    "failure": ([together(say("Well"), fail("the model is out"))], {}, "failed"),
    "limit": ([Turn(text=["Too lo"], finish="length")], {"max_output_tokens": 5}, "incomplete"),
    "refusal": ([Turn(text=["No."], finish="refused")], {}, "incomplete"),
    "structured output": ([say('{"a": 1}')], {"text": {"format": {"type": "json_object"}}}, "completed"),
    "waiting": ([call("order", item="milk")], {}, "completed"),
}


async def check_response(served: Served, fields: Json, status: str) -> list[Json]:
    """Check the events of a response and the response that is found again, and return the events."""
    events = await stream(served.url, {"model": "default", "input": "Hello", **fields})
    for event in events:
        EVENT.validate_python(event, strict=True)
    final = events[-1]["response"]
    assert final["status"] == status
    retrieved = await served.client.responses.with_raw_response.retrieve(final["id"])
    RESPONSE.validate_json(retrieved.content, strict=True)
    return events


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_event_of_a_response_is_of_openais_types(name: str) -> None:
    script, fields, status = SCENARIOS[name]
    async with serve_script(script, [add, order]) as served:
        await check_response(served, fields, status)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_chunk_of_a_chat_is_of_openais_type(name: str) -> None:
    script, _, _ = SCENARIOS[name]
    photo = {"type": "function", "function": {"name": "take_photo", "parameters": PHOTO_PARAMETERS}}
    body = {"model": "default", "messages": [{"role": "user", "content": "Hello"}], "tools": [photo]}
    async with serve_script(script, [add, order]) as served:
        chunks = await stream(served.url, body, "/chat/completions")
    for chunk in chunks:
        if "error" not in chunk:
            CHUNK.validate_python(chunk, strict=True)
    assert len(chunks) >= 1


class Thinker:
    """A model that thinks in many pieces before it answers."""

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        for offset in range(self._pieces):
            yield ReasoningAppended(turn=request.turn, offset=offset, text="m")
        yield TextAppended(turn=request.turn, offset=0, text="Done.")
        clock = request.clock
        thought = Reasoning(id=clock.new_id("item"), at=clock.now(), text="m" * self._pieces)
        text = ModelText(id=clock.new_id("item"), at=clock.now(), text="Done.")
        yield TurnEnded(items=(thought, text), finish="stop", model="thinker")

    async def close(self) -> None:
        return


async def test_three_thousand_pieces_of_reasoning_have_rising_numbers_and_can_be_taken_up_again() -> None:
    async with serve_model(Thinker(3000)) as served:
        events = await check_response(served, {}, "completed")
        numbers = [event["sequence_number"] for event in events]
        assert numbers == sorted(set(numbers)) and numbers[-1] < 2**53
        assert sum(event["type"] == "response.reasoning_text.delta" for event in events) == 3000
        index = next(i for i, event in enumerate(events) if event["type"] == "response.output_text.delta")
        resumed = await served.client.responses.retrieve(
            events[-1]["response"]["id"], stream=True, starting_after=numbers[index]
        )
        later = [(event.type, event.sequence_number, getattr(event, "output_index", 0)) async for event in resumed]
    assert later == [
        (event["type"], event["sequence_number"], event.get("output_index", 0)) for event in events[index + 1 :]
    ]
