"""Every call that an application was handed takes exactly one result, whoever sends it and in which order."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from surfaces.api_client import Json, build_key, open_api_client
from surfaces.app_client import SEARCH, AppClient, build_tool_results, user_message
from surfaces.fuzzed import make_settings
from toolyard.core.items import Result
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.testing import Scripted, call, say, together

DEVICES = [Key(name=name, hash=hash_key(name), user="ann") for name in ("phone", "tablet")]
SEARCH_CALL = call("search_products", query="milk")


async def test_a_second_a_late_and_a_wrong_result_are_409_and_change_nothing() -> None:
    model = Scripted([together(SEARCH_CALL, SEARCH_CALL), say("ok")])
    async with open_api_client(model) as http:
        app = AppClient(http)
        first = await app.ask("go")
        named = {"conversationId": first["conversationId"]}
        first_id, second_id = (call["id"] for call in first["toolCalls"])
        wrong = first_id[:-4] + "0000"
        for ids in ([wrong], [first_id, wrong], [first_id, first_id], ["call_nowhere"]):
            results = [{"toolCallId": id, "result": "bad"} for id in ids]
            await app.post({**named, "toolResults": results}, expect=409)
        await app.post({**named, "toolResults": [{"toolCallId": first_id, "result": "first"}]})
        await app.post({**named, "toolResults": [{"toolCallId": first_id, "result": "again"}]}, expect=409)
        await app.post({"toolResults": [{"toolCallId": second_id, "error": "sold out"}]})
        for late in ("result", "error"):
            await app.post({"toolResults": [{"toolCallId": second_id, late: "late"}]}, expect=409)
    result_texts = [item.content for item in model.requests[1].history if isinstance(item, Result)]
    assert result_texts[0] == "first" and '"error":"sold out"' in result_texts[1]


async def test_the_whole_history_may_tell_again_what_it_told_but_not_only_that() -> None:
    async with open_api_client([together(SEARCH_CALL, SEARCH_CALL), say("ok")]) as http:
        app = AppClient(http)
        first = await app.ask("go")
        history = [user_message("go"), {"role": "assistant", "toolCalls": first["toolCalls"]}]
        first_result, second_result = (
            {"role": "tool", "toolCallId": call["id"], "content": "x"} for call in first["toolCalls"]
        )
        assert (await app.post({"messages": [*history, first_result]}))["toolCalls"] == first["toolCalls"][1:]
        await app.post({"messages": [*history, first_result]}, expect=409)
        assert (await app.post({"messages": [*history, first_result, second_result]}))["stopReason"] == "done"
        await app.post({"messages": [*history, first_result, second_result]}, expect=409)


async def test_a_result_after_the_run_was_stopped_is_409() -> None:
    async with open_api_client([SEARCH_CALL]) as http:
        app = AppClient(http)
        first = await app.ask("go")
        await http.post(f"/conversations/{first['conversationId']}/cancel")
        await app.post(build_tool_results(first, "late"), expect=409)
        await http.delete(f"/conversations/{first['conversationId']}")
        await app.post(build_tool_results(first, "late"), expect=404)
        nameless = {"toolResults": build_tool_results(first, "late")["toolResults"]}
        await app.post(nameless, expect=409)


async def test_a_second_device_takes_over_a_waiting_call_and_a_stranger_does_not() -> None:
    async with open_api_client([SEARCH_CALL, say("ok")], keys=[build_key("ann"), build_key("bob")]) as http:
        phone, tablet, stranger = (
            AppClient(http.with_key("ann")),
            AppClient(http.with_key("ann")),
            AppClient(http.with_key("bob")),
        )
        first = await phone.ask("go")
        named = {"conversationId": first["conversationId"]}
        await stranger.post(named, expect=404)
        await stranger.post(build_tool_results(first, "mine"), expect=404)
        nameless = {"toolResults": build_tool_results(first, "mine")["toolResults"]}
        await stranger.post(nameless, expect=409)
        taken_over = await tablet.post(named)
        assert taken_over["toolCalls"] == first["toolCalls"]
        assert (await tablet.post(build_tool_results(taken_over, "from the tablet")))["stopReason"] == "done"
        await phone.post(build_tool_results(first, "from the phone"), expect=409)
        assert (await phone.post(named))["message"]["content"] == "ok"


async def test_a_call_that_is_not_answered_in_time_is_a_timeout_that_the_model_is_told() -> None:
    model = Scripted([SEARCH_CALL, say("sorry")])
    async with open_api_client(model) as http:
        app = AppClient(http, [{**SEARCH, "timeoutSeconds": 0.05}])
        first = await app.ask("go")
        ended = await http.read_until_done(f"/conversations/{first['conversationId']}")
        assert ended[-1][1]["ending"] == "done"
        await app.post(build_tool_results(first, "late"), expect=409)
        assert (await app.post({"conversationId": first["conversationId"]}))["message"]["content"] == "sorry"
    (result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert result.outcome == "timeout"


class Post(Struct, frozen=True):
    """What one device sends: results for some of the calls, in one of the two ways."""

    device: int
    calls: frozenset[int]
    whole_history: bool


def build_posts(max_calls: int) -> st.SearchStrategy[Post]:
    calls = st.frozensets(st.integers(0, max_calls - 1), min_size=1)
    return st.builds(Post, st.integers(0, 1), calls, st.booleans())


Scenario = tuple[int, Sequence[Sequence[Post]]]
scenarios: st.SearchStrategy[Scenario] = st.integers(1, 4).flatmap(
    lambda calls: st.tuples(st.just(calls), st.lists(st.lists(build_posts(calls), min_size=1, max_size=4), max_size=6))
)


@make_settings(60)
@given(scenarios)
async def test_whatever_two_devices_deliver_each_call_takes_one_result_and_no_other(scenario: Scenario) -> None:
    """The posts of a round are sent at once; at the end what is left is answered, and the run ends."""
    calls, rounds = scenario
    model = Scripted([together(*(call("search_products", query=str(number)) for number in range(calls))), say("ok")])
    answers: list[tuple[Post, int, dict[int, str]]] = []
    async with open_api_client(model, keys=DEVICES) as http:
        devices = [AppClient(http.with_key("phone")), AppClient(http.with_key("tablet"))]
        first = await devices[0].ask("go")
        numbers = itertools.count()

        async def send(post: Post) -> None:
            words = {number: f"word {next(numbers)}" for number in post.calls}
            status = await devices[post.device].post_for_status(build_body(post, first["toolCalls"], words))
            answers.append((post, status, words))

        for posts in rounds:
            await asyncio.gather(*map(send, posts))
        for number in range(calls):
            await send(Post(device=0, calls=frozenset({number}), whole_history=False))
        assert (await devices[1].post({"conversationId": first["conversationId"]}))["stopReason"] == "done"
    result_texts = dict(enumerate(item.content for item in model.requests[1].history if isinstance(item, Result)))
    assert len(model.requests) == 2 and sorted(result_texts) == list(range(calls))
    for post, status, words in answers:
        accepted = {number for number, word in words.items() if result_texts[number] == word}
        if status == 409:
            assert not accepted, "a refused post changed something"
        else:
            assert status == 200 and (accepted == post.calls or (post.whole_history and accepted))


def build_body(post: Post, calls: Sequence[Json], words: Mapping[int, str]) -> dict[str, object]:
    if not post.whole_history:
        return {"toolResults": [{"toolCallId": calls[number]["id"], "result": words[number]} for number in post.calls]}
    results = [{"role": "tool", "toolCallId": calls[number]["id"], "content": words[number]} for number in post.calls]
    return {"messages": [user_message("go"), {"role": "assistant", "toolCalls": calls}, *results]}


async def test_an_id_that_was_handed_out_leads_back_after_a_restart(tmp_path: Path) -> None:
    store, answers = f"sqlite:///{tmp_path}/yard.db", list[Json]()
    history = [user_message("a"), {"role": "assistant", "content": "b"}, user_message("go")]
    async with open_api_client([SEARCH_CALL], store=store) as http:
        answers.append(await AppClient(http).post({"messages": history, "tools": [SEARCH]}))
    async with open_api_client([say("ok")], store=store) as http:
        calls_message = {"role": "assistant", "toolCalls": answers[0]["toolCalls"]}
        result_message = {"role": "tool", "toolCallId": answers[0]["toolCalls"][0]["id"], "content": "found"}
        answer = await AppClient(http).post({"messages": [*history, calls_message, result_message]})
        assert answer["message"]["content"] == "ok" and answer["conversationId"] == answers[0]["conversationId"]
