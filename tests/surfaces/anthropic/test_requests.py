"""Requests for messages behave as those for chat completions: approvals, retries, leaving, limits, errors, lists."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from anthropic import APIStatusError, RateLimitError

from support import wait_until
from surfaces.anthropic.anthropic_clients import (
    HELLO,
    MAX_TOKENS,
    ServedMessages,
    answer_calls,
    define_tool,
    join_texts,
    serve_model,
    serve_script,
    to_param,
)
from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import connect_client
from surfaces.openai.clients import add_to_groceries, added, list_exchange, order
from surfaces.openai.test_held_approvals import Waits
from surfaces.openai.test_left_clients import LEAVE_S, PausingModel
from toolyard.core.errors import Refused
from toolyard.core.items import Problem
from toolyard.core.store.access import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.engine.loop import left_runs
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import Scripted, Turn, call, fail, say, together
from toolyard.venues.function import as_tool

PHOTO = define_tool("take_photo", of={"type": "string"})
RETRY = {"x-stainless-retry-count": "1"}
BODY: Json = {"model": "default", "max_tokens": MAX_TOKENS, "messages": HELLO}
both = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture(autouse=True)
def start_with_nothing_added() -> None:
    added.clear()


async def ask(served: ServedMessages, streamed: bool, messages: list[Json] = HELLO, **fields: Json) -> Json:
    return (await served.stream(messages, **fields))[1] if streamed else await served.create(messages, **fields)


@both
async def test_an_approval_is_a_sentence_with_a_link_until_it_is_decided(streamed: bool) -> None:
    script = [
        together(say("One moment."), call("add_to_groceries", item="eggs")),
        call("order", item="milk"),
        say("Ordered."),
        say("You are welcome."),
    ]
    async with serve_script(script, [add_to_groceries, order]) as served:
        first = await ask(served, streamed)
        sentence = join_texts(first)
        assert "`order` waits for an approval" in sentence and "/#/chat/conversation_" in sentence
        assert first.stop_reason == "end_turn"
        messages: list[Json] = [*HELLO, to_param(first), {"role": "user", "content": "Thanks"}]
        again = await ask(served, streamed)  # another answer is wanted
        assert (join_texts(again), len(served.model.requests)) == (sentence, 2)
        await served.yard.approve(*parse_call_id(sentence.partition("?call=")[2]))
        last = await ask(served, streamed, messages)
    assert (added, join_texts(last)) == (["eggs", "ordered milk"], "You are welcome.")
    assert list_exchange(served.model.requests[-1].history) == [
        "add_to_groceries['eggs']",
        "add_to_groceries=added eggs",
        "order['milk']",
        "order=ordered milk",
    ]


async def test_a_new_message_lets_a_call_go() -> None:
    async with serve_script([call("order", item="milk"), say("Then not.")], [order]) as served:
        first = await served.create()
        second = await served.create([*HELLO, to_param(first), {"role": "user", "content": "Forget it"}])
        assert join_texts(second) == "Then not."
        about: Json = first.model_extra["toolyard"]
        with pytest.raises(Refused):
            await served.yard.approve(about["conversation_id"], about["waiting"][0]["call_id"])
    assert added == []


@both
async def test_a_decision_continues_the_same_answer_while_the_request_is_held(streamed: bool) -> None:
    waits, script = Waits(), [call("order", item="milk"), say("Ordered.")]
    async with serve_script(script, [order], approval_hold_s=50, observers=[waits.observe]) as served:
        asking = asyncio.create_task(ask(served, streamed))
        await waits.approve(served)  # pyright: ignore[reportArgumentType]
        answer = await asking
    assert (join_texts(answer), added) == ("Ordered.", ["ordered milk"])


@both
async def test_a_retry_joins_the_run_and_a_new_request_does_not(streamed: bool) -> None:
    script = [call("add_to_groceries", item="milk"), together(say("o", "ne")), say("two")]
    async with serve_script(script, [add_to_groceries]) as served:
        first = await ask(served, streamed)
        joined = await ask(served, streamed, extra_headers=RETRY)
        assert [block.to_dict() for block in joined.content] == [block.to_dict() for block in first.content]
        assert (joined.id, join_texts(joined)) == (first.id, "one")
        second = await ask(served, streamed)
        assert (second.id != first.id, join_texts(second)) == (True, "two")
    assert added == ["milk"]


@pytest.mark.parametrize("again", [RETRY, {"idempotency-key": "k"}], ids=["retry", "key"])
async def test_requests_that_differ_in_a_header_or_a_keys_scope_are_not_taken_as_one(again: dict[str, str]) -> None:
    """Their bodies are the same, but not what they may do."""
    others = Key(name="other", hash=hash_key("ann-other"), user="ann", tenant="t", tools=frozenset({"none"}))
    script = Scripted(lambda _: say("fine"))
    async with build_yard(script, keys=(build_key("ann"), others)) as yard, connect_client(yard) as client:
        answers: list[tuple[int, Json]] = []
        for key, headers in (
            ("ann", {}),
            ("ann", {"anthropic-beta": "b-2026-01-01"}),
            ("ann", {"x-toolyard-server-tools": "none"}),
            ("ann-other", {}),
            ("ann", {}),
        ):
            names = {name.replace("-", "_"): value for name, value in {**again, **headers}.items()}
            answers.append((await client.ask("POST", "/v1/messages", BODY, x_api_key=key, **names))[:2])
    ids = [answer.get("id") for _, answer in answers]
    assert ids[0] is not None and ids[0] == ids[-1], "the same request joins"
    if "idempotency-key" in again:
        assert [status for status, _ in answers] == [200, 400, 400, 400, 200]
        assert all("another body" in str(answer) for _, answer in answers[1:4])
    else:
        assert len(set(ids)) == 4


async def test_results_that_are_delivered_again_join_the_run() -> None:
    async with serve_script([call("take_photo", of="me"), say("done")]) as served:
        first = await served.create(tools=[PHOTO])
        messages = answer_calls(HELLO, first, "a photo")
        answers = await asyncio.gather(*(served.create(messages, tools=[PHOTO]) for _ in range(5)))
    assert len({answer.id for answer in answers}) == 1


async def test_the_clients_own_retries_start_a_failed_run_again() -> None:
    busy = Turn(failure=Problem(error="busy", error_type="unavailable", details={"retry_after_s": 0.01}))
    async with serve_script([busy, say("done")], max_retries=2) as served:
        assert join_texts(await served.create()) == "done"


@asynccontextmanager
async def leave(served: ServedMessages, model: PausingModel, streamed: bool) -> AsyncGenerator[None, None]:
    asking = asyncio.create_task(ask(served, streamed))
    await model.entered.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    yield


@both
async def test_a_client_that_leaves_stops_its_run(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_runs, "CHECK_EVERY_S", 0.02)
    model = PausingModel()
    async with serve_model(model, leave_s=LEAVE_S) as served, leave(served, model, streamed):
        await wait_until(model.cancelled.is_set)


def build_problem(error_type: str, **details: object) -> Problem:
    return Problem(error="it is so", error_type=error_type, details=details)


@pytest.mark.parametrize(
    ("problem", "status", "kind", "headers"),
    [
        (build_problem("rate_limited", retry_after_s=7), 429, "rate_limit_error", {"retry-after": "7"}),
        (build_problem("quota_exceeded"), 429, "rate_limit_error", {"x-should-retry": "false"}),
        (build_problem("unavailable", status=529), 529, "overloaded_error", {"retry-after": "2"}),
        (build_problem("unavailable"), 503, "api_error", {"retry-after": "2"}),
        (build_problem("too_large"), 400, "invalid_request_error", {}),
        (build_problem("model_error"), 502, "api_error", {}),
    ],
)
@both
async def test_a_failure_of_the_provider_has_anthropics_status_and_type(
    problem: Problem, status: int, kind: str, headers: dict[str, str], streamed: bool
) -> None:
    async with serve_script([Turn(failure=problem)]) as served:
        with pytest.raises(APIStatusError) as raised:
            await ask(served, streamed)
    error: Json = raised.value.body
    assert (raised.value.status_code, error["error"]["type"]) == (status, kind)
    assert problem.error in error["error"]["message"]
    assert {name: raised.value.response.headers.get(name) for name in headers} == headers


async def test_a_failure_in_the_middle_of_a_stream_is_its_last_event() -> None:
    async with serve_script([together(say("We"), fail("the model is out"))]) as served:
        with pytest.raises(APIStatusError, match="the model is out") as raised:
            await served.stream()
    body: Json = raised.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "api_error")


async def test_the_answer_names_the_request_and_the_allowance() -> None:
    async with build_yard([say("one")], requests_per_minute=1) as yard, connect_client(yard) as client:
        status, _, headers = await client.ask("POST", "/v1/messages", BODY, x_correlation_id="trace-7")
        names = ("request-id", "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining")
        assert (status, *(headers[name] for name in names)) == (200, "trace-7", "1", "0")
        assert headers["anthropic-ratelimit-requests-reset"].endswith("Z")
        status, refused, headers = await client.ask("POST", "/v1/messages", BODY)
    error: Json = refused["error"]
    assert (status, error["type"]) == (429, "rate_limit_error")
    assert f"again in {headers['retry-after']} s" in error["message"]


async def test_an_answer_at_its_limit_is_cut_off() -> None:
    async with serve_script([Turn(text=["Hel"], finish="length")]) as served:
        answer = await served.create()
    assert answer.stop_reason == "max_tokens"


async def test_keys_come_in_either_header_and_errors_have_the_same_shape() -> None:
    async with build_yard([say("a"), say("b")], keys=(build_key("ann"),)) as yard, connect_client(yard) as client:
        for headers in ({"x_api_key": "ann"}, {"authorization": "Bearer ann"}):
            assert (await client.ask("POST", "/v1/messages", BODY, **headers))[0] == 200
        version = {"anthropic_version": "2023-06-01"}
        for method, path in (("POST", "/v1/messages"), ("GET", "/v1/models"), ("GET", "/v1/nothing")):
            status, content, headers = await client.ask(method, path, BODY if method == "POST" else None, **version)
            error: Json = content["error"]
            assert (status, content["type"], error["type"]) == (401, "error", "authentication_error")
            assert headers["request-id"] == content["request_id"]
        status, content, _ = await client.ask("GET", "/v1/models")
        assert (status, set(content)) == (401, {"error"}), "other clients get OpenAI's"


async def test_a_key_says_whether_the_servers_tools_run_beside_those_of_a_request() -> None:
    """What the request says itself comes first."""
    keys = (build_key("ann"), build_key("all", server_tools="all"), build_key("none", server_tools="none"))
    model = Scripted(lambda _: say("fine"))
    async with build_yard(model, keys=keys, tools=[as_tool(order)]) as yard, connect_client(yard) as client:
        for key in ("ann", "all", "none"):
            for body, header in ((BODY, ""), ({**BODY, "tools": [PHOTO]}, ""), (BODY, "none"), (BODY, "all")):
                headers = {"x_toolyard_server_tools": header} if header else {}
                assert (await client.ask("POST", "/v1/messages", body, x_api_key=key, **headers))[0] == 200
    offered = [any(tool.name == "order" for tool in request.offer.tools) for request in model.requests]
    assert offered == [True, False, False, True, True, True, False, True, False, False, False, True]


async def test_models_are_listed_in_pages_as_anthropic_does() -> None:
    async with serve_script([]) as served:
        models = [model async for model in served.client.models.list(limit=1)]
        assert [model.id for model in models] == ["default", "given"]
        assert models[0].type == "model" and models[0].created_at.year == 1970
        assert (await served.client.models.retrieve("default")).display_name == "default"
        last = await served.client.models.list(before_id="given", limit=1)
        assert ([model.id for model in last.data], last.has_more) == (["default"], False)
        with pytest.raises(APIStatusError, match="there is no model 'claude-99'"):
            await served.client.models.retrieve("claude-99")


async def test_tokens_are_counted_and_nothing_is_started() -> None:
    async with serve_script([], [add_to_groceries]) as served:
        count = served.client.messages.count_tokens
        plain = await count(model="default", messages=HELLO, extra_body={"toolyard": {"server_tools": "none"}})
        with_server_tools = await count(model="default", messages=HELLO)
        more = await count(model="default", messages=HELLO, system="x" * 400, tools=[PHOTO])
    assert 1 <= plain.input_tokens < 20
    assert with_server_tools.input_tokens > plain.input_tokens
    assert more.input_tokens > plain.input_tokens + 100
    assert served.model.requests == []


async def test_a_rate_limit_of_the_server_is_the_clients_own_exception() -> None:
    async with serve_script([say("one")], requests_per_minute=1) as served:
        await served.create()
        with pytest.raises(RateLimitError):
            await served.create()


async def test_counts_of_tokens_are_limited_as_other_requests_are() -> None:
    body = {name: value for name, value in BODY.items() if name != "max_tokens"}
    async with build_yard([], requests_per_minute=1) as yard, connect_client(yard) as client:
        status, _, headers = await client.ask("POST", "/v1/messages/count_tokens", body, x_correlation_id="trace-7")
        names = ("request-id", "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining")
        assert (status, *(headers[name] for name in names)) == (200, "trace-7", "1", "0")
        status, refused, _ = await client.ask("POST", "/v1/messages/count_tokens", body)
    error: Json = refused["error"]
    assert (status, error["type"]) == (429, "rate_limit_error")


async def test_structured_output_comes_alone_after_a_tool() -> None:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    script = [together(say("Let me look."), call("add_to_groceries", item="milk")), say('{"item": "milk"}')]
    async with serve_script([*script, *script], [add_to_groceries]) as served:
        fields: Json = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        for streamed in (False, True):
            answer = await ask(served, streamed, **fields)
            assert join_texts(answer) == '{"item": "milk"}'
            assert [block.type for block in answer.content] == ["mcp_tool_use", "mcp_tool_result", "text"]
