"""The arguments of a call that the client runs arrive as the model writes them, and those of other calls do not."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from surfaces.api_client import Json
from surfaces.openai.clients import HELLO, add_to_groceries, added, define_tool, serve_model, to_param
from toolyard.core.conversation.events import ArgumentsAppended, ModelDelta, ReasoningAppended, TurnEnded, TurnFailed
from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, Usage
from toolyard.core.ports import ModelRequest

PHOTO = define_tool("take_photo", of={"type": "string"})


class WritingModel:
    """Reasons, then writes the arguments of its calls in pieces, and pauses before the last piece of each."""

    def __init__(self, *calls: tuple[str, Sequence[str], dict[str, object]]) -> None:
        self._calls = calls
        self.paused, self.released = asyncio.Event(), asyncio.Event()
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self.requests.append(request)
        clock, items = request.clock, list[Item]()
        if any(isinstance(item, Result) for item in request.history):
            items.append(ModelText(id=clock.new_id("item"), at=clock.now(), text="Done."))
            yield TurnEnded(items=tuple(items), finish="stop", model="writing")
            return
        yield ReasoningAppended(turn=request.turn, offset=0, text="A photo, then.")
        items.append(Reasoning(id=clock.new_id("item"), at=clock.now(), text="A photo, then."))
        for index, (tool, pieces, arguments) in enumerate(self._calls):
            call_id, offset = clock.new_id("call"), 0
            for number, text in enumerate(pieces):
                if number == len(pieces) - 1:
                    self.paused.set()
                    await self.released.wait()
                yield ArgumentsAppended(
                    turn=request.turn, call_id=call_id, index=index, tool=tool, offset=offset, text=text
                )
                offset += len(text.encode())
            items.append(Call(id=call_id, at=clock.now(), tool=tool, arguments=arguments))
        usage = Usage(input_tokens=10, output_tokens=5, reasoning_tokens=3)
        yield TurnEnded(items=tuple(items), finish="calls", model="writing", usage=usage)

    async def close(self) -> None:
        return


def list_deltas(chunks: Sequence[Json]) -> list[Json]:
    return [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()]


async def test_arguments_come_before_the_turn_has_ended_and_only_those_of_the_clients_tools() -> None:
    model = WritingModel(
        ("take_photo", ['{"of": ', '"mé"}'], {"of": "mé"}),
        ("add_to_groceries", ['{"item": ', '"milk"}'], {"item": "milk"}),
        ("take_photo", ['{"of":"you"}'], {"of": "you"}),
    )
    async with serve_model(model, [add_to_groceries]) as served:
        stream = await served.client.chat.completions.create(
            model="default", messages=HELLO, tools=[PHOTO], stream=True
        )
        chunks: list[Json] = []
        async for chunk in stream:
            chunks.append(chunk)
            if model.paused.is_set() and list_deltas(chunks)[-1:] and not model.released.is_set():
                assert list_deltas(chunks)[0].function.arguments == ""
                model.released.set()
    deltas = list_deltas(chunks)
    names = {delta.index: delta.function.name for delta in deltas if delta.function.name}
    arguments = {index: "".join(d.function.arguments or "" for d in deltas if d.index == index) for index in names}
    assert names == {0: "take_photo", 1: "take_photo"} and arguments == {0: '{"of": "mé"}', 1: '{"of":"you"}'}
    assert len([delta for delta in deltas if delta.index == 0]) >= 3, "in pieces"
    ids = [delta.id for delta in deltas if delta.id]
    assert len(ids) == 2 and all(len(call_id) <= 40 for call_id in ids)
    assert chunks[-1].choices[0].finish_reason == "tool_calls" and added == ["milk"]


@pytest.mark.parametrize("written", ['{"of":"me"}', '{ "of" : "me" }', ""], ids=["plain", "spaced", "not streamed"])
async def test_the_whole_arguments_are_the_same_however_they_were_written(written: str) -> None:
    pieces = [written[:4], written[4:]] if written else []
    model = WritingModel(("take_photo", pieces, {"of": "me"}))
    model.released.set()
    async with serve_model(model) as served:
        stream = await served.client.chat.completions.create(
            model="default", messages=HELLO, tools=[PHOTO], stream=True
        )
        deltas = list_deltas([chunk async for chunk in stream])
    assert "".join(delta.function.arguments or "" for delta in deltas) == (written or '{"of":"me"}')


async def test_an_answer_that_is_not_streamed_has_the_reasoning_and_its_tokens() -> None:
    model = WritingModel(("take_photo", ['{"of":"me"}'], {"of": "me"}))
    model.released.set()
    async with serve_model(model) as served:
        answer = await served.complete(tools=[PHOTO])
        assert answer.choices[0].message.reasoning_content == "A photo, then."
        assert answer.usage.completion_tokens_details.reasoning_tokens == 3
        (handed_out,) = answer.choices[0].message.tool_calls
        result: Json = {"role": "tool", "tool_call_id": handed_out.id, "content": "a photo"}
        last = await served.complete([*HELLO, to_param(answer), result], tools=[PHOTO])
        assert last.choices[0].message.content == "Done."
        response = await served.client.responses.create(model="default", input="Hello")
        assert response.usage.output_tokens_details.reasoning_tokens == 3


TOOL: Json = {"type": "function", "name": "take_photo", "parameters": {"type": "object", "properties": {"of": {}}}}


async def read_response(events: Json) -> list[Json]:
    return [event async for event in events]


async def test_a_response_streams_arguments_and_can_be_taken_up_after_every_event() -> None:
    model = WritingModel(
        ("take_photo", ['{"of":', '"mé', '"}'], {"of": "mé"}),
        ("add_to_groceries", ['{"item":', '"milk"}'], {"item": "milk"}),
        ("take_photo", ['{"of":"you"', "}"], {"of": "you"}),
    )
    async with serve_model(model, [add_to_groceries]) as served:
        responses, live = served.client.responses, list[Json]()
        resumed: list[tuple[int, Json]] = []
        stream = await responses.create(model="default", input="Hello", tools=[TOOL], stream=True)
        async for event in stream:
            live.append(event)
            deltas = [event.delta for event in live if event.type == "response.function_call_arguments.delta"]
            if "".join(deltas) == '{"of":"mé' and not model.released.is_set():
                for position, seen in enumerate(list(live)):
                    later = await responses.retrieve(
                        live[0].response.id, stream=True, starting_after=seen.sequence_number
                    )
                    resumed.append((position, asyncio.create_task(read_response(later))))
                model.released.set()
        for position, seen in enumerate(live):
            later = await responses.retrieve(live[0].response.id, stream=True, starting_after=seen.sequence_number)
            resumed.append((position, asyncio.create_task(read_response(later))))
        expected = [event.type for event in live if not event.type.endswith("delta")]
        for position, reading in resumed:
            events = await reading
            seen, types = live[: position + 1], [event.type for event in events if not event.type.endswith("delta")]
            assert [e.type for e in seen if not e.type.endswith("delta")] + types == expected, position
    numbers = [event.sequence_number for event in live]
    assert numbers == sorted(set(numbers)) and numbers[-1] < 2**31
    output = live[-1].response.output
    done = [event for event in live if event.type == "response.output_item.done"]
    assert all(output[event.output_index].id == event.item.id for event in done)
    assert [item.type for item in output] == ["reasoning", "function_call", "mcp_call", "function_call"]
    assert [item.arguments for item in output[1::2]] == ['{"of":"mé"}', '{"of":"you"}']


async def test_a_summary_of_the_reasoning_is_shown_to_a_client_that_asks_for_one() -> None:
    model = WritingModel(("take_photo", ['{"of":"me"}'], {"of": "me"}))
    model.released.set()
    async with serve_model(model) as served:
        more: Json = {"model": "default", "input": "Hello", "tools": [TOOL], "reasoning": {"summary": "auto"}}
        whole = await served.client.responses.create(**more)
        (summary,) = whole.output[0].summary
        assert (summary.text, whole.output[0].content, whole.reasoning.summary) == ("A photo, then.", [], "auto")
        events = [event async for event in await served.client.responses.create(**more, stream=True)]
    kinds = [event.type for event in events if "reasoning" in event.type]
    assert kinds == [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ]
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
