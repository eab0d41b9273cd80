"""DashScope's variant: what it refuses besides, that we do not send it, and that its answers are read."""

import json

import pytest
from openai import AsyncOpenAI

from toolyard.core.conversation.history import History
from toolyard.core.items import Call, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.tools.definition import Tool
from toolyard.models.chat import OpenAIChat, to_wire
from wire.checks import expect_ended
from wire.everything import ADD, HISTORY
from wire.local import NOW, CountingClock, events_of, failure_of, offer, open_model, request, user
from wire.strict_chat import faults_of as chat_faults
from wire.strict_dashscope import asks, faults_of, refuses, says, strict_dashscope

HI = {"role": "user", "content": "hi"}
NOTHING: dict[str, object] = {}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": NOTHING}}}]


def body(*messages: object, **more: object) -> bytes:
    return json.dumps({"model": "qwen-plus", "messages": messages, "stream": True, **more}).encode()


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (body(HI, tools=TOOLS, tool_choice="required"), "required or object"),
        (body(HI, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "add"}}), "required or object"),
        (body({"role": "system", "content": "s"}), "only messages with role"),
        (body({"role": "user", "content": ""}), "greater than 0"),
        (body({"role": "user", "content": [{"type": "text", "text": ""}]}), "greater than 0"),
        (
            body({"role": "user", "content": [{"type": "file", "file": {"file_data": "data:,", "filename": "a"}}]}),
            "file",
        ),
        (body({"role": "developer", "content": "s"}, HI), "developer"),
        (body(HI, {"role": "tool", "tool_call_id": "a", "content": "3"}), "does not follow"),
        (body(HI, store=False), "store"),
        (body(HI, max_completion_tokens=5), "max_completion_tokens"),
        (body(HI, user="u"), "user"),
    ],
)
def test_what_dashscope_refuses(bad: bytes, says: str) -> None:
    assert says in "; ".join(faults_of(bad))


def test_what_is_in_order_is_taken() -> None:
    assert faults_of(body({"role": "system", "content": "s"}, HI, tools=TOOLS, tool_choice="auto")) == []


@pytest.mark.proves("001.dashscope")
@pytest.mark.parametrize("choice", ["auto", "none", "required", "add"])
def test_a_body_with_everything_in_it_is_taken(choice: str) -> None:
    model_request = request([*HISTORY, UserMessage(id="u0", at=NOW, parts=())], tools=offer(ADD), tool_choice=choice)
    assert faults_of(to_wire(model_request, "qwen-plus", "dashscope")) == []
    assert chat_faults(to_wire(model_request, "gpt", "openai")) == []


def test_what_is_kept_for_dashscope_is_not_sent_to_others_nor_the_other_way_round() -> None:
    memo: dict[str, object] = {}
    model_request = request(HISTORY, memo=memo)
    assert (
        to_wire(model_request, "m", "openai")
        != to_wire(model_request, "m", "dashscope")
        == to_wire(request(HISTORY), "m", "dashscope")
    )
    assert to_wire(model_request, "m", "openai") == to_wire(request(HISTORY), "m", "openai")


@pytest.mark.proves("001.any-script")
async def test_a_run_in_chinese_goes_through() -> None:
    server = strict_dashscope(
        asks(("查询库存", ['{"商品": ', '"面粉"}']), ("add", ['{"a":', "1}"])),
        says("面粉还有", "三袋。", thought="想想"),
    )
    tools = offer(ADD, Tool(name="stock", description="查询库存", parameters={"type": "object"}))
    clock, memo, turn = CountingClock(), dict[str, object](), None
    history = History([user("还有面粉吗?"), SystemText(id="s", at=NOW, text="请用中文")])
    async with (
        server.serving() as base_url,
        open_model(OpenAIChat(base_url=base_url, model="qwen-plus", provider="dashscope")) as model,
    ):
        for _ in range(2):
            model_request = request(
                history, system="你是仓库助手", tools=tools, tool_choice="required", memo=memo, clock=clock
            )
            turn = expect_ended(await events_of(model, model_request))
            calls = [item for item in turn.items if isinstance(item, Call)]
            history = history.plus(turn.items).plus([answer(call) for call in calls])
    assert server.refusals == []
    all_calls = [item for item in history if isinstance(item, Call)]
    assert [(call.tool, call.arguments) for call in all_calls] == [("查询库存", {"商品": "面粉"}), ("add", {"a": 1})]
    assert turn is not None
    thought, text = turn.items
    assert isinstance(thought, Reasoning) and isinstance(text, ModelText)
    assert (thought.text, text.text) == ("想想", "面粉还有三袋。")
    assert (turn.usage.total, turn.usage.cached_tokens) == (15, 4)


def answer(call: Call) -> Result:
    return Result(id=f"{call.id}.result", at=NOW, call_id=call.id, tool=call.tool, outcome="ok", content="三")


async def test_an_error_is_told_with_the_id_of_the_request() -> None:
    server = strict_dashscope(refuses(400, "Model not exist."))
    async with server.serving() as base_url, open_model(OpenAIChat(base_url=base_url, provider="dashscope")) as model:
        problem = (await failure_of(model, request([user("hi")]))).problem
    assert "Model not exist." in problem.error and problem.details["request_id"] == "req-9"


async def test_the_official_sdk_reads_the_same_text_and_calls() -> None:
    server = strict_dashscope(asks(("add", ['{"a":', "1}"])), says("好", "的"))
    async with server.serving() as base_url, AsyncOpenAI(base_url=base_url, api_key="none") as client:
        name, arguments, text = "", "", ""
        for _ in range(2):
            async for received in await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            ):
                for choice in received.choices:
                    text += choice.delta.content or ""
                    for call in choice.delta.tool_calls or ():
                        assert call.function is not None
                        name += call.function.name or ""
                        arguments += call.function.arguments or ""
    assert (name, json.loads(arguments), text) == ("add", {"a": 1}, "好的")
