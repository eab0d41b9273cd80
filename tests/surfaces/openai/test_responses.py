"""`/v1/responses` with OpenAI's own client, whose types parse every object and every event."""

import asyncio
import json

import aiohttp
import pytest
from msgspec.structs import replace
from openai import APIError, APIStatusError, NotFoundError
from pydantic import BaseModel

from support import wait_until
from surfaces.api_client import Json
from surfaces.openai.clients import ParsedOrder, Served, add_to_groceries, added, list_exchange, order, serve_script
from toolyard import Caller, tool
from toolyard.testing import call, fail, say, together

PHOTO = {
    "type": "function",
    "name": "take_photo",
    "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
}


async def respond(served: Served, input: object = "Hello", **fields: object) -> Json:
    return await served.client.responses.create(model="default", input=input, **fields)


async def stream_response(served: Served, input: object = "Hello", **fields: object) -> list[Json]:
    stream = await served.client.responses.create(model="default", input=input, stream=True, **fields)
    return [event async for event in stream]


def deliver(response: Json, *outputs: str) -> list[Json]:
    calls = [item for item in response.output if item.type == "function_call"]
    return [
        {"type": "function_call_output", "call_id": call.call_id, "output": output}
        for call, output in zip(calls, outputs, strict=True)
    ]


async def test_a_text_is_answered_found_again_and_deleted() -> None:
    async with serve_script([say("Hi there.")]) as served:
        answer = await respond(served, instructions="Be brief.", metadata={"a": "b"})
        assert (answer.output_text, answer.status, answer.object) == ("Hi there.", "completed", "response")
        assert answer.usage.total_tokens == 15
        assert "Be brief." in served.model.requests[0].system
        retrieved = await served.client.responses.retrieve(answer.id)
        assert (retrieved.output_text, retrieved.instructions) == ("Hi there.", "Be brief.")
        items = [item async for item in await served.client.responses.input_items.list(answer.id)]
        assert [item.content[0].text for item in items] == ["Hello"]
        await served.client.responses.delete(answer.id)
        with pytest.raises(APIStatusError, match="there is no response"):
            await served.client.responses.retrieve(answer.id)


async def test_a_stream_has_every_event_in_order_and_ends_with_the_whole_response() -> None:
    script = [together(say("One ", "moment."), call("add_to_groceries", item="milk")), say("Done.")]
    async with serve_script(script, [add_to_groceries]) as served:
        events = await stream_response(served)
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers)) and numbers[-1] < 2**53
    done = {event.output_index: event.item for event in events if event.type == "response.output_item.done"}
    final = events[-1].response
    assert [item.id for item in final.output] == [done[index].id for index in sorted(done)]
    assert [item.type for item in final.output] == ["message", "mcp_call", "message"]
    assert (final.output[1].output, final.output_text) == ("added milk", "One moment.Done.")
    added_call = next(
        event.item for event in events if event.type == "response.output_item.added" and event.output_index == 1
    )
    assert added_call.arguments == ""


async def test_a_response_goes_on_from_the_last_one_and_from_an_earlier_one() -> None:
    async with serve_script([say("one"), say("two"), say("another two")]) as served:
        first = await respond(served, "1")
        second = await respond(served, "2", previous_response_id=first.id)
        fork = await respond(served, "2b", previous_response_id=first.id)
        assert (second.output_text, fork.output_text) == ("two", "another two")
        texts = [[getattr(item, "text", "") for item in request.history] for request in served.model.requests]
        assert texts == [["1"], ["1", "one", "2"], ["1", "one", "2b"]]
        assert (await served.client.responses.retrieve(first.id)).output_text == "one"
        assert (await served.client.responses.retrieve(second.id)).output_text == "two"


async def test_results_lead_back_with_and_without_the_earlier_response() -> None:
    turns = [
        call("add_to_groceries", item="milk"),
        together(call("take_photo", of="a"), call("take_photo", of="b")),
        say("Here you are."),
    ]
    async with serve_script([*turns, *turns], [add_to_groceries]) as served:
        first = await respond(served, tools=[PHOTO])
        assert [item.type for item in first.output] == ["mcp_call", "function_call", "function_call"]
        assert first.status == "completed"
        second = await respond(served, deliver(first, "A", "B"), tools=[PHOTO], previous_response_id=first.id)
        assert (second.output_text, second.id != first.id) == ("Here you are.", True)
        retrieved = await served.client.responses.retrieve(first.id)
        assert (retrieved.status, len(retrieved.output)) == ("completed", 3)

        stateless = await respond(served, tools=[PHOTO], store=False)
        echoed = [item.model_dump(exclude_none=True) for item in stateless.output]
        items = [{"role": "user", "content": "Hello"}, *echoed, *deliver(stateless, "A", "B")]
        last = await respond(served, items, tools=[PHOTO], store=False)
        assert last.output_text == "Here you are."
    expected = [
        "add_to_groceries['milk']",
        "add_to_groceries=added milk",
        "take_photo['a']",
        "take_photo['b']",
        "take_photo=A",
        "take_photo=B",
    ]
    assert [list_exchange(served.model.requests[index].history) for index in (2, 5)] == [expected, expected]
    assert added == ["milk", "milk"]


async def test_results_that_the_chain_has_are_ignored_and_others_are_refused() -> None:
    """Some clients send the results of all rounds each time."""
    long = "a long photo " * 20_000  # only its head and tail stand in the history
    script = [call("take_photo", of="a"), call("take_photo", of="b"), say("Here you are.")]
    async with serve_script(script) as served:
        first = await respond(served, tools=[PHOTO])
        second = await respond(served, deliver(first, long), tools=[PHOTO], previous_response_id=first.id)
        with pytest.raises(APIStatusError, match="has another function_call_output already") as refused:
            changed = [*deliver(first, "another"), *deliver(second, "B")]
            await respond(served, changed, tools=[PHOTO], previous_response_id=second.id)
        assert refused.value.status_code == 400
        both = [*deliver(first, long), *deliver(second, "B")]
        last = await respond(served, both, tools=[PHOTO], previous_response_id=second.id)
        assert last.output_text == "Here you are."
    assert len(list_exchange(served.model.requests[2].history)) == 4


async def test_an_item_of_a_stored_response_can_be_named_in_its_place() -> None:
    script = [together(say("One moment."), call("add_to_groceries", item="milk")), call("take_photo", of="a"), say("B")]
    async with serve_script(script, [add_to_groceries]) as served:
        first = await respond(served, tools=[PHOTO])
        references: list[Json] = [{"type": "item_reference", "id": item.id} for item in first.output]
        assert [item.type for item in first.output] == ["message", "mcp_call", "function_call"]
        assert all(len(item.id) <= 64 for item in first.output)
        hello: Json = {"role": "user", "content": "Hello"}
        answer = await respond(served, [hello, *references, *deliver(first, "A")], tools=[PHOTO])
        assert answer.output_text == "B"
        unknown: Json = {"type": "item_reference", "id": references[0]["id"].replace("t1", "t9")}
        for items in ([hello, unknown], [hello, {**unknown, "id": "msg_1"}]):
            with pytest.raises(NotFoundError, match="there is no item"):
                await respond(served, items)
    history = served.model.requests[-1].history
    assert list_exchange(history)[:2] == ["add_to_groceries['milk']", "add_to_groceries=added milk"]
    assert "One moment." in [getattr(item, "text", "") for item in history]
    assert added == ["milk"]


async def test_a_missing_result_is_asked_for_by_name() -> None:
    async with serve_script([together(call("take_photo", of="a"), call("take_photo", of="b"))]) as served:
        first = await respond(served, tools=[PHOTO])
        with pytest.raises(APIStatusError, match="wait for their function_call_output") as refused:
            await respond(served, deliver(first, "A", "B")[:1], tools=[PHOTO], previous_response_id=first.id)
        assert refused.value.status_code == 400


async def test_a_stream_can_be_taken_up_again_after_every_event() -> None:
    script = [
        together(say("One ", "moment."), call("add_to_groceries", item="milk"), call("add_to_groceries", item="eggs")),
        say("Do", "ne."),
    ]
    async with serve_script(script, [add_to_groceries]) as served:
        events = await stream_response(served)
        response_id = events[0].response.id
        for index, event in enumerate(events[:-1]):
            stream = await served.client.responses.retrieve(
                response_id, stream=True, starting_after=event.sequence_number
            )
            resumed = [later async for later in stream]
            text = "".join(later.delta for later in resumed if later.type == "response.output_text.delta")
            missing = [later for later in events[index + 1 :] if later.type == "response.output_text.delta"]
            assert text == "".join(later.delta for later in missing), index
            kinds = [later.type for later in resumed if later.type != "response.output_text.delta"]
            assert kinds == [e.type for e in events[index + 1 :] if e.type != "response.output_text.delta"], index
            assert resumed[-1].response.output == events[-1].response.output


async def test_a_background_response_is_asked_for_later_and_can_be_cancelled() -> None:
    entered = asyncio.Event()

    @tool
    async def wait_for_ever() -> str:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()
        return ""

    async with serve_script([call("wait_for_ever"), say("Done.")], [wait_for_ever]) as served:
        started = await respond(served, background=True)
        assert started.status == "queued"
        await entered.wait()
        assert (await served.client.responses.retrieve(started.id)).status == "in_progress"
        cancelled = await served.client.responses.cancel(started.id)
        assert cancelled.status == "cancelled"
        finished = await respond(served, background=True)
        assert finished.id != started.id
        await wait_until(lambda: len(served.model.requests) == 2)
        while (retrieved := await served.client.responses.retrieve(finished.id)).status != "completed":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert retrieved.output_text == "Done."


async def test_an_approval_is_a_sentence_and_nothing_starts_before_it() -> None:
    async with serve_script([call("order", item="milk"), say("Ordered."), say("Welcome.")], [order]) as served:
        first = await respond(served)
        assert "`order` waits for an approval" in first.output_text
        again = await respond(served)
        assert (again.output_text, len(served.model.requests)) == (first.output_text, 1)
        (waiting,) = [item for item in first.output if item.type == "mcp_call"]
        conversation = f"conversation_{first.id[5:29]}"
        await served.yard.approve(conversation, f"call_{waiting.id[-24:]}")
        await wait_until(lambda: len(served.model.requests) == 2)
        last = await respond(served, "Thanks", previous_response_id=first.id)
    assert (last.output_text, added) == ("Welcome.", ["ordered milk"])


async def test_a_failed_run_is_an_error_and_is_found_as_failed() -> None:
    async with serve_script([fail("the model is out"), together(say("Well"), fail("the model is out"))]) as served:
        with pytest.raises(APIStatusError, match="the model is out"):
            await respond(served)
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{served.url}/v1/responses", json={"input": "Hello", "stream": True}) as streamed,
        ):
            lines = (await streamed.text()).split("\n")
        events: list[Json] = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        # OpenAI's own order: an error, for which its clients raise, then the failed response.
        assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
        assert events[-2]["sequence_number"] < events[-1]["sequence_number"]
        expected = {"message": "the model is out", "type": "server_error", "param": None, "code": "server_error"}
        assert events[-2]["error"] == expected
        response_id = events[-1]["response"]["id"]
        retrieved = await served.client.responses.retrieve(response_id)
        assert (retrieved.status, retrieved.error.message) == ("failed", "the model is out")
        resumed = await served.client.responses.retrieve(response_id, stream=True)
        with pytest.raises(APIError, match="the model is out"):
            _ = [event async for event in resumed]


async def test_a_response_that_never_was_in_its_conversation_is_missing_by_its_code() -> None:
    async with serve_script([say("one")]) as served:
        first = await respond(served)
        with pytest.raises(APIStatusError, match="there is no response") as raised:
            await respond(served, previous_response_id=first.id[:-24] + "0" * 24)
    error = raised.value
    assert (error.status_code, error.code, error.param) == (400, "previous_response_not_found", "previous_response_id")


async def test_what_is_not_stored_is_not_found_and_others_never_are() -> None:
    async with serve_script([say("one")]) as served:
        for wrong in ("resp_1", f"resp_{'0' * 48}"):
            with pytest.raises(APIStatusError, match="there is no response"):
                await served.client.responses.retrieve(wrong)
        with pytest.raises(APIStatusError, match="there is no response"):
            await respond(served, previous_response_id=f"resp_{'0' * 48}")
        with pytest.raises(APIStatusError, match="input: is empty"):
            await respond(served, [])
        assert (await respond(served, store=False)).store is False


async def test_structured_output_is_the_only_text_of_a_response() -> None:
    script = [
        together(say("Let me look."), call("add_to_groceries", item="milk")),
        say("no JSON"),
        say('{"item": "milk", "count": 2}'),
    ]
    async with serve_script([*script, *script], [add_to_groceries]) as served:
        parsed = await served.client.responses.parse(model="default", input="Hello", text_format=ParsedOrder)
        assert parsed.output_parsed == ParsedOrder(item="milk", count=2)
        events = await stream_response(served, text={"format": {"type": "json_object"}})
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert text == events[-1].response.output_text == '{"item": "milk", "count": 2}'


async def test_a_stateless_delivery_never_deletes_what_is_stored() -> None:
    script = [say("one"), call("take_photo", of="a"), say("done")]
    async with serve_script(script) as served:
        first = await respond(served)
        waiting = await respond(served, "Photo", tools=[PHOTO], previous_response_id=first.id)
        echoed = [item.model_dump(exclude_none=True) for item in waiting.output]
        items = [{"role": "user", "content": "Photo"}, *echoed, *deliver(waiting, "A")]
        last = await respond(served, items, tools=[PHOTO])
        assert last.output_text == "done"
        assert (await served.client.responses.retrieve(first.id)).output_text == "one"


async def test_a_delivery_that_is_sent_again_joins_and_a_retry_forks_nothing() -> None:
    retry = {"x-stainless-retry-count": "1"}
    script = [say("one"), call("take_photo", of="a"), call("add_to_groceries", item="milk"), say("done"), say("two")]
    async with serve_script(script, [add_to_groceries]) as served:
        first = await respond(served)
        waiting = await respond(served, "Photo", tools=[PHOTO], previous_response_id=first.id)
        body: Json = {"input": deliver(waiting, "A"), "tools": [PHOTO], "previous_response_id": waiting.id}
        delivered = await respond(served, **body)
        assert (await respond(served, **body)).id == delivered.id
        assert (await respond(served, extra_headers=retry, **body)).id == delivered.id
        forked = await respond(served, "Again", previous_response_id=first.id)
        again = await respond(served, "Again", previous_response_id=first.id, extra_headers=retry)
        assert (again.id, again.output_text) == (forked.id, "two")
        assert await served.yard.service.conversations.list_cards(Caller(user="local"), unlisted=False) == []
    assert added == ["milk"]


async def test_echoed_calls_of_the_server_and_the_client_may_alternate() -> None:
    turn = together(call("take_photo", of="a"), call("add_to_groceries", item="milk"), call("take_photo", of="b"))
    async with serve_script([turn, say("done"), say("plain")], [add_to_groceries]) as served:
        waiting = await respond(served, tools=[PHOTO], store=False)
        echoed = [item.model_dump(exclude_none=True) for item in waiting.output]
        items = [{"role": "user", "content": "Hello"}, *echoed, *deliver(waiting, "A", "B")]
        assert (await respond(served, items, tools=[PHOTO], store=False)).output_text == "done"
        items.append({"role": "user", "content": "More"})
        assert (await respond(served, items, tools=[PHOTO], store=False)).output_text == "plain"
    assert added == ["milk"]


async def test_a_deleted_response_of_a_conversation_is_gone_and_the_conversation_stays() -> None:
    async with serve_script([say("one"), say("two")]) as served:
        first = await respond(served, "SECRET")
        second = await respond(served, "2", previous_response_id=first.id)
        await served.client.responses.delete(first.id)
        with pytest.raises(APIStatusError, match="there is no response"):
            await served.client.responses.retrieve(first.id)
        with pytest.raises(APIStatusError, match="there is no response"):
            await served.client.responses.input_items.list(first.id)
        assert (await served.client.responses.retrieve(second.id)).output_text == "two"


async def test_the_servers_tools_are_chosen_only_where_a_conversation_begins() -> None:
    async with serve_script([say("one"), say("two")], [add_to_groceries]) as served:
        first = await respond(served, extra_body={"toolyard": {"server_tools": "none"}})
        with pytest.raises(APIStatusError, match="only where a conversation begins"):
            await respond(
                served, previous_response_id=first.id, extra_body={"toolyard": {"server_tools": ["add_to_groceries"]}}
            )
        await served.yard.ask("Hello", conversation="mine")
        with pytest.raises(APIStatusError, match="responses cannot name it"):
            await respond(served, conversation="mine")
        with pytest.raises(APIStatusError, match="there is no conversation 'yours'") as missing:
            await respond(served, conversation="yours")
        assert (missing.value.status_code, missing.value.param) == (404, "conversation")


async def test_requests_at_once_after_one_response_do_not_read_each_other() -> None:
    async with serve_script(lambda _: say("ok")) as served:
        first = await respond(served, "hi")
        await asyncio.gather(*(respond(served, text, previous_response_id=first.id) for text in ("left", "right")))
        texts = [[getattr(item, "text", "") for item in request.history] for request in served.model.requests[1:]]
    assert sorted(texts) == [["hi", "ok", "left"], ["hi", "ok", "right"]]


async def test_a_response_that_is_found_again_repeats_its_request() -> None:
    async with serve_script([say("one"), say("two"), say("three")]) as served:
        first = await respond(served, metadata={"a": "b"}, parallel_tool_calls=False)
        second = await respond(served, previous_response_id=first.id, background=True)
        retrieved = [await served.client.responses.retrieve(response.id) for response in (first, second)]
        assert (retrieved[0].metadata, retrieved[0].parallel_tool_calls) == ({"a": "b"}, False)
        assert (retrieved[1].previous_response_id, retrieved[1].background, retrieved[1].metadata) == (
            first.id,
            True,
            {},
        )
        await wait_until(lambda: len(served.model.requests) == 2)
        conversation = f"conversation_{first.id[5:29]}"
        third = await respond(served, conversation=conversation)
        assert (await served.client.responses.retrieve(third.id)).conversation.id == conversation
        with pytest.raises(APIStatusError, match="metadata: may have"):
            await respond(served, metadata={"a": "b" * 513})


async def test_the_input_items_of_a_call_and_its_output_have_one_call_id() -> None:
    items = [
        {"role": "user", "content": "Hello"},
        {"type": "function_call", "call_id": "call_of_mine", "name": "take_photo", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_of_mine", "output": "A"},
    ]
    async with serve_script([say("ok")]) as served:
        answer = await respond(served, items, tools=[PHOTO])
        listed = [item async for item in await served.client.responses.input_items.list(answer.id)]
    assert [item.call_id for item in listed[:2]] == ["call_of_mine", "call_of_mine"]


async def test_the_input_items_of_a_response_come_in_pages() -> None:
    items = [{"role": "user", "content": f"Hello {number}"} for number in range(5)]
    async with serve_script([say("ok")]) as served:
        answer, listing = await respond(served, items), served.client.responses.input_items
        pages = [page async for page in (await listing.list(answer.id, limit=2, order="asc")).iter_pages()]
        assert [len(page.data) for page in pages] == [2, 2, 1]
        ids = [item.id for page in pages for item in page.data]
        assert [item.id async for item in await listing.list(answer.id)] == ids[::-1]
        with pytest.raises(NotFoundError, match="there is no item 'msg_x'"):
            await listing.list(answer.id, after="msg_x")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 9}, "temperature"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"max_tool_calls": 3}, "max_tool_calls"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "array"}}}}, "text.format"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ],
)
async def test_an_error_names_the_field_that_was_sent(fields: Json, param: str) -> None:
    async with serve_script(lambda _: say("ok")) as served:
        with pytest.raises(APIStatusError) as refused:
            await respond(served, **fields)
    assert (refused.value.status_code, refused.value.body["param"]) == (400, param)  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_refusal_beside_a_schema_is_no_text_that_clients_parse(streamed: bool) -> None:
    class Basket(BaseModel):
        item: str

    refused = replace(say("I cannot help with that."), finish="refused")
    async with serve_script([refused]) as served:
        if streamed:
            async with served.client.responses.stream(model="default", input="x", text_format=Basket) as stream:
                kinds = [event.type async for event in stream]
                answer: Json = await stream.get_final_response()
            assert "response.refusal.done" in kinds and "response.output_text.delta" not in kinds
        else:
            answer = await served.client.responses.parse(model="default", input="x", text_format=Basket)
    ((part,),) = [item.content for item in answer.output]
    assert (part.type, part.refusal, answer.output_parsed) == ("refusal", "I cannot help with that.", None)
    assert (answer.status, answer.incomplete_details) == ("completed", None)
