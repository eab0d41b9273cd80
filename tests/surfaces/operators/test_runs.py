"""Lists of runs, their figures, what is open now, and a call by hand: each caller sees what is theirs to see."""

from pathlib import Path

import pytest

from surfaces.api_client import ApiClient, Json, build_key, open_api_client
from toolyard import tool
from toolyard.testing import call, fail, say, together

KEYS = [
    build_key("ann"),
    build_key("bob"),
    build_key("olga", "operator"),
    build_key("abe", "approver"),
    build_key("eve", "operator", tenant="other"),
]


@tool(read_only=True)
def stock(item: str) -> dict[str, object]:
    """What there is."""
    if item == "gold":
        raise ValueError("the vault is closed")
    return {"item": item}


@tool(approval="ask")
def sell(item: str) -> str:
    """Sell it."""
    return item


TOOLS = [stock, sell]


async def start_chat(http: ApiClient, content: str, title: str = "Test") -> str:
    conversation = await http.create_conversation(title)
    await http.send_request("POST", f"{conversation}/chat", {"content": content})
    return conversation.rpartition("/")[2]


async def list_runs(http: ApiClient, query: str = "") -> list[Json]:
    return (await http.get(f"/traces{query}"))["runs"]


async def test_runs_are_found_by_tool_outcome_ending_user_and_conversation() -> None:

    script = [call("stock", item="milk"), say("2"), call("stock", item="gold"), say("none"), fail("no")]
    async with open_api_client(script, keys=KEYS, tools=TOOLS) as http:
        ann, bob, olga = http.with_key("ann"), http.with_key("bob"), http.with_key("olga")
        good = await start_chat(ann, "milk?", "Milk")
        bad = await start_chat(ann, "gold?")
        failed = await start_chat(bob, "hello")
        assert [run["conversation"] for run in await list_runs(ann)] == [bad, good]
        assert [run["conversation"] for run in await list_runs(ann, "?outcome=error")] == [bad]
        assert [run["conversation"] for run in await list_runs(ann, "?tool=stock&outcome=ok")] == [good]
        assert await list_runs(ann, "?tool=sell") == [] and await list_runs(ann, "?user=bob") == []
        assert [run["conversation"] for run in await list_runs(olga, "?whose=tenant")] == [failed, bad, good]
        assert [run["conversation"] for run in await list_runs(olga, "?whose=tenant&ending=failed")] == [failed]
        assert [run["conversation"] for run in await list_runs(olga, "?whose=tenant&user=bob")] == [failed]
        assert [run["conversation"] for run in await list_runs(olga, f"?conversation={good}")] == [good]
        (run,) = await list_runs(ann, f"?conversation={good}")
        assert (run["title"], run["user"], run["ending"], run["status"]) == ("Milk", "ann", "done", "ended")
        assert run["usage"] == {"input_tokens": 20, "output_tokens": 10}
        assert [(digest["tool"], digest["outcome"]) for digest in run["calls"]] == [("stock", "ok")]
        assert len(run["turns"]) == 2


async def test_nobody_sees_the_runs_of_another() -> None:
    async with open_api_client([say("hi")], keys=KEYS) as http:
        mine = await start_chat(http.with_key("ann"), "hello")
        for query in ("", "?user=ann"):
            assert await list_runs(http.with_key("bob"), query) == []
        for name in ("bob", "eve"):
            await http.with_key(name).get(f"/traces?conversation={mine}", expect=404)
        assert await list_runs(http.with_key("eve"), "?whose=tenant") == []
        for path in ("/traces", "/overview", "/live"):
            await http.with_key("bob").get(f"{path}?whose=tenant", expect=403)


async def test_a_list_of_runs_leads_on_to_earlier_ones_and_none_is_missed() -> None:
    async with open_api_client([say("ok")] * 5) as http:
        conversations = [await start_chat(http, f"number {number}") for number in range(5)]
        listed_ids: list[str] = []
        after = ""
        while True:
            page = await http.get(f"/traces?limit=2{after and f'&after={after}'}")
            listed_ids += [run["conversation"] for run in page["runs"]]
            if page["next"] is None:
                break
            after = page["next"]
        assert listed_ids == conversations[::-1]
        await http.get("/traces?after=nonsense", expect=422)


async def test_the_list_tells_what_happened_since_it_was_asked_last() -> None:
    async with open_api_client([say("1"), say("2")]) as http:
        conversation = await start_chat(http, "one")
        assert len(await list_runs(http)) == 1
        await http.send_request("POST", f"/conversations/{conversation}/chat", {"content": "two"})
        first, second = await list_runs(http)
        assert first["queued_at"] > second["queued_at"]


async def test_the_overview_counts_runs_calls_tokens_and_times() -> None:

    both = together(call("stock", item="milk"), call("stock", item="gold"))
    async with open_api_client([both, say("one of two"), fail("no")], tools=TOOLS) as http:
        await start_chat(http, "stock?")
        await start_chat(http, "hello")
        overview = (await http.get("/overview?hours=1"))["overview"]
        points = overview["points"]
        assert sum(point["runs"] for point in points) == 2 and sum(point["failed"] for point in points) == 1
        assert sum(point["input_tokens"] for point in points) == 20
        assert points[-1]["at"] < overview["until"] and len(points) == 48
        (tool,) = overview["tools"]
        assert (tool["tool"], tool["calls"], tool["errors"]) == ("stock", 2, 1)
        assert 0 < tool["p50_ms"] <= tool["p95_ms"]
        assert "the vault is closed" in tool["last_error"] and tool["last_error_at"] <= tool["last_at"]
        assert [(model["model"], model["turns"], model["failed"]) for model in overview["models"]] == [
            ("scripted", 2, 0),
            ("given", 1, 1),
        ]


@pytest.mark.parametrize("hours", ["0", "-1", "5e-324", "99999", "x"])
async def test_an_overview_of_no_time_is_refused(hours: str) -> None:
    async with open_api_client() as http:
        await http.get(f"/overview?hours={hours}", expect=422)


async def test_live_shows_what_waits_and_what_it_waits_for() -> None:
    async with open_api_client([call("sell", item="gold")], keys=KEYS, tools=TOOLS) as http:
        ann = http.with_key("ann")
        conversation = await start_chat(ann, "sell it", "Selling")
        for who, query, may_stop in (
            ("ann", "", True),
            ("olga", "?whose=tenant", False),
            ("abe", "?whose=tenant", True),
        ):
            (run,) = (await http.with_key(who).get(f"/live{query}"))["runs"]
            assert run["may_stop"] is may_stop
            assert (run["conversation"], run["title"], run["user"]) == (conversation, "Selling", "ann")
            assert run["status"] == "waiting"
            (open_call,) = run["calls"]
            assert (open_call["tool"], open_call["phase"]) == ("sell", "asking")
            assert (open_call["waits_for"], open_call["call"]) == ("approval", None)
            (run,) = (await http.with_key(who).get(f"/live?details=true&{query[1:]}"))["runs"]
            assert run["calls"][0]["call"]["arguments"] == {"item": "gold"}
        assert (await http.with_key("bob").get("/live"))["runs"] == []
        assert (await http.with_key("eve").get("/live?whose=tenant"))["runs"] == []
        await http.with_key("olga").post(f"/conversations/{conversation}/cancel", {}, expect=404)
        await http.with_key("abe").post(f"/conversations/{conversation}/cancel", {})
        await ann.read_until_done(f"/conversations/{conversation}")
        assert (await ann.get("/live"))["runs"] == []


async def test_live_names_the_program_and_the_line_of_a_call_that_waits() -> None:
    script = [call("run_code", code="n = 1\nawait sell(item='gold')")]
    async with open_api_client(script, tools=TOOLS, code=True) as http:
        await start_chat(http, "sell it")
        (run,) = (await http.get("/live"))["runs"]
        program, child = run["calls"]
        assert (program["tool"], program["phase"], program["parent"], program["line"]) == ("run_code", "nested", "", 0)
        assert (child["tool"], child["phase"], child["parent"], child["line"]) == ("sell", "asking", program["id"], 2)


async def test_a_tool_is_called_by_hand_and_judged_as_a_models_call_is() -> None:
    async with open_api_client((), tools=TOOLS) as http:
        conversation = await http.create_conversation("By hand")
        called = await http.post(f"{conversation}/calls", {"tool": "stock", "arguments": {"item": "milk"}}, expect=202)
        received = await http.read_until_done(conversation)
        finished = [event for _, event in received if event["type"] == "tool.status" and event["state"] == "finished"]
        assert [(event["call_id"], event["ok"]) for event in finished] == [(called["call_id"], True)]
        asking = await http.post(f"{conversation}/calls", {"tool": "sell", "arguments": {"item": "milk"}}, expect=202)
        (run,) = (await http.get("/live"))["runs"]
        assert (run["calls"][0]["id"], run["calls"][0]["phase"]) == (asking["call_id"], "asking")


async def test_a_call_by_hand_that_does_not_fit_ends_as_an_error_and_one_of_a_stranger_is_not_found() -> None:
    async with open_api_client((), keys=KEYS, tools=TOOLS) as http:
        ann = http.with_key("ann")
        conversation = await ann.create_conversation("By hand")
        await ann.post(f"{conversation}/calls", {"tool": "stock", "arguments": {"item": 7}}, expect=202)
        received = await ann.read_until_done(conversation)
        finished = next(
            event for _, event in received if event["type"] == "tool.status" and event["state"] == "finished"
        )
        assert finished["ok"] is False
        await http.with_key("bob").post(f"{conversation}/calls", {"tool": "stock"}, expect=404)
        await ann.post(f"{conversation}/calls", {"arguments": {}}, expect=422)


async def test_calls_of_a_tool_that_was_not_there_are_not_charged_to_one_that_is(tmp_path: Path) -> None:
    """The tool comes with the second process, under the name that the model had made up before."""
    store = f"sqlite:///{tmp_path}/toolyard.db"

    @tool
    def stock_take() -> str:
        """Take stock."""
        return "all there"

    script = [call("stock_take"), say("ok")]
    async with open_api_client(script, store=store) as http:
        assert [event async for event in http.stream_chat(await http.create_conversation(), "count")]
    async with open_api_client(script, store=store, tools=[stock_take]) as http:
        assert [event async for event in http.stream_chat(await http.create_conversation(), "count")]
        figures = {figure["tool"]: figure for figure in (await http.get("/overview"))["overview"]["tools"]}
        assert (figures["stock_take"]["calls"], figures["stock_take"]["errors"]) == (1, 0)
        assert (figures["(unknown)"]["calls"], figures["(unknown)"]["errors"]) == (1, 1)
