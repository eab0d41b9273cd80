"""`POST /v1/messages` with Anthropic's own client: texts, streams, tools of the server and of the client."""

import pytest
from anthropic import APIStatusError, InternalServerError, NotFoundError
from msgspec.structs import replace

from surfaces.anthropic.anthropic_clients import (
    HELLO,
    answer_calls,
    define_tool,
    join_texts,
    list_calls,
    serve_script,
    to_param,
)
from surfaces.api_client import Json
from surfaces.openai.clients import add_to_groceries, added, list_exchange, order
from toolyard.core.items import ModelText, Result, Usage, UserMessage
from toolyard.testing import call, fail, say, together

PHOTO = define_tool("take_photo", of={"type": "string"})


@pytest.fixture(autouse=True)
def start_with_nothing_added() -> None:
    added.clear()


async def test_a_text_is_answered_with_its_usage() -> None:
    async with serve_script([say("Hi there.")]) as served:
        answer = await served.create(system="Be kind.")
    assert (join_texts(answer), answer.stop_reason, answer.role) == ("Hi there.", "end_turn", "assistant")
    assert answer.id.startswith("msg_")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 5)
    assert served.model.requests[0].system.endswith("Be kind.")
    assert served.model.requests[0].options.max_tokens == 1_000


async def test_input_that_was_read_from_or_written_to_a_cache_is_counted_apart() -> None:
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=60, cache_writes_5m=20, cache_writes_1h=5)
    async with serve_script([replace(say("Hello"), usage=usage)]) as served:
        counts = (await served.create()).usage
    assert (counts.input_tokens, counts.output_tokens) == (15, 7)
    assert (counts.cache_read_input_tokens, counts.cache_creation_input_tokens) == (60, 25)


async def test_a_stream_has_a_start_then_blocks_then_an_end() -> None:
    async with serve_script([say("Hi ", "there, ", "you")]) as served:
        events, message = await served.stream()
    kinds = [event.type for event in events if event.type != "text"]
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert (join_texts(message), message.stop_reason, message.usage.output_tokens) == ("Hi there, you", "end_turn", 5)
    assert message.usage.input_tokens == 10


async def test_a_tool_of_the_server_runs_inside_and_is_shown_as_an_mcp_tool() -> None:
    script = [together(say("One moment."), call("add_to_groceries", item="milk")), say("Done."), say("Welcome.")]
    for streamed in (False, True):
        added.clear()
        async with serve_script(script, [add_to_groceries]) as served:
            answer = (await served.stream())[1] if streamed else await served.create()
            assert [block.type for block in answer.content] == ["text", "mcp_tool_use", "mcp_tool_result", "text"]
            use, result = (block.to_dict() for block in answer.content[1:3])
            assert (use["name"], use["input"], use["server_name"]) == ("add_to_groceries", {"item": "milk"}, "toolyard")
            assert result["tool_use_id"] == use["id"] and result["is_error"] is False
            assert [part["text"] for part in result["content"]] == ["added milk"]
            await served.create([*HELLO, to_param(answer), {"role": "user", "content": "Thanks"}])
            history = served.model.requests[-1].history
            assert list_exchange(history) == ["add_to_groceries['milk']", "add_to_groceries=added milk"]
            texts = [item.text for item in history if isinstance(item, ModelText | UserMessage)]
            assert texts == ["Hello", "One moment.", "Done.", "Thanks"]
        assert added == ["milk"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_of_the_clients_tools_are_handed_out_and_go_on(streamed: bool) -> None:
    script = [
        together(say("Smile."), call("take_photo", of="me"), call("take_photo", of="you")),
        say("Here you are."),
    ]
    async with serve_script(script, [add_to_groceries]) as served:
        first = (await served.stream(tools=[PHOTO]))[1] if streamed else await served.create(tools=[PHOTO])
        assert first.stop_reason == "tool_use"
        assert [(found.name, found.input) for found in list_calls(first)] == [
            ("take_photo", {"of": "me"}),
            ("take_photo", {"of": "you"}),
        ]
        second = await served.create(answer_calls(HELLO, first, "a photo", "another"), tools=[PHOTO])
    assert (join_texts(second), second.stop_reason) == ("Here you are.", "end_turn")
    assert list_exchange(served.model.requests[-1].history) == [
        "take_photo['me']",
        "take_photo['you']",
        "take_photo=a photo",
        "take_photo=another",
    ]
    offered = [[tool.name for tool in request.offer.tools] for request in served.model.requests]
    assert offered == [["take_photo"], ["take_photo"]], "the server's tools are off where the client brings its own"


async def test_instructions_may_come_between_messages() -> None:
    async with serve_script([say("Hi")]) as served:
        await served.create([*HELLO, {"role": "system", "content": "Be brief."}, *HELLO])
    history = served.model.requests[0].history
    assert [type(item).__name__ for item in history] == ["UserMessage", "SystemText", "UserMessage"]


async def test_a_failed_result_is_an_error_to_the_model() -> None:
    async with serve_script([call("take_photo", of="me"), say("Too bad.")]) as served:
        first = await served.create(tools=[PHOTO])
        (only,) = list_calls(first)
        failed = {"type": "tool_result", "tool_use_id": only.id, "content": "no camera", "is_error": True}
        await served.create([*HELLO, to_param(first), {"role": "user", "content": [failed]}], tools=[PHOTO])
    result = served.model.requests[-1].history[-1]
    assert isinstance(result, Result)
    assert (result.outcome, result.content) == ("error", "no camera")


async def test_a_request_chooses_which_of_the_servers_tools_may_run() -> None:
    async with serve_script([say("a")] * 5, [add_to_groceries, order]) as served:
        await served.create(extra_body={"toolyard": {"server_tools": "none"}})
        await served.create(tools=[PHOTO], extra_body={"toolyard": {"server_tools": ["order"]}})
        await served.create(tools=[PHOTO], extra_headers={"x-toolyard-server-tools": "order, add_to_groceries"})
        await served.create(tools=[PHOTO], extra_body={"toolyard": {"web_search": "off"}})
        await served.create()
        with pytest.raises(APIStatusError, match="there is no tool 'nothing'"):
            await served.create(extra_headers={"x-toolyard-server-tools": "nothing"})
    offered = [sorted(tool.name for tool in request.offer.tools) for request in served.model.requests]
    both = ["add_to_groceries", "order"]
    assert offered == [[], ["order", "take_photo"], [*both, "take_photo"], ["take_photo"], both]


async def test_a_run_that_fails_is_an_error() -> None:
    async with serve_script([fail("the model is out"), fail("the model is out")]) as served:
        with pytest.raises(InternalServerError, match="the model is out") as failed:
            await served.create()
        body: Json = failed.value.body
        assert failed.value.status_code == 502 and body["error"]["type"] == "api_error" and body["type"] == "error"
        assert failed.value.request_id == body["request_id"]
        with pytest.raises(APIStatusError, match="the model is out"):
            await served.stream()


async def test_an_unknown_model_and_batches_are_refused_in_words() -> None:
    async with serve_script([]) as served:
        with pytest.raises(NotFoundError, match="'claude-99' is not one of"):
            await served.create(model="claude-99")
        with pytest.raises(NotFoundError, match="there are no batches here"):
            await served.client.messages.batches.create(requests=[])
