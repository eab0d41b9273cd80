"""DeepSeek's variant: the thought before a call goes back with the call, to DeepSeek and to nobody else."""

import json

import pytest

from toolyard.core.conversation.history import History
from toolyard.core.items import Call, Item, Reasoning, Result
from toolyard.models.chat import OpenAIChat, to_wire
from wire.checks import expect_ended
from wire.everything import ADD, HISTORY
from wire.local import NOW, CountingClock, events_of, offer, open_model, request, user
from wire.strict_chat import faults_of as chat_faults
from wire.strict_chat import says
from wire.strict_deepseek import THOUGHT, asks, faults_of, strict_deepseek


def build_history(provider: str) -> list[Item]:
    return [
        user("add"),
        Reasoning(id="r1", at=NOW, text=THOUGHT, provider=provider),
        Call(id="c1", at=NOW, tool="add", arguments={}),
        Result(id="c1.result", at=NOW, call_id="c1", tool="add", outcome="ok", content="3"),
    ]


def test_calls_without_their_thought_are_refused() -> None:
    bare = to_wire(request(build_history("deepseek")), "deepseek-reasoner", "openai")
    assert chat_faults(bare) == []
    assert "Missing `reasoning_content`" in "; ".join(faults_of(bare))


async def test_a_run_with_calls_goes_through_and_each_body_begins_with_the_one_before() -> None:
    server = strict_deepseek(asks(("add", {"a": 1})), asks(("add", {"a": 2})), says("Done."))
    clock, memo, history = CountingClock(), dict[str, object](), History([user("add")])
    async with (
        server.serving() as base_url,
        open_model(OpenAIChat(base_url=base_url, model="deepseek-reasoner", provider="deepseek")) as model,
    ):
        for _ in range(3):
            turn = expect_ended(await events_of(model, request(history, tools=offer(ADD), memo=memo, clock=clock)))
            calls = [item for item in turn.items if isinstance(item, Call)]
            history = history.plus(turn.items).plus([answer(call) for call in calls])
    assert server.refusals == []
    bodies = [body.partition(b'],"tool_choice"')[0] for body in server.bodies]
    assert bodies[1].startswith(bodies[0]) and bodies[2].startswith(bodies[1])
    assert [list_thoughts(body) for body in server.bodies] == [[], [THOUGHT], [THOUGHT, THOUGHT]]


def answer(call: Call) -> Result:
    return Result(id=f"{call.id}.result", at=NOW, call_id=call.id, tool=call.tool, outcome="ok", content="3")


def list_thoughts(body: bytes) -> list[str]:
    messages = json.loads(body)["messages"]
    return [message["reasoning_content"] for message in messages if "reasoning_content" in message]


@pytest.mark.parametrize("other", ["openai", "dashscope", "openrouter", "acme"])
def test_a_thought_goes_to_nobody_else_whoever_was_asked_before(other: str) -> None:
    model_request = request(build_history("deepseek"))
    for provider, thoughts in (("deepseek", [THOUGHT]), (other, []), ("deepseek", [THOUGHT])):
        assert list_thoughts(to_wire(model_request, "m", provider)) == thoughts


def test_the_calls_of_another_come_with_an_empty_thought() -> None:
    body = to_wire(request(build_history("acme")), "m", "deepseek")
    assert (faults_of(body), list_thoughts(body)) == ([], [""])


def test_a_body_with_everything_in_it_is_taken() -> None:
    assert faults_of(to_wire(request(HISTORY, tools=offer(ADD)), "deepseek-reasoner", "deepseek")) == []
