"""Every call that an application was handed takes exactly one result, whoever sends it and in which order."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from surfaces.app_talk import SEARCH, App, build_tool_results, user_message
from surfaces.fuzzed import bounded
from surfaces.talk import Json, build_key, open_talk
from toolyard import Scripted, call, say
from toolyard.core.items import Result
from toolyard.core.store import Key
from toolyard.engine.authentication import hash_key
from toolyard.models.scripted import together

DEVICES = [Key(name=name, hash=hash_key(name), user="ann") for name in ("phone", "tablet")]
ASKED = call("search_products", query="milk")


async def test_a_second_a_late_and_a_wrong_result_are_409_and_change_nothing() -> None:
    model = Scripted([together(ASKED, ASKED), say("ok")])
    async with open_talk(model) as http:
        app = App(http)
        first = await app.ask("go")
        named = {"conversationId": first["conversationId"]}
        one, two = (call["id"] for call in first["toolCalls"])
        wrong = one[:-4] + "0000"
        for ids in ([wrong], [one, wrong], [one, one], ["call_nowhere"]):
            results = [{"toolCallId": id, "result": "bad"} for id in ids]
            await app.post({**named, "toolResults": results}, expect=409)
        await app.post({**named, "toolResults": [{"toolCallId": one, "result": "first"}]})
        await app.post({**named, "toolResults": [{"toolCallId": one, "result": "again"}]}, expect=409)
        await app.post({"toolResults": [{"toolCallId": two, "error": "sold out"}]})
        for late in ("result", "error"):
            await app.post({"toolResults": [{"toolCallId": two, late: "late"}]}, expect=409)
    told = [item.content for item in model.requests[1].history if isinstance(item, Result)]
    assert told[0] == "first" and '"error":"sold out"' in told[1]


async def test_the_whole_history_may_tell_again_what_it_told_but_not_only_that() -> None:
    async with open_talk([together(ASKED, ASKED), say("ok")]) as http:
        app = App(http)
        first = await app.ask("go")
        asked = [user_message("go"), {"role": "assistant", "toolCalls": first["toolCalls"]}]
        one, two = ({"role": "tool", "toolCallId": call["id"], "content": "x"} for call in first["toolCalls"])
        assert (await app.post({"messages": [*asked, one]}))["toolCalls"] == first["toolCalls"][1:]
        await app.post({"messages": [*asked, one]}, expect=409)
        assert (await app.post({"messages": [*asked, one, two]}))["stopReason"] == "done"
        await app.post({"messages": [*asked, one, two]}, expect=409)


async def test_a_result_after_the_run_was_stopped_is_409() -> None:
    async with open_talk([ASKED]) as http:
        app = App(http)
        first = await app.ask("go")
        await http.post(f"/conversations/{first['conversationId']}/cancel")
        await app.post(build_tool_results(first, "late"), expect=409)
        await http.delete(f"/conversations/{first['conversationId']}")
        await app.post(build_tool_results(first, "late"), expect=404)
        nameless = {"toolResults": build_tool_results(first, "late")["toolResults"]}
        await app.post(nameless, expect=409)


async def test_a_second_device_takes_over_a_waiting_call_and_a_stranger_does_not() -> None:
    async with open_talk([ASKED, say("ok")], keys=[build_key("ann"), build_key("bob")]) as http:
        phone, tablet, stranger = App(http.with_key("ann")), App(http.with_key("ann")), App(http.with_key("bob"))
        first = await phone.ask("go")
        named = {"conversationId": first["conversationId"]}
        await stranger.post(named, expect=404)
        await stranger.post(build_tool_results(first, "mine"), expect=404)
        nameless = {"toolResults": build_tool_results(first, "mine")["toolResults"]}
        await stranger.post(nameless, expect=409)
        taken = await tablet.post(named)
        assert taken["toolCalls"] == first["toolCalls"]
        assert (await tablet.post(build_tool_results(taken, "from the tablet")))["stopReason"] == "done"
        await phone.post(build_tool_results(first, "from the phone"), expect=409)
        assert (await phone.post(named))["message"]["content"] == "ok"


async def test_a_call_that_is_not_answered_in_time_is_a_timeout_that_the_model_is_told() -> None:
    model = Scripted([ASKED, say("sorry")])
    async with open_talk(model) as http:
        app = App(http, [{**SEARCH, "timeoutSeconds": 0.05}])
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


def posts(most_calls: int) -> st.SearchStrategy[Post]:
    calls = st.frozensets(st.integers(0, most_calls - 1), min_size=1)
    return st.builds(Post, st.integers(0, 1), calls, st.booleans())


Scenario = tuple[int, Sequence[Sequence[Post]]]
scenarios: st.SearchStrategy[Scenario] = st.integers(1, 4).flatmap(
    lambda calls: st.tuples(st.just(calls), st.lists(st.lists(posts(calls), min_size=1, max_size=4), max_size=6))
)


@bounded(60)
@given(scenarios)
async def test_whatever_two_devices_deliver_each_call_takes_one_result_and_no_other(scenario: Scenario) -> None:
    """The posts of a round are sent at once; at the end what is left is answered, and the run ends."""
    calls, rounds = scenario
    model = Scripted([together(*(call("search_products", query=str(number)) for number in range(calls))), say("ok")])
    answers: list[tuple[Post, int, dict[int, str]]] = []
    async with open_talk(model, keys=DEVICES) as http:
        devices = [App(http.with_key("phone")), App(http.with_key("tablet"))]
        first = await devices[0].ask("go")
        numbers = itertools.count()

        async def send(post: Post) -> None:
            words = {number: f"word {next(numbers)}" for number in post.calls}
            status = await devices[post.device].post_for_status(body_of(post, first["toolCalls"], words))
            answers.append((post, status, words))

        for posts in rounds:
            await asyncio.gather(*map(send, posts))
        for number in range(calls):
            await send(Post(device=0, calls=frozenset({number}), whole_history=False))
        assert (await devices[1].post({"conversationId": first["conversationId"]}))["stopReason"] == "done"
    told = dict(enumerate(item.content for item in model.requests[1].history if isinstance(item, Result)))
    assert len(model.requests) == 2 and sorted(told) == list(range(calls))
    for post, status, words in answers:
        taken = {number for number, word in words.items() if told[number] == word}
        if status == 409:
            assert not taken, "a refused post changed something"
        else:
            assert status == 200 and (taken == post.calls or (post.whole_history and taken))


def body_of(post: Post, handed: Sequence[Json], words: Mapping[int, str]) -> dict[str, object]:
    if not post.whole_history:
        return {"toolResults": [{"toolCallId": handed[number]["id"], "result": words[number]} for number in post.calls]}
    results = [{"role": "tool", "toolCallId": handed[number]["id"], "content": words[number]} for number in post.calls]
    return {"messages": [user_message("go"), {"role": "assistant", "toolCalls": handed}, *results]}


async def test_an_id_that_was_handed_out_leads_back_after_a_restart(tmp_path: Path) -> None:
    store, handed = f"sqlite:///{tmp_path}/yard.db", list[Json]()
    history = [user_message("a"), {"role": "assistant", "content": "b"}, user_message("go")]
    async with open_talk([ASKED], store=store) as http:
        handed.append(await App(http).post({"messages": history, "tools": [SEARCH]}))
    async with open_talk([say("ok")], store=store) as http:
        asked = {"role": "assistant", "toolCalls": handed[0]["toolCalls"]}
        given = {"role": "tool", "toolCallId": handed[0]["toolCalls"][0]["id"], "content": "found"}
        answer = await App(http).post({"messages": [*history, asked, given]})
        assert answer["message"]["content"] == "ok" and answer["conversationId"] == handed[0]["conversationId"]
