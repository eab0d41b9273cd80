"""OpenRouter's variant: a signed thought goes back as it was, to the model that signed it and to nobody else."""

import json

import pytest

from toolyard.core.conversation.history import History
from toolyard.core.items import Call, Item, Reasoning, Result
from toolyard.core.ports import ModelRequest
from toolyard.models.chat import OpenAIChat, from_wire, to_wire
from wire.checks import expect_ended
from wire.everything import ADD, HISTORY
from wire.local import NOW, CountingClock, events_of, offer, open_model, request, user
from wire.strict import Reply, StrictServer
from wire.strict_chat import says
from wire.strict_openrouter import (
    CLAUDE,
    GEMINI,
    SEALED,
    SUMMARY,
    TEXT,
    claude_asks,
    encode_thought,
    faults_of,
    gemini_asks,
    sign_text,
    strict_openrouter,
)


def build_results(items: tuple[Item, ...]) -> list[Item]:
    calls = [item for item in items if isinstance(item, Call)]
    return [
        Result(id=f"{call.id}.result", at=NOW, call_id=call.id, tool=call.tool, outcome="ok", content="3")
        for call in calls
    ]


async def run_turns(model: str, server: StrictServer, turns: int) -> History:
    clock, memo, history = CountingClock(), dict[str, object](), History([user("add")])
    async with (
        server.serving() as base_url,
        open_model(OpenAIChat(base_url=base_url, model=model, provider="openrouter")) as asked,
    ):
        for _ in range(turns):
            turn = expect_ended(await events_of(asked, request(history, tools=offer(ADD), memo=memo, clock=clock)))
            history = history.plus(turn.items).plus(build_results(turn.items))
    return history


def list_details(body: bytes) -> list[object]:
    return [message["reasoning_details"] for message in json.loads(body)["messages"] if "reasoning_details" in message]


async def test_a_run_with_signed_thoughts_goes_through_and_each_body_begins_with_the_one_before() -> None:
    first, second = claude_asks(("add", {"a": 1}), thought="Hm, 加."), claude_asks(("add", {"a": 2}), thought="So.")
    server = strict_openrouter(first, second, says("Done."))
    history = await run_turns(CLAUDE, server, 3)
    assert server.refusals == []
    thoughts = [[sign_text("Hm, 加.")], [sign_text("So.")]]
    assert [list_details(body) for body in server.bodies] == [[], thoughts[:1], thoughts]
    bodies = [body.partition(b'],"tool_choice"')[0] for body in server.bodies]
    assert bodies[1].startswith(bodies[0]) and bodies[2].startswith(bodies[1])
    assert [item.text for item in history if isinstance(item, Reasoning)] == ["xx", "xx"]


async def test_a_seal_names_the_call_that_it_is_for_by_the_id_that_the_call_is_sent_with() -> None:
    server = strict_openrouter(gemini_asks(("add", {"a": 1}), ("add", {"a": 2})), says("Done."))
    history = await run_turns(GEMINI, server, 2)
    assert server.refusals == []
    call = next(item for item in history if isinstance(item, Call))
    assert list_details(server.bodies[1]) == [[{**SEALED, "data": "c2VhbA==", "id": call.id}]]


def thought_of(*packets: bytes, model: str = CLAUDE) -> tuple[ModelRequest, list[Item]]:
    model_request = request([user("hi")], model=model)
    reply = Reply(packets=[*packets, *says("Hi.").packets])
    return model_request, [
        user("hi"),
        *expect_ended(from_wire(reply.packets, model_request, "openrouter")).items,
        user("more", "u2"),
    ]


@pytest.mark.parametrize(
    ("model", "provider"), [(GEMINI, "openrouter"), (CLAUDE, "openai"), (CLAUDE, "acme"), (CLAUDE, "deepseek")]
)
def test_a_thought_goes_to_no_other_model_whoever_was_asked_before(model: str, provider: str) -> None:
    _, items = thought_of(*encode_thought(sign_text("Hm.")))
    model_request = request(items)
    for name, whose, expected in (
        (CLAUDE, "openrouter", [[sign_text("Hm.")]]),
        (model, provider, []),
        (CLAUDE, "openrouter", [[sign_text("Hm.")]]),
    ):
        assert list_details(to_wire(model_request, name, whose)) == expected


def test_only_pieces_of_one_thought_are_joined() -> None:
    other, full_text = {**SUMMARY, "index": 1, "summary": "c"}, {**TEXT, "index": None, "text": "d"}
    pieces = [{**SUMMARY, "summary": "a"}, {**SUMMARY, "summary": "b"}, other, full_text, full_text]
    _, items = thought_of(*encode_thought(*pieces))
    assert list_details(to_wire(request(items), CLAUDE, "openrouter")) == [
        [{**SUMMARY, "summary": "ab"}, other, full_text, full_text]
    ]


@pytest.mark.parametrize("odd", ["words", [1], {"text": "a"}, []])
def test_what_others_call_so_does_no_harm(odd: object) -> None:
    delta = {"content": "Hi.", "reasoning_details": odd}
    packet = b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"
    _, items = thought_of(packet)
    assert list_details(to_wire(request(items), CLAUDE, "openrouter")) == []


def test_calls_without_their_thought_or_with_its_pieces_are_refused() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    for details in (None, [{**TEXT, "text": "Hm"}, {**TEXT, "text": "."}], [{**SEALED, "data": "", "id": "gone"}]):
        message: dict[str, object] = {"role": "assistant", "content": None, "tool_calls": [call]}
        messages = [
            message | ({"reasoning_details": details} if details else {}),
            {"role": "tool", "tool_call_id": "c", "content": ""},
        ]
        assert faults_of(json.dumps({"model": CLAUDE, "messages": messages}).encode())


def test_a_body_with_everything_in_it_is_taken() -> None:
    body = to_wire(request(HISTORY, tools=offer(ADD)), CLAUDE, "openrouter")
    assert [fault for fault in faults_of(body) if "without the thought" not in fault] == []
