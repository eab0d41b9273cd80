"""`POST /v1/chat/completions` with OpenAI's own client: texts, streams, tools of the server and of the client."""

import asyncio

import pytest
from openai import APIStatusError

from support import wait_until
from surfaces.api_client import Json
from surfaces.openai.clients import (
    HELLO,
    ParsedOrder,
    add_to_groceries,
    added,
    answer_calls,
    define_tool,
    join_content,
    list_calls,
    list_exchange,
    order,
    serve_script,
    to_param,
)
from toolyard import Caller, tool
from toolyard.core.errors import Refused
from toolyard.core.items import ModelText, UserMessage
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.whole_history import run_starter
from toolyard.surfaces.shared.whole_history.earlier_runs import let_go
from toolyard.testing import call, fail, say, together

PHOTO = define_tool("take_photo", of={"type": "string"})


async def test_a_text_is_answered_and_the_models_are_listed() -> None:
    async with serve_script([say("Hi there.")]) as served:
        models = await served.client.models.list()
        answer = await served.complete()
        default = await served.client.models.retrieve(models.data[0].id)
    assert models.data[0].id == default.id == "default"
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Hi there.", "stop")
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None and answer.usage.total_tokens == 15


async def test_a_stream_has_a_role_then_text_then_an_end() -> None:
    async with serve_script([say("Hi ", "there, ", "you")]) as served:
        chunks = await served.stream(stream_options={"include_usage": True})
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].delta.content for chunk in chunks[1:4]] == ["Hi ", "there, ", "you"]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage is not None and chunks[-1].usage.total_tokens == 15
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_tool_of_the_server_runs_inside_and_all_texts_are_one() -> None:
    script = [together(say("One moment."), call("add_to_groceries", item="milk")), say("Done.")]
    async with serve_script([*script, *script], [add_to_groceries]) as served:
        answer = await served.complete()
        chunks = await served.stream()
    assert added == ["milk", "milk"]
    assert answer.choices[0].message.content == join_content(chunks) == "One moment.\n\nDone."
    assert answer.choices[0].message.tool_calls is None
    assert not any(chunk.choices[0].delta.tool_calls for chunk in chunks)


async def test_a_stream_shows_the_tools_of_the_server_if_it_is_asked_to() -> None:
    async with serve_script([call("add_to_groceries", item="milk"), say("Done.")], [add_to_groceries]) as served:
        chunks = await served.stream(extra_body={"toolyard": {"show_tools": True}})
    deltas: list[Json] = [chunk.choices[0].delta.model_dump(exclude_unset=True) for chunk in chunks]
    shown = [delta["toolyard"] for delta in deltas if "toolyard" in delta]
    assert [(item["name"], item["state"]) for item in shown] == [
        ("add_to_groceries", "started"),
        ("add_to_groceries", "finished"),
    ]


async def test_calls_of_the_clients_tools_are_handed_out_and_the_servers_calls_are_kept() -> None:
    script = [
        call("add_to_groceries", item="milk"),
        together(
            call("take_photo", of="fridge"), call("add_to_groceries", item="eggs"), call("take_photo", of="table")
        ),
        say("Here you are."),
    ]
    async with serve_script(script, [add_to_groceries]) as served:
        first = await served.complete(tools=[PHOTO])
        assert first.choices[0].finish_reason == "tool_calls"
        handed_out = [(call.function.name, call.function.arguments) for call in list_calls(first)]
        assert handed_out == [("take_photo", '{"of":"fridge"}'), ("take_photo", '{"of":"table"}')]
        assert all(len(call.id) <= 64 for call in list_calls(first))
        second = await served.complete(answer_calls(HELLO, first, "a fridge", "a table"), tools=[PHOTO])
        assert second.choices[0].message.content == "Here you are."
        waiting, _ = parse_call_id(list_calls(first)[0].id)
        assert list(await served.yard.history(waiting)) == []
    assert added == ["milk", "eggs"]
    assert list_exchange(served.model.requests[-1].history) == [
        "add_to_groceries['milk']",
        "add_to_groceries=added milk",
        "take_photo['fridge']",
        "add_to_groceries['eggs']",
        "take_photo['table']",
        "take_photo=a fridge",
        "add_to_groceries=added eggs",
        "take_photo=a table",
    ]


async def test_a_second_call_of_the_client_still_knows_of_the_servers_first_one() -> None:
    script = [
        call("add_to_groceries", item="milk"),
        call("take_photo", of="fridge"),
        call("take_photo", of="table"),
        say("Here you are."),
    ]
    async with serve_script(script, [add_to_groceries]) as served:
        first = await served.complete(tools=[PHOTO])
        messages = answer_calls(HELLO, first, "a fridge")
        second = await served.complete(messages, tools=[PHOTO])
        await served.complete(answer_calls(messages, second, "a table"), tools=[PHOTO])
    assert list_exchange(served.model.requests[-1].history) == [
        "add_to_groceries['milk']",
        "add_to_groceries=added milk",
        "take_photo['fridge']",
        "take_photo=a fridge",
        "take_photo['table']",
        "take_photo=a table",
    ]


async def test_streamed_calls_have_an_index_an_id_and_their_arguments() -> None:
    script = [together(say("Smile."), call("take_photo", of="me"), call("take_photo", of="you"))]
    async with serve_script(script) as served:
        chunks = await served.stream(tools=[PHOTO])
    lists: list[list[Json] | None] = [chunk.choices[0].delta.tool_calls for chunk in chunks]
    deltas = [delta for calls in lists if calls for delta in calls]
    arguments = {index: "".join(d.function.arguments for d in deltas if d.index == index) for index in (0, 1)}
    assert arguments == {0: '{"of":"me"}', 1: '{"of":"you"}'}
    assert [delta.index for delta in deltas if delta.id and delta.function.name] == [0, 1]
    assert (join_content(chunks), chunks[-1].choices[0].finish_reason) == ("Smile.", "tool_calls")


async def test_a_tool_of_the_client_hides_the_servers_tool_of_the_same_name() -> None:
    client_tool = define_tool("add_to_groceries", item={"type": "string"})
    async with serve_script([call("add_to_groceries", item="milk")], [add_to_groceries]) as served:
        answer = await served.complete(tools=[client_tool])
    assert [call.function.name for call in list_calls(answer)] == ["add_to_groceries"]
    assert added == []
    assert [tool.venue for tool in served.model.requests[0].offer.tools] == ["client"]


async def test_a_request_chooses_which_of_the_servers_tools_may_run() -> None:
    async with serve_script([say("a"), say("b")], [add_to_groceries, order]) as served:
        await served.complete(extra_body={"toolyard": {"server_tools": "none"}})
        await served.complete(extra_body={"toolyard": {"server_tools": ["order"]}})
        with pytest.raises(APIStatusError, match="there is no tool 'nothing'"):
            await served.complete(extra_body={"toolyard": {"server_tools": ["nothing"]}})
    offered = [[tool.name for tool in request.offer.tools] for request in served.model.requests]
    assert offered == [[], ["order"]]


async def test_an_approval_is_a_sentence_with_a_link_until_it_is_decided() -> None:
    script = [call("order", item="milk"), say("Ordered."), say("You are welcome.")]
    async with serve_script(script, [order]) as served:
        first = await served.complete()
        sentence = first.choices[0].message.content or ""
        assert "`order` waits for an approval" in sentence and "/#/chat/conversation_" in sentence
        assert first.choices[0].finish_reason == "stop"
        messages = [*HELLO, to_param(first), {"role": "user", "content": "Thanks"}]
        for asked_again in (HELLO, messages[:-1]):  # another answer is wanted, or that the last one goes on
            again = await served.complete(asked_again)
            assert (again.choices[0].message.content, len(served.model.requests)) == (sentence, 1)
        streamed = await served.stream(messages[:-1])
        assert (join_content(streamed), len(served.model.requests)) == (sentence, 1)
        about: Json = first.model_extra["toolyard"]
        (waiting,) = about["waiting"]
        await served.yard.approve(about["conversation_id"], waiting["call_id"])
        last = await served.complete(messages)
    assert (added, last.choices[0].message.content) == (["ordered milk"], "You are welcome.")
    history = served.model.requests[-1].history
    assert list_exchange(history) == ["order['milk']", "order=ordered milk"]
    assert not any(sentence in getattr(item, "text", "") for item in history)


async def test_a_new_message_lets_a_call_go_that_only_its_user_may_decide() -> None:
    script = [call("order", item="milk"), say("Then not."), say("Good day.")]
    async with serve_script(script, [order]) as served:
        first = await served.complete()
        messages = [*HELLO, to_param(first), {"role": "user", "content": "Forget it"}]
        second = await served.complete(messages)
        assert second.choices[0].message.content == "Then not."
        (waiting,) = first.model_extra["toolyard"]["waiting"]
        with pytest.raises(Refused):
            await served.yard.approve(first.model_extra["toolyard"]["conversation_id"], waiting["call_id"])
        await served.complete([*messages, to_param(second), {"role": "user", "content": "Hello?"}])
    assert added == []
    exchanges = [list_exchange(request.history) for request in served.model.requests]
    denied = ["order['milk']", "order=the user declined: the user went on"]
    assert [*map(len, exchanges)] == [0, 2, 2] and exchanges[1][0] == denied[0] and denied[1][6:] in exchanges[1][1]


async def test_two_messages_at_once_let_a_call_go_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both = asyncio.Barrier(2)

    async def let_go_together(*arguments: Json) -> bool:
        await both.wait()  # both have seen that the run waits
        return await let_go(*arguments)

    monkeypatch.setattr(run_starter, "let_go", let_go_together)
    script = [call("order", item="milk"), say("One."), say("Two.")]
    async with serve_script(script, [order]) as served:
        first = await served.complete()
        texts = ("Forget it", "Hello?")
        histories = [[*HELLO, to_param(first), {"role": "user", "content": text}] for text in texts]
        answers = await asyncio.gather(*map(served.complete, histories))
    assert {answer.choices[0].message.content for answer in answers} == {"One.", "Two."} and added == []


async def test_a_call_that_others_decide_stays_open_while_its_user_goes_on() -> None:
    @tool(approval="other")
    def pay(amount: int) -> str:
        """Pay if somebody else approves."""
        added.append(f"paid {amount}")
        return "paid"

    script = [call("pay", amount=5), say("It is sunny."), say("Paid."), say("Good."), say("Again sunny.")]
    async with serve_script(script, [pay]) as served:
        first = await served.complete()
        sentence, about = first.choices[0].message.content, first.model_extra["toolyard"]
        messages = [*HELLO, to_param(first), {"role": "user", "content": "How is the weather?"}]
        second = await served.complete(messages)
        assert second.choices[0].message.content == f"{sentence}\n\nIt is sunny."
        boss = Caller(user="boss", roles=frozenset({"approver"}))
        await served.yard.approve(about["conversation_id"], about["waiting"][0]["call_id"], caller=boss)
        await wait_until(lambda: len(served.model.requests) == 3)
        messages += [to_param(second), {"role": "user", "content": "Is it paid?"}]
        third = await served.complete(messages)
        assert third.choices[0].message.content == "Good."
        streamed = await served.stream(messages[:3])
        assert join_content(streamed) == "Again sunny.", "the call is decided by now"
    assert added == ["paid 5"]
    history = served.model.requests[3].history
    texts = [item.text for item in history if isinstance(item, UserMessage | ModelText)]
    assert texts == ["Hello", "Paid.", "How is the weather?", "It is sunny.", "Is it paid?"]
    assert sentence not in str(served.model.requests[1].history)


async def test_a_plain_model_is_listed_and_offered_none_of_the_servers_tools() -> None:
    async with serve_script([say("A title")], [order]) as served:
        assert "default@plain" in [model.id for model in (await served.client.models.list()).data]
        answer = await served.client.chat.completions.create(model="default@plain", messages=HELLO)
        assert answer.choices[0].message.content == "A title"
    assert served.model.requests[0].offer.tools == ()


async def test_every_sentence_whose_run_has_ended_is_replaced() -> None:
    script = [call("order", item="milk"), say("One."), call("order", item="eggs"), say("Two."), say("Both.")]
    async with serve_script(script, [order]) as served:
        messages = list(HELLO)
        for _ in range(2):
            answer = await served.complete(messages)
            about: Json = answer.model_extra["toolyard"]
            await served.yard.approve(about["conversation_id"], about["waiting"][0]["call_id"])
            messages += [to_param(answer), {"role": "user", "content": "Go on"}]
        await served.complete(messages)
    history = served.model.requests[-1].history
    expected = ["order['milk']", "order=ordered milk", "order['eggs']", "order=ordered eggs"]
    assert list_exchange(history) == expected
    assert not any("waits for an approval" in getattr(item, "text", "") for item in history)


async def test_a_wait_is_a_refusal_where_the_answer_has_to_fit_a_schema() -> None:
    async with serve_script([call("order", item="milk")] * 4, [order]) as served:
        parsed = await served.client.chat.completions.parse(
            model="default", messages=HELLO, response_format=ParsedOrder
        )
        message = parsed.choices[0].message
        assert (message.parsed, message.content) == (None, None)
        assert "`order` waits for an approval" in message.refusal
        again = await served.complete([*HELLO, to_param(parsed)])
        assert "`order` waits for an approval" in str(again.choices[0].message)
        chunks = await served.stream(response_format=ORDER_FORMAT)
        assert join_content(chunks) == "" and any(chunk.choices[0].delta.refusal for chunk in chunks)
        response = await served.client.responses.parse(model="default", input="Hello", text_format=ParsedOrder)
        assert response.output_parsed is None and response.output[-1].content[0].type == "refusal"
        stream = await served.client.responses.create(
            model="default", input="Hello", text={"format": {"type": "json_object"}}, stream=True
        )
        kinds = [event.type async for event in stream]
        assert "response.refusal.done" in kinds and "response.output_text.delta" not in kinds


async def test_results_that_come_while_an_approved_call_runs_wait_for_it() -> None:
    release, entered = asyncio.Event(), asyncio.Event()

    @tool(approval="ask")
    async def slow_order(item: str) -> str:
        """Order slowly."""
        entered.set()
        await release.wait()
        return f"ordered {item}"

    script = [together(call("slow_order", item="milk"), call("take_photo", of="a")), say("done")]
    async with serve_script(script, [slow_order]) as served:
        first = await served.complete(tools=[PHOTO])
        about: Json = first.model_extra["toolyard"]
        await served.yard.approve(about["conversation_id"], about["waiting"][0]["call_id"])
        await entered.wait()
        delivering = asyncio.create_task(served.complete(answer_calls(HELLO, first, "a photo"), tools=[PHOTO]))
        await asyncio.sleep(0)
        release.set()
        assert (await delivering).choices[0].message.content == "done"
    assert list_exchange(served.model.requests[-1].history)[2:] == ["slow_order=ordered milk", "take_photo=a photo"]


async def test_a_run_that_fails_is_an_error_and_one_at_its_limit_is_cut_off() -> None:
    async with serve_script([fail("the model is out"), fail("the model is out")]) as served:
        with pytest.raises(APIStatusError, match="the model is out") as failed:
            await served.complete()
        assert failed.value.status_code == 502 and failed.value.type == "server_error"
        with pytest.raises(Exception, match="the model is out"):
            await served.stream()


async def test_a_client_that_leaves_does_not_stop_its_run() -> None:
    release, entered = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_release() -> str:
        """Wait."""
        entered.set()
        await release.wait()
        added.append("released")
        return "released"

    async with serve_script([call("wait_for_release"), say("Done.")], [wait_for_release]) as served:
        asking = asyncio.create_task(served.complete())
        await entered.wait()
        asking.cancel()
        release.set()
        await wait_until(lambda: len(served.model.requests) == 2)
    assert added == ["released"]


ORDER_SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["item", "count"],
    "additionalProperties": False,
}
ORDER_FORMAT = {"type": "json_schema", "json_schema": {"name": "order", "schema": ORDER_SCHEMA, "strict": True}}


async def test_structured_output_comes_alone_after_a_tool_and_after_a_repair() -> None:
    script = [
        together(say("Let me look."), call("add_to_groceries", item="milk")),
        say('{"item": "milk"}'),
        say('{"item": "milk", "count": 2}'),
    ]
    async with serve_script([*script, *script], [add_to_groceries]) as served:
        answer = await served.complete(response_format=ORDER_FORMAT)
        chunks = await served.stream(response_format=ORDER_FORMAT)
    assert answer.choices[0].message.content == join_content(chunks) == '{"item": "milk", "count": 2}'


async def test_an_output_type_of_the_client_is_parsed() -> None:
    async with serve_script([say('{"item": "milk", "count": 2}')]) as served:
        parsed = await served.client.chat.completions.parse(
            model="default", messages=HELLO, response_format=ParsedOrder
        )
    assert parsed.choices[0].message.parsed == ParsedOrder(item="milk", count=2)


async def test_a_text_beside_a_call_of_the_client_is_no_structured_output() -> None:
    script = [together(say("Let me look."), call("take_photo", of="a"))]
    async with serve_script([*script, *script]) as served:
        answer = await served.complete(response_format=ORDER_FORMAT, tools=[PHOTO])
        chunks = await served.stream(response_format=ORDER_FORMAT, tools=[PHOTO])
    assert (answer.choices[0].message.content, join_content(chunks)) == (None, "")
    assert answer.choices[0].finish_reason == "tool_calls"


async def test_json_mode_takes_any_object_and_nothing_else() -> None:
    async with serve_script([say('{"a": 1}'), say("no"), say("no")]) as served:
        answer = await served.complete(response_format={"type": "json_object"})
        assert answer.choices[0].message.content == '{"a": 1}'
        with pytest.raises(APIStatusError) as failed:
            await served.complete(response_format={"type": "json_object"})
    assert failed.value.status_code == 502


async def test_a_required_call_is_one_of_the_clients_tools_if_it_sent_any() -> None:
    """A call of the server's tools does not satisfy it, and after two rounds of them only the client's are offered."""
    groceries = call("add_to_groceries", item="milk")
    script = [groceries, groceries, call("take_photo", of="me"), say("Done.")]
    async with serve_script(script, [add_to_groceries]) as served:
        answer = await served.complete(tools=[PHOTO], tool_choice="required")
        assert [found.function.name for found in list_calls(answer)] == ["take_photo"]
        final = await served.complete(answer_calls(HELLO, answer, "a photo"), tools=[PHOTO])
        assert final.choices[0].message.content == "Done."
    requests = served.model.requests
    assert [request.tool_choice for request in requests] == ["required", "required", "required", "auto"]
    offered = [sorted(tool.name for tool in request.offer.tools) for request in requests]
    assert offered[1:3] == [["add_to_groceries", "take_photo"], ["take_photo"]]


async def test_a_required_call_of_a_request_without_tools_is_one_of_the_servers() -> None:
    async with serve_script([call("add_to_groceries", item="milk"), say("Added.")], [add_to_groceries]) as served:
        answer = await served.complete(tool_choice="required")
        assert answer.choices[0].message.content == "Added."
    assert [request.tool_choice for request in served.model.requests] == ["required", "auto"]
