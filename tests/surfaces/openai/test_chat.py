"""`POST /v1/chat/completions` with OpenAI's own client."""

from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam, ChatCompletionToolParam

from surfaces.openai.clients import open_client
from toolyard import tool
from toolyard.testing import call, say, together

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
PHOTO_TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "take_photo",
        "description": "Take a photo.",
        "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
    },
}


class Pantry:
    """A server tool, and what it has added."""

    def __init__(self) -> None:
        self.added: list[str] = []

    def build_tool(self):
        @tool
        def add_to_groceries(item: str) -> str:
            """Add an item to the groceries."""
            self.added.append(item)
            return f"added {item}"

        return add_to_groceries


def join_content(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


async def test_a_text_is_answered_and_the_models_are_listed() -> None:
    async with open_client([say("Hi there.")]) as (client, _):
        models = await client.models.list()
        answer = await client.chat.completions.create(model="default", messages=HELLO)
        one = await client.models.retrieve(models.data[0].id)
    assert [model.id for model in models.data][0] == one.id == "default"
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Hi there.", "stop")
    assert answer.id.startswith("chatcmpl-") and answer.usage is not None


async def test_a_stream_has_a_role_then_text_then_an_end() -> None:
    async with open_client([say("Hi there, how are you?")]) as (client, _):
        stream = await client.chat.completions.create(
            model="default", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert join_content(chunks) == "Hi there, how are you?"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert (chunks[-1].choices, chunks[-1].usage is not None) == ([], True)
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_tool_of_the_server_runs_inside() -> None:
    pantry = Pantry()
    script = [call("add_to_groceries", item="milk"), say("Done.")]
    async with open_client(script, [pantry.build_tool()]) as (client, _):
        answer = await client.chat.completions.create(model="default", messages=HELLO)
    assert (pantry.added, answer.choices[0].message.content) == (["milk"], "Done.")
    assert answer.choices[0].message.tool_calls is None


async def test_a_call_of_the_clients_tool_comes_back_with_the_servers_call_kept() -> None:
    pantry = Pantry()
    script = [
        call("add_to_groceries", item="milk"),
        together(call("take_photo", of="fridge"), call("add_to_groceries", item="eggs")),
        say("Here you are."),
    ]
    async with open_client(script, [pantry.build_tool()]) as (client, yard):
        first = await client.chat.completions.create(model="default", messages=HELLO, tools=[PHOTO_TOOL])
        (photo_call,) = first.choices[0].message.tool_calls or []
        assert first.choices[0].finish_reason == "tool_calls" and photo_call.type == "function"
        assert (photo_call.function.name, photo_call.function.arguments) == ("take_photo", '{"of":"fridge"}')
        messages: list[ChatCompletionMessageParam] = [
            *HELLO,
            first.choices[0].message.model_dump(exclude_none=True),  # pyright: ignore[reportAssignmentType]
            {"role": "tool", "tool_call_id": photo_call.id, "content": "a photo"},
        ]
        second = await client.chat.completions.create(model="default", messages=messages, tools=[PHOTO_TOOL])
    assert second.choices[0].message.content == "Here you are."
    assert pantry.added == ["milk", "eggs"]
