"""The safety limits of the app's endpoint, exact at the boundary and each with a reason that is told."""

import asyncio
import time

import pytest

from surfaces.api_client import Json, open_api_client
from surfaces.app_client import PATH, TOOLS, AppClient, build_tool_results, user_message
from toolyard import Limits
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, fail, say

ENDLESS_CALL = call("search_products", query="more")


def call_forever(request: ModelRequest) -> Turn:
    """A model that never comes to an end."""
    return ENDLESS_CALL


async def answer_all_calls(app: AppClient, answer: Json) -> Json:
    """Answer every call until there is a message."""
    while answer["type"] == "tool_calls":
        answer = await app.post(build_tool_results(answer, *("ok" for _ in answer["toolCalls"])))
    return answer


@pytest.mark.proves("000.limit-ends-loop", "000.limit-turns-per-request", "000.limit-turns-per-session")
async def test_a_request_gets_50_tool_turns_and_a_session_200() -> None:
    model = Scripted(call_forever)
    async with open_api_client(model) as http:
        app, request_counts, named = AppClient(http), list[int](), dict[str, Json]()
        for _ in range(4):
            last = await answer_all_calls(app, await app.ask("go", **named))
            named = {"conversationId": last["conversationId"]}
            assert (last["stopReason"], last["detail"]) == ("max_tool_turns", "turns_per_request")
            assert "too many steps" in last["message"]["content"]
            request_counts.append(len(model.requests))
        assert request_counts == [50, 100, 150, 200]
        refused_answer = await app.ask("go", **named)
        assert refused_answer["stopReason"] == "max_session_turns" and len(model.requests) == 200


async def test_a_session_ends_in_the_middle_of_a_request() -> None:
    model = Scripted(call_forever)
    async with open_api_client(model, limits=Limits(turns_per_conversation=7)) as http:
        app = AppClient(http)
        last = await answer_all_calls(app, await app.ask("go"))
        assert last["stopReason"] == "max_session_turns" and len(model.requests) == 7


@pytest.mark.parametrize(("before", "request_count"), [(199, 1), (200, 0)])
async def test_the_tool_turns_of_a_history_that_came_along_count(before: int, request_count: int) -> None:
    model = Scripted(call_forever)
    async with open_api_client(model) as http:
        history: list[object] = [user_message("go")]
        for number in range(before):
            tool_call = {"id": f"c{number}", "name": "search_products", "arguments": {"query": "x"}}
            history += [
                {"role": "assistant", "toolCalls": [tool_call]},
                {"role": "tool", "toolCallId": tool_call["id"], "content": "ok"},
                user_message("more"),
            ]
        app = AppClient(http)
        last = await answer_all_calls(app, await app.post({"messages": history, "tools": TOOLS}))
        assert last["stopReason"] == "max_session_turns" and len(model.requests) == request_count


@pytest.mark.proves("000.limit-30-a-minute")
async def test_the_31st_request_of_a_minute_is_429_and_results_do_not_count() -> None:

    def once(request: ModelRequest) -> Turn:
        return say("done") if isinstance(request.history[-1], Result) else ENDLESS_CALL

    async with open_api_client(Scripted(once), requests_per_minute=30) as http:
        body, began = {"messages": [user_message("go")], "tools": TOOLS}, time.monotonic()
        replies = await asyncio.gather(*(http.send_request("POST", PATH, body) for _ in range(40)))
        freed = int((time.monotonic() - began) / 2)  # one in two seconds, should this machine be so slow
        accepted = [reply for status, reply, _ in replies if status == 200]
        refused = [(reply["error_type"], headers) for status, reply, headers in replies if status == 429]
        assert 30 <= len(accepted) <= 30 + freed and len(accepted) + len(refused) == 40
        for error_type, headers in refused:
            assert error_type == "rate_limited" and headers["x-ratelimit-remaining"] == "0"
            assert 1 <= int(headers["retry-after"]) <= 2
        app = AppClient(http)
        answers = [await answer_all_calls(app, first) for first in accepted]
        assert [last["stopReason"] for last in answers] == ["done"] * len(accepted), "results do not count"
        waiting = {"conversationId": answers[-1]["conversationId"]}
        assert (await app.post(waiting))["type"] == "message"  # to ask how it went is no new request


async def test_what_ended_a_run_is_told() -> None:
    async with open_api_client([fail("overloaded", "unavailable"), ENDLESS_CALL]) as http:
        app = AppClient(http)
        failed = await app.ask("go")
        assert (failed["stopReason"], failed["detail"]) == ("failed", "unavailable: overloaded")
        waiting = await app.ask("go")
        await http.post(f"/conversations/{waiting['conversationId']}/cancel")
        assert (await app.post({"conversationId": waiting["conversationId"]}))["stopReason"] == "cancelled"


@pytest.mark.parametrize(("language", "sentence"), [("en", "Sorry"), ("zh-CN", "抱歉"), ("tlh", "Sorry")])
async def test_a_model_failure_is_a_sentence_in_the_callers_language_beside_the_error(
    language: str, sentence: str
) -> None:
    async with open_api_client([fail("overloaded", "unavailable"), fail("overloaded", "unavailable")]) as http:
        app, body = AppClient(http), {"messages": [user_message("go")], "tools": TOOLS}
        answer = await app.post(body, accept_language=language)
        events = {event["type"]: event for event in await app.collect_objects(body, accept_language=language)}
        streamed, done = events["message"], events["done"]
        for final in (answer, streamed):
            assert final["stopReason"] == "failed" and final["message"]["content"].startswith(sentence)
            assert "overloaded" not in final["message"]["content"], "people are not shown a provider's words"
            details = {"code": "server_error", "retry_after_s": 2}
            assert final["error"] == {"error": "overloaded", "error_type": "unavailable", "details": details}
        assert done["ending"] == "failed"
        resumed = await app.post({"conversationId": answer["conversationId"]}, accept_language=language)
        assert (resumed["message"], resumed["error"]) == (answer["message"], answer["error"])


async def test_an_answer_that_did_not_fail_has_no_error() -> None:
    async with open_api_client([say("hello")]) as http:
        assert (await AppClient(http).ask("go"))["error"] is None


async def test_a_limit_of_another_kind_is_called_so() -> None:
    async with open_api_client([ENDLESS_CALL], limits=Limits(run_tokens=1)) as http:
        app = AppClient(http)
        last = await answer_all_calls(app, await app.ask("go"))
        assert (last["stopReason"], last["detail"]) == ("limit", "run_tokens")
