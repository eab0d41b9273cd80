"""The Responses and Gemini wires as a whole: turns with a strict provider, addresses, keys, errors, native tools."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolyard.core.conversation.events import TurnEnded
from toolyard.core.conversation.history import History
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call, Reasoning, Result
from toolyard.core.ports import Model
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.models.gemini import Gemini
from toolyard.models.responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict, strict_gemini
from wire.everything import ADD, CODE, PLAIN_SEARCH, WEB_SEARCH
from wire.local import NOW, CountingClock, SleepRecorder, events_of, failure_of, offer, open_model, request, user
from wire.strict import Reply, StrictServer
from wire.strict_gemini import strict_gemini as gemini_server
from wire.strict_responses import strict_responses

HI = [user("hi")]
KEY = "sk-very-secret-0123456789"


@dataclass(frozen=True)
class WireCase:
    build_model: Callable[..., Model]
    server: Callable[..., StrictServer]
    model: str
    says: Callable[..., Reply]
    refuses: Callable[..., Reply]
    odd: Reply
    """Calls that are broken, named after no tool, and one that is whole."""
    path: str
    key_header: str


RESPONSES = WireCase(
    build_model=OpenAIResponses,
    server=strict_responses,
    model="gpt-5-mini",
    says=responses_bytes.says,
    refuses=strict.refuses,
    odd=responses_bytes.replies(
        responses_bytes.build_reasoning("Hm.", id="rs_$"),
        responses_bytes.call("add", '{"a": 1, "b', number=0, status="incomplete"),
        responses_bytes.call("no such/tool", "[]", number=1),
        responses_bytes.call("add", '{"a":1,}', number=2),
        ends="incomplete",
        reason="max_output_tokens",
    ),
    path="/v1/responses",
    key_header="Authorization",
)
GEMINI = WireCase(
    build_model=Gemini,
    server=gemini_server,
    model=strict_gemini.MODEL,
    says=gemini_bytes.says,
    refuses=strict_gemini.refuses,
    odd=gemini_bytes.replies(
        gemini_bytes.build_thought("Hm."),
        {"functionCall": {"name": "add", "args": {"a": 1}, "willContinue": True}, **gemini_bytes.SIGNED},
        gemini_bytes.call("no such/tool"),
        gemini_bytes.call("add", {"a": 1}),
    ),
    path=f"/v1/models/{strict_gemini.MODEL}:streamGenerateContent?alt=sse",
    key_header="x-goog-api-key",
)
each_wire = pytest.mark.parametrize("wire", [RESPONSES, GEMINI], ids=lambda wire: wire.model)


def answer(call: Call) -> Result:
    return Result(id=f"{call.id}.result", at=NOW, call_id=call.id, tool=call.tool, outcome="ok", content="3")


def number_ids(reply: Reply, number: int) -> Reply:
    """A provider's ids are its own in every reply."""
    return Reply(packets=[packet.replace(b"rs_$", b"rs_%d" % number) for packet in reply.packets])


@each_wire
async def test_turns_go_back_and_forth_with_a_strict_provider_whatever_the_model_asks_for(wire: WireCase) -> None:
    server = wire.server(*(number_ids(wire.odd, n) for n in range(3)), wire.says("Done."))
    tools, memo, clock = offer(ADD), dict[str, object](), CountingClock()
    history = History(HI)
    async with (
        server.serving() as base_url,
        open_model(wire.build_model(base_url=base_url, model=wire.model, api_key=KEY)) as model,
    ):
        for _ in range(4):
            model_request = request(history, system="You add.", tools=tools, memo=memo, clock=clock)
            last = (await events_of(model, model_request))[-1]
            assert isinstance(last, TurnEnded), last
            history = history.plus(last.items)
            history = history.plus([answer(item) for item in last.items if isinstance(item, Call)])
    assert (server.refusals, server.replies) == ([], [])
    calls = [item for item in history if isinstance(item, Call)]
    assert [(call.tool, bool(call.unreadable)) for call in calls[::3]] == [("add", True)] * 3
    assert [call.arguments for call in calls[2::3]] == [{"a": 1}] * 3
    assert len([item for item in history if isinstance(item, Reasoning)]) == 3


@each_wire
async def test_the_address_the_key_and_the_headers_are_what_the_provider_wants(wire: WireCase) -> None:
    server = wire.server(wire.says("a"))
    build_model = wire.build_model
    async with (
        server.serving() as base_url,
        open_model(
            build_model(base_url=base_url + "/", model=wire.model, api_key=f" {KEY}\n", headers={"X-Team": "a"})
        ) as model,
    ):
        assert isinstance((await events_of(model, request(HI, correlation_id="corr-1")))[-1], TurnEnded)
    assert server.paths == [wire.path]
    (sent_headers,) = server.headers
    assert KEY in sent_headers[wire.key_header] and sent_headers[wire.key_header].split()[-1] == KEY
    assert (sent_headers["X-Team"], sent_headers["X-Correlation-ID"]) == ("a", "corr-1")


@each_wire
@pytest.mark.parametrize(
    ("status", "error_type", "attempts"),
    [
        (400, "model_error", 1),
        (401, "model_error", 1),
        (404, "model_error", 1),
        (429, "rate_limited", 4),
        (503, "unavailable", 4),
    ],
)
async def test_an_error_is_told_in_the_provider_s_words_and_tried_again_where_that_helps(
    wire: WireCase, status: int, error_type: str, attempts: int
) -> None:
    refusal = wire.refuses(status, f"no, not with {KEY}")
    refusal.headers["x-request-id"] = "req_9"
    server, sleeps = wire.server(*[refusal] * 4), SleepRecorder()
    async with (
        server.serving() as base_url,
        open_model(wire.build_model(base_url=base_url, model=wire.model, api_key=KEY, sleep=sleeps)) as model,
    ):
        problem = (await failure_of(model, request(HI))).problem
    assert problem.error_type == error_type and "no, not with ***" in problem.error
    assert (problem.details["request_id"], problem.details["status"]) == ("req_9", status)
    assert (len(server.bodies), len(sleeps.durations_s)) == (attempts, attempts - 1)
    assert KEY not in repr(problem)


def test_a_base_url_must_be_one_and_gemini_needs_a_model() -> None:
    with pytest.raises(Misconfigured, match="http"):
        OpenAIResponses(base_url="api.openai.com")
    with pytest.raises(Misconfigured, match="name"):
        Gemini(base_url="https://example.org", model="")


async def test_a_base_url_with_a_query_keeps_it() -> None:
    server = gemini_server(gemini_bytes.says("a"))
    async with (
        server.serving() as base_url,
        open_model(Gemini(base_url=f"{base_url}?tenant=7", model=strict_gemini.MODEL)) as model,
    ):
        await events_of(model, request(HI))
    assert server.paths[0].endswith(":streamGenerateContent?tenant=7&alt=sse")


def body_of(wire: WireCase, *tools: Tool, model: str = "", default_tool_uses: int = 0) -> dict[str, Any]:
    """What a strict provider is sent, and takes."""

    async def run() -> dict[str, Any]:
        name = model or wire.model
        extra = {"model": name} if wire is GEMINI else {}
        server = wire.server(wire.says("a"), **extra)
        async with (
            server.serving() as base_url,
            open_model(wire.build_model(base_url=base_url, model=name)) as open_wire_model,
        ):
            await events_of(open_wire_model, request(HI, tools=offer(*tools), default_tool_uses=default_tool_uses))
        assert server.refusals == []
        return json.loads(server.bodies[0])

    return asyncio.run(run())


def test_openai_s_own_tools_are_asked_for_in_its_words() -> None:
    body = body_of(RESPONSES, ADD, WEB_SEARCH, CODE)
    assert body["tools"][1:] == [
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["example.org"]},
            "user_location": {"type": "approximate", "city": "Basel", "country": "CH", "timezone": "Europe/Zurich"},
        },
        {"type": "code_interpreter", "container": {"type": "auto"}},
    ]
    assert body["include"] == [
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "code_interpreter_call.outputs",
    ]
    assert body["max_tool_calls"] == body_of(RESPONSES, WEB_SEARCH)["max_tool_calls"] == 3
    assert "max_tool_calls" not in body_of(RESPONSES, PLAIN_SEARCH, CODE)


def test_native_tools_without_a_limit_get_that_of_the_request_where_the_provider_has_one_for_all_of_them() -> None:
    assert body_of(RESPONSES, PLAIN_SEARCH, CODE, default_tool_uses=5)["max_tool_calls"] == 10
    assert body_of(RESPONSES, WEB_SEARCH, CODE, default_tool_uses=5)["max_tool_calls"] == 8
    assert "max_tool_calls" not in body_of(RESPONSES, ADD, default_tool_uses=5)
    assert body_of(GEMINI, PLAIN_SEARCH, default_tool_uses=5) == body_of(GEMINI, PLAIN_SEARCH)


@pytest.mark.parametrize(
    ("wire", "options"),
    [
        (RESPONSES, ProviderOptions(blocked_domains=("example.org",))),
        (GEMINI, ProviderOptions(blocked_domains=("example.org",))),
        (GEMINI, ProviderOptions(allowed_domains=("example.org",))),
        (GEMINI, ProviderOptions(max_uses=3)),
    ],
)
def test_a_search_that_cannot_be_held_to_its_limits_is_not_offered(wire: WireCase, options: ProviderOptions) -> None:
    assert "tools" not in body_of(wire, Tool(name="web_search", venue="provider", options=options))


def test_google_s_own_tools_go_beside_functions_only_where_the_model_takes_both() -> None:
    both = body_of(GEMINI, ADD, PLAIN_SEARCH)
    assert both["tools"][1] == {"googleSearch": {}}
    assert both["toolConfig"]["includeServerSideToolInvocations"] is True
    older = body_of(GEMINI, ADD, PLAIN_SEARCH, model="gemini-2.5-flash")
    assert [list(tool) for tool in older["tools"]] == [["functionDeclarations"]]
    alone = body_of(GEMINI, PLAIN_SEARCH, CODE, model="gemini-2.5-flash")
    assert alone["tools"] == [{"googleSearch": {}}, {"codeExecution": {}}]


def test_a_model_that_does_not_reason_is_not_asked_for_it() -> None:
    assert "include" not in body_of(RESPONSES, model="gpt-4.1")
    assert "include" not in body_of(RESPONSES, model="gpt-5-chat-latest")
    assert "generationConfig" not in body_of(GEMINI, model="gemini-2.0-flash")
    assert "generationConfig" in body_of(GEMINI, model="gemini-2.5-flash")


@pytest.mark.parametrize("model", ["gpt-5-mini", "o3"])
async def test_reasoning_goes_back_to_the_model_that_sealed_it_and_to_no_other(model: str) -> None:
    first = responses_bytes.replies(responses_bytes.build_reasoning("Hm."), responses_bytes.call("add", '{"a":1}'))
    server = strict_responses(first, responses_bytes.says("3."))
    clock = CountingClock()
    async with server.serving() as base_url:
        async with open_model(OpenAIResponses(base_url=base_url, model="gpt-5-mini")) as first_model:
            turn = (await events_of(first_model, request(HI, tools=offer(ADD), clock=clock)))[-1]
        assert isinstance(turn, TurnEnded)
        history = [*HI, *turn.items, *(answer(item) for item in turn.items if isinstance(item, Call))]
        async with open_model(OpenAIResponses(base_url=base_url, model=model)) as second_model:
            assert isinstance((await events_of(second_model, request(history, clock=clock)))[-1], TurnEnded)
    item_types = [item.get("type") for item in json.loads(server.bodies[1])["input"]]
    assert ("reasoning" in item_types) is (model == "gpt-5-mini")


async def test_strict_mode_s_nulls_for_what_was_left_out_are_taken_out_again() -> None:
    shape = {"a": {"type": "integer"}, "b": {"type": "string"}}
    tool = Tool(name="add", parameters={"type": "object", "properties": shape, "required": ["a"]})
    server = strict_responses(responses_bytes.asks(("add", {"a": 1, "b": None})))
    async with server.serving() as base_url, open_model(OpenAIResponses(base_url=base_url, model="m")) as model:
        turn = (await events_of(model, request(HI, tools=offer(tool))))[-1]
    assert json.loads(server.bodies[0])["tools"][0]["strict"] is True
    assert isinstance(turn, TurnEnded) and isinstance(turn.items[0], Call)
    assert turn.items[0].arguments == {"a": 1}
