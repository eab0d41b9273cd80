"""`/v1/conversations` with OpenAI's own client: what is kept there is what a response goes on from."""

import pytest
from openai import APIStatusError, NotFoundError

from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import connect_client
from surfaces.openai.clients import Served, add_to_groceries, list_exchange, serve_script
from toolyard.core.items import ModelText, UserMessage
from toolyard.testing import call, say

USER: Json = {"type": "message", "role": "user", "content": "Hello"}
ANSWER: Json = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
CALL: Json = {"type": "function_call", "call_id": "mine", "name": "take_photo", "arguments": '{"of": "me"}'}
OUTPUT: Json = {"type": "function_call_output", "call_id": "mine", "output": "a photo"}


async def list_types(served: Served, conversation: str, **query: object) -> list[str]:
    page = await served.client.conversations.items.list(conversation, **query)
    return [item.type async for item in page]


async def test_items_are_kept_in_order_and_a_response_goes_on_from_them() -> None:
    async with serve_script([say("Here you are.")]) as served:
        conversation = await served.client.conversations.create(items=[USER, ANSWER], metadata={"topic": "photos"})
        added = await served.client.conversations.items.create(conversation.id, items=[CALL, OUTPUT])
        assert [item.type for item in added.data] == ["function_call", "function_call_output"]
        assert {item.call_id for item in added.data} == {"mine"}
        answer = await served.client.responses.create(model="default", input="And now?", conversation=conversation.id)
        assert answer.output_text == "Here you are."
        assert await list_types(served, conversation.id, order="asc", limit=2) == [
            "message",
            "message",
            "function_call",
            "function_call_output",
            "message",
            "message",
        ]
        assert (await list_types(served, conversation.id, limit=100))[-3] == "function_call"
        (last,) = (await served.client.conversations.items.list(conversation.id, limit=1)).data
        assert (await served.client.conversations.items.retrieve(last.id, conversation_id=conversation.id)) == last
    (request,) = served.model.requests
    texts = [item.text for item in request.history if isinstance(item, UserMessage | ModelText)]
    assert texts == ["Hello", "Hi", "And now?"]
    assert list_exchange(request.history) == ["take_photo['me']", "take_photo=a photo"]


async def test_metadata_can_be_changed_and_items_and_the_conversation_removed() -> None:
    async with serve_script([]) as served:
        conversations = served.client.conversations
        made = await conversations.create(items=[USER, CALL, OUTPUT, ANSWER], metadata={"a": "1"})
        assert (made.metadata, made.object) == ({"a": "1"}, "conversation")
        await conversations.update(made.id, metadata={"b": "2"})
        assert (await conversations.retrieve(made.id)).metadata == {"b": "2"}
        (call_item,) = [item async for item in await conversations.items.list(made.id) if item.type == "function_call"]
        await conversations.items.delete(call_item.id, conversation_id=made.id)
        assert await list_types(served, made.id) == ["message", "message"], "the result goes with its call"
        assert (await conversations.delete(made.id)).deleted
        with pytest.raises(NotFoundError):
            await conversations.retrieve(made.id)


async def test_a_result_may_come_after_its_call_and_a_stray_one_is_refused() -> None:
    async with serve_script([]) as served:
        items = served.client.conversations.items
        conversation = await served.client.conversations.create()
        await items.create(conversation.id, items=[USER, CALL])
        await items.create(conversation.id, items=[OUTPUT, ANSWER])
        assert len(await list_types(served, conversation.id)) == 4
        with pytest.raises(APIStatusError, match="answers no call") as refused:
            await items.create(conversation.id, items=[OUTPUT])
        assert refused.value.status_code == 400
        with pytest.raises(NotFoundError):
            await items.retrieve("msg_none", conversation_id=conversation.id)
        with pytest.raises(APIStatusError, match="may have 16 keys"):
            await served.client.conversations.create(metadata={"long": "x" * 513})


async def test_a_call_may_follow_one_that_waits_for_its_result() -> None:
    second: Json = {**CALL, "call_id": "second"}
    async with serve_script([]) as served:
        made = await served.client.conversations.create(items=[USER, CALL])
        await served.client.conversations.items.create(made.id, items=[second])
        outputs: list[Json] = [{**OUTPUT, "call_id": "second", "output": photo} for photo in ("a photo", "another")]
        await served.client.conversations.items.create(made.id, items=outputs)
        page = await served.client.conversations.items.list(made.id, order="asc")
        shown = [(item.call_id, item.output) async for item in page if item.type == "function_call_output"]
    assert shown[1:] == [("second", "a photo\nanother")]


async def test_calls_of_a_response_have_the_ids_that_it_showed() -> None:
    tools: Json = [{"type": "function", "name": "take_photo", "parameters": {"type": "object", "properties": {}}}]
    async with serve_script([call("add_to_groceries", item="milk"), call("take_photo")], [add_to_groceries]) as served:
        made = await served.client.conversations.create()
        answer = await served.client.responses.create(model="default", input="Photo", conversation=made.id, tools=tools)
        (shown,) = [item.call_id for item in answer.output if item.type == "function_call"]
        page = await served.client.conversations.items.list(made.id, order="asc")
        assert [item.call_id async for item in page if item.type == "function_call"][-1] == shown


async def test_the_tokens_of_a_request_are_estimated_without_an_answer() -> None:
    async with serve_script([], [add_to_groceries]) as served:
        count = served.client.responses.input_tokens.count
        short = await count(model="default", input="Hello")
        long = await count(model="default", input="Hello " * 4_000, instructions="Be brief. " * 400)
        assert short.object == "response.input_tokens" and 0 < short.input_tokens < 200
        assert 6_000 < long.input_tokens - short.input_tokens < 8_000
        conversation = await served.client.conversations.create(items=[{**USER, "content": "word " * 4_000}])
        within = await count(model="default", input="Hello", conversation=conversation.id)
        assert 4_000 < within.input_tokens - short.input_tokens < 6_000
    assert served.model.requests == []


async def test_a_conversation_of_somebody_else_is_not_there() -> None:
    keys = (build_key("ann"), build_key("bob"))
    async with build_yard([], keys=keys) as yard, connect_client(yard) as client:
        _, made, _ = await client.ask("POST", "/v1/conversations", {}, x_api_key="ann")
        path = f"/v1/conversations/{made['id']}"
        for method in ("GET", "POST", "DELETE"):
            body = {"metadata": {"a": "1"}} if method == "POST" else None
            status, answer, _ = await client.ask(method, path, body, x_api_key="bob")
            assert status == 404 and "there is no" in str(answer), method
        assert (await client.ask("DELETE", path, x_api_key="ann"))[0] == 200
