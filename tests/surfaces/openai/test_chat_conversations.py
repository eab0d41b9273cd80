"""Chat completions in a stored conversation, whose log is the truth."""

import asyncio

import pytest
from openai import APIStatusError

from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import connect_client
from surfaces.openai.clients import (
    HELLO,
    Served,
    add_to_groceries,
    added,
    answer_calls,
    define_tool,
    list_exchange,
    order,
    serve_script,
    to_param,
)
from toolyard import tool
from toolyard.core.items import ModelText, UserMessage
from toolyard.testing import call, say, together

PHOTO = define_tool("take_photo", of={"type": "string"})
BYE: Json = {"role": "user", "content": "Bye"}
RETRY = {"x-stainless-retry-count": "1"}
PATH = "/v1/chat/completions"


def find_conversation(answer: Json) -> str:
    return answer.model_extra["toolyard"]["conversation_id"]


async def complete_in(served: Served, conversation: object, messages: list[Json], **fields: object) -> Json:
    return await served.complete(messages, store=True, extra_body={"conversation": conversation}, **fields)


def list_texts(served: Served) -> list[str]:
    """Return the texts of the last model request."""
    history = served.model.requests[-1].history
    return [item.text for item in history if isinstance(item, UserMessage | ModelText)]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_goes_on_in_the_conversation_and_earlier_messages_are_not_read(streamed: bool) -> None:
    script = [call("add_to_groceries", item="milk"), say("Added."), say("Goodbye.")]
    async with serve_script(script, [add_to_groceries]) as served:
        first = await served.complete(store=True)
        conversation = find_conversation(first)
        messages = [{"role": "user", "content": "Not what I said"}, {"role": "assistant", "content": "Nor I"}, BYE]
        if streamed:
            chunks = await served.stream(messages, store=True, extra_body={"conversation": conversation})
            assert chunks[-1].model_extra["toolyard"]["conversation_id"] == conversation
        else:
            second = await complete_in(served, {"id": conversation}, messages)
            assert (find_conversation(second), second.choices[0].message.content) == (conversation, "Goodbye.")
        stored = [item for item in await served.yard.history(conversation) if isinstance(item, UserMessage | ModelText)]
    assert list_texts(served) == ["Hello", "Added.", "Bye"]
    assert list_exchange(served.model.requests[-1].history) == [
        "add_to_groceries['milk']",
        "add_to_groceries=added milk",
    ]
    assert [item.text for item in stored] == ["Hello", "Added.", "Bye", "Goodbye."]


async def test_results_lead_back_to_the_conversation_once() -> None:
    script = [
        say("Hi."),
        together(call("take_photo", of="a"), call("add_to_groceries", item="eggs"), call("take_photo", of="b")),
        call("add_to_groceries", item="milk"),
        say("Here."),
    ]
    async with serve_script(script, [add_to_groceries]) as served:
        conversation = find_conversation(await served.complete(store=True))
        first = await complete_in(served, conversation, [BYE], tools=[PHOTO])
        messages = answer_calls([BYE], first, "photo a", "photo b")
        with pytest.raises(APIStatusError, match="wait for their tool messages") as refused:
            await complete_in(served, conversation, messages[:-1], tools=[PHOTO])
        assert (refused.value.status_code, messages[-1]["tool_call_id"] in str(refused.value)) == (400, True)
        answers = await asyncio.gather(
            *(complete_in(served, conversation, messages, tools=[PHOTO]) for _ in range(3)),
        )
    assert {answer.choices[0].message.content for answer in answers} == {"Here."}
    assert len({answer.id for answer in answers}) == 1
    assert added == ["eggs", "milk"]
    assert list_exchange(served.model.requests[-1].history)[3:6] == [
        "take_photo=photo a",
        "add_to_groceries=added eggs",
        "take_photo=photo b",
    ]


async def test_a_retry_joins_its_run() -> None:
    async with serve_script([say("Hi."), say("Goodbye.")]) as served:
        conversation = find_conversation(await served.complete(store=True))
        first = await complete_in(served, conversation, [BYE])
        again = await complete_in(served, conversation, [BYE], extra_headers=RETRY)
    assert (again.id, again.choices[0].message.content) == (first.id, "Goodbye.")


async def test_a_message_is_queued_while_a_run_goes_on() -> None:
    release, entered = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_release() -> str:
        """Wait."""
        entered.set()
        await release.wait()
        return "released"

    script = [say("Hi."), call("wait_for_release"), say("Released."), say("Goodbye.")]
    async with serve_script(script, [wait_for_release]) as served:
        conversation = find_conversation(await served.complete(store=True))
        running = asyncio.create_task(complete_in(served, conversation, HELLO))
        await entered.wait()
        stream = await served.client.chat.completions.create(
            model="default", messages=[BYE], store=True, stream=True, extra_body={"conversation": conversation}
        )
        chunks = aiter(stream)
        await anext(chunks)  # it has been queued
        release.set()
        texts = [chunk.choices[0].delta.content or "" async for chunk in chunks]
        assert (await running).choices[0].message.content == "Released."
    assert "".join(texts) == "Goodbye."
    assert list_texts(served) == ["Hello", "Hi.", "Hello", "Released.", "Bye"]


async def test_a_message_while_only_its_user_has_to_decide_lets_the_call_go() -> None:
    async with serve_script([say("Hi."), call("order", item="milk"), say("Then not.")], [order]) as served:
        conversation = find_conversation(await served.complete(store=True))
        first = await complete_in(served, conversation, HELLO)
        again = await complete_in(served, conversation, HELLO)
        assert again.choices[0].message.content == first.choices[0].message.content, "the same request"
        answer = await complete_in(served, conversation, [*HELLO, to_param(first), BYE])
    assert (answer.choices[0].message.content, added) == ("Then not.", [])
    assert list_texts(served) == ["Hello", "Hi.", "Hello", "Bye"]


async def test_a_message_after_the_decision_is_answered() -> None:
    script = [say("Hi."), call("order", item="milk"), say("Ordered."), say("Goodbye.")]
    async with serve_script(script, [order]) as served:
        conversation = find_conversation(await served.complete(store=True))
        first = await complete_in(served, conversation, HELLO)
        await served.yard.approve(conversation, first.model_extra["toolyard"]["waiting"][0]["call_id"])
        last = await complete_in(served, conversation, [*HELLO, to_param(first), BYE])
    assert (last.choices[0].message.content, added) == ("Goodbye.", ["ordered milk"])
    assert list_texts(served) == ["Hello", "Hi.", "Hello", "Ordered.", "Bye"]


async def test_a_conversation_of_somebody_else_an_unknown_and_a_deleted_one_are_all_alike() -> None:
    keys = (build_key("ann"), build_key("bob"))
    async with build_yard([say("Hi."), say("Hi.")], keys=keys) as yard, connect_client(yard) as client:
        ids: list[str] = []
        for user in ("bob", "ann"):
            answer: Json = (await client.ask("POST", PATH, {"messages": HELLO, "store": True}, x_api_key=user))[1]
            ids.append(answer["toolyard"]["conversation_id"])
        foreign, deleted = ids
        await client.ask("DELETE", f"/conversations/{deleted}", x_api_key="ann")
        for conversation in (foreign, deleted, f"conversation_{'0' * 24}", "nothing"):
            body = {"messages": HELLO, "store": True, "conversation": conversation}
            status, content, _ = await client.ask("POST", PATH, body, x_api_key="ann")
            error: Json = content["error"]
            assert (status, error["param"], error["code"]) == (404, "conversation", "not_found")
            assert error["message"] == f"there is no conversation {conversation!r}"


async def test_what_cannot_be_done_in_a_conversation_is_refused_in_words() -> None:
    async with serve_script([say("Hi.")]) as served:
        first = await served.complete(store=True)
        conversation = find_conversation(first)
        with pytest.raises(APIStatusError, match="needs store: true") as refused:
            await served.complete(extra_body={"conversation": conversation})
        assert (refused.value.status_code, refused.value.param) == (400, "conversation")
        with pytest.raises(APIStatusError, match="nothing new after the last answer"):
            await complete_in(served, conversation, [*HELLO, to_param(first)])
        with pytest.raises(APIStatusError, match="only where a conversation begins"):
            fields = {"conversation": conversation, "toolyard": {"server_tools": "none"}}
            await served.complete(store=True, extra_body=fields)
        with pytest.raises(APIStatusError) as refused:
            await complete_in(served, conversation, [BYE], max_completion_tokens=-1)
        assert refused.value.param == "max_completion_tokens"
