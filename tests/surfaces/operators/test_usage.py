"""`GET /usage` and `GET /budgets`, and how a budget that is used up is answered on each kind of route."""

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from msgspec.structs import replace

from support import TEST_TIMEOUT_S
from surfaces.api_client import ApiClient, Json, build_key, build_yard, join_deltas, open_api_client
from surfaces.http_server import connect_client
from toolyard.core.items import Usage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price
from toolyard.testing import Turn, say

KEYS = [
    build_key("root", "admin", tenant=""),
    build_key("ada", "operator"),
    build_key("ann"),
    build_key("bob"),
    build_key("eve", tenant="elsewhere"),
    build_key("=cmd", tenant="elsewhere"),
]
PRICE = Price(input=1.0, output=10.0, cached=0.1)
TURN = Turn(text=("hello",), usage=Usage(input_tokens=100, output_tokens=20, cached_tokens=50))
MICROS = 50 + 5 + 200
"""The cost of TURN."""
TODAY = datetime.now(UTC).date()
LIMIT = 10


@asynccontextmanager
async def open_client(script: Sequence[Turn], **wiring: object) -> AsyncGenerator[ApiClient]:
    options: dict[str, object] = {"keys": KEYS, "prices": {"given": PRICE}, **wiring}
    async with open_api_client(script, "inside", **options) as http:
        yield http


async def chat(http: ApiClient, user: str) -> None:
    client = http.with_key(user)
    await client.post(f"{await client.create_conversation()}/chat", {"content": "hi"})


async def read_lines(http: ApiClient, user: str, query: str) -> list[Json]:
    return (await http.with_key(user).get(f"/usage?{query}"))["usage"]


async def test_usage_is_the_sum_of_the_turns_by_whatever_it_is_grouped_by() -> None:
    async with open_client([TURN] * 4) as http:
        for user in ("ann", "ann", "bob", "eve"):
            await chat(http, user)
        lines = await read_lines(http, "root", "group_by=tenant,user,key")
        assert [(line["tenant"], line["user"], line["key"], line["cost_micros"]) for line in lines] == [
            ("elsewhere", "eve", "eve@elsewhere", MICROS),
            ("t", "ann", "ann@t", 2 * MICROS),
            ("t", "bob", "bob@t", MICROS),
        ]
        (total,) = await read_lines(http, "root", "")
        assert (total["turns"], total["input_tokens"], total["cached_tokens"], total["output_tokens"]) == (
            4,
            400,
            200,
            80,
        )
        assert (total["cost"], total["currency"], total["unknown_costs"]) == (4 * MICROS / 1_000_000, "USD", 0)
        assert "user" not in total
        days = await read_lines(http, "root", "group_by=day,model")
        assert [(line["day"], line["model"], line["turns"]) for line in days] == [(TODAY.isoformat(), "given", 4)]
        assert await read_lines(http, "root", f"from=2020-01-01&to={TODAY - timedelta(days=1)}") == []


async def test_everybody_sees_their_own_usage_and_an_operator_that_of_the_tenant() -> None:
    async with open_client([TURN] * 3) as http:
        for user in ("ann", "bob", "eve"):
            await chat(http, user)
        seen = {
            user: [line["user"] for line in await read_lines(http, user, "group_by=user")] for user in ("ann", "ada")
        }
        assert seen == {"ann": ["ann"], "ada": ["ann", "bob"]}
        assert await read_lines(http, "ada", "whose=mine") == []
        assert [line["user"] for line in await read_lines(http, "ada", "group_by=user&tenant=elsewhere")] == [
            "ann",
            "bob",
        ]
        assert [line["user"] for line in await read_lines(http, "root", "group_by=user&tenant=elsewhere")] == ["eve"]


async def test_runs_of_a_preset_count_to_the_preset_in_the_usage_and_in_its_budget() -> None:
    turn = replace(say("hello"), usage=Usage(output_tokens=4))
    budgets = {"each": build_budget(1, scope="preset")}
    async with open_client([turn, turn], **{**USED_UP, "budgets": budgets}) as http:
        ann = http.with_key("ann")
        await ann.put("/presets/Short", {"settings": {"system_prompt": "Be brief."}})
        body = {"model": "preset:Short", "messages": [{"role": "user", "content": "hi"}]}
        answers = [await ann.send_request("POST", "/v1/chat/completions", body) for _ in range(2)]
        assert [status for status, _, _ in answers] == [200, 429]
        assert answers[1][1]["error"]["code"] == "insufficient_quota"
        await chat(http, "ann")
        lines = await read_lines(http, "ann", "group_by=preset")
        assert [(line["preset"], line["turns"]) for line in lines] == [("", 1), ("Short", 1)]


async def test_a_run_whose_model_has_no_price_is_refused_where_a_budget_applies() -> None:
    async with open_client([TURN], prices={}, budgets={"each": build_budget(1, scope="key", only=("ann@t",))}) as http:
        ann = http.with_key("ann")
        path = f"{await ann.create_conversation()}/chat"
        refused = await ann.post(path, {"content": "hi"}, expect=422)
        assert "the model given has no price, and the budget each applies to this run" in refused["error"]
        assert refused["details"]["field"] == "model"
        await chat(http, "bob")


async def test_an_unknown_cost_is_null_and_its_turns_are_counted() -> None:
    async with open_client([TURN], prices={}) as http:
        await chat(http, "ann")
        (line,) = await read_lines(http, "ann", "group_by=model")
        assert (line["cost"], line["cost_micros"], line["currency"]) == (None, None, None)
        assert (line["unknown_costs"], line["input_tokens"]) == (1, 100)


@pytest.mark.parametrize("wants", [{"query": "&format=csv"}, {"accept": "text/csv"}])
async def test_usage_is_served_as_csv_in_which_no_name_is_a_formula(wants: dict[str, str]) -> None:
    headers = {"x-api-key": "root", "accept": wants.get("accept", "*/*")}
    yard = build_yard([TURN], keys=KEYS, prices={"given": PRICE})
    async with asyncio.timeout(TEST_TIMEOUT_S), yard, connect_client(yard) as http, aiohttp.ClientSession() as session:
        await chat(ApiClient(http), "=cmd")
        url = f"{http.url}/usage?group_by=user{wants.get('query', '')}"
        async with session.get(url, headers=headers) as answer:
            assert (answer.status, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
            assert answer.headers["content-disposition"].startswith('attachment; filename="usage-')
            (row,) = csv.DictReader(io.StringIO(await answer.text()))
        assert (row["user"], row["cost_micros"], row["turns"]) == ("'=cmd", str(MICROS), "1")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("to=2027-13-01", "to"),
        ("group_by=user,planet", "group_by"),
        ("from=2027-02-01&to=2027-01-01", "from"),
    ],
)
async def test_a_wrong_query_is_answered_at_its_field(query: str, field: str) -> None:
    async with open_client([]) as http:
        answer = await http.with_key("ann").get(f"/usage?{query}", expect=422)
        assert answer["details"]["fields"][0]["key"] == field


def build_budget(turns: int, **changes: object) -> BudgetRule:
    """Return a budget for so many turns whose answers have at most LIMIT tokens, at a price of 1 for each of them."""
    rule = BudgetRule(amount=turns * LIMIT / 1_000_000, window="total")
    return replace(rule, **changes)


USED_UP = {
    "prices": {"given": Price(input=0.0, output=1.0)},
    "reserve_output_tokens": LIMIT,
    "budgets": {"team": build_budget(1, amount=0.000001)},
}


async def test_a_json_route_answers_402_when_a_budget_is_used_up() -> None:
    async with open_client([], **USED_UP) as http:
        client = http.with_key("ann")
        conversation = await client.create_conversation()
        answer = await client.post(f"{conversation}/chat", {"content": "hi"}, expect=402)
        assert answer["error_type"] == answer["details"]["code"] == "budget_exceeded"
        assert "team" in answer["error"]


async def test_a_stream_ends_at_its_limit_with_a_sentence() -> None:
    async with open_client([], **USED_UP) as http:
        body = {"prompt": "hi"}
        events = [event async for event in http.with_key("ann").stream_post("/ai/respond", body, accept_language="de")]
        assert join_deltas(events).startswith("Das Budget „team“ reicht")
        assert (events[-1][1]["type"], events[-1][1]["ending"]) == ("done", "limit")
        assert not [event for _, event in events if event["type"] == "error"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/responses", {"model": "default", "input": "hi"}),
    ],
)
async def test_openais_clients_get_429_and_are_told_not_to_try_again(
    path: str, body: dict[str, object], stream: bool
) -> None:
    async with open_client([], **USED_UP) as http:
        status, answer, headers = await http.with_key("ann").send_request("POST", path, {**body, "stream": stream})
        assert (status, headers["x-should-retry"]) == (429, "false")
        assert (answer["error"]["code"], answer["error"]["type"]) == ("insufficient_quota", "insufficient_quota")


async def test_a_budget_shows_what_is_left_to_those_whom_it_applies_to() -> None:
    budgets = {"each": build_budget(3, scope="user"), "elsewhere": build_budget(5, scope="tenant", only=("elsewhere",))}
    turn = replace(say("hello"), usage=Usage(output_tokens=4))
    async with open_client([turn], **{**USED_UP, "budgets": budgets}) as http:
        await chat(http, "ann")
        (own,) = (await http.with_key("ann").get("/budgets"))["budgets"]
        assert (own["name"], own["scope"], own["period"], own["currency"]) == ("each", "user", "total", "USD")
        assert own["amount"] == pytest.approx(own["left"] + own["spent"] + own["reserved"])
        assert own["spent"] + own["reserved"] > 0
        (untouched,) = (await http.with_key("bob").get("/budgets"))["budgets"]
        assert untouched["left"] == untouched["amount"]
        named = [budget["name"] for budget in (await http.with_key("eve").get("/budgets"))["budgets"]]
        assert named == ["each", "elsewhere"]
        everything = (await http.with_key("root").get("/budgets"))["budgets"]
        assert [(budget["name"], budget["scope_name"], budget["applies"]) for budget in everything] == [
            ("each", '["","root"]', True),
            ("each", '["t","ann"]', False),
        ]


async def test_a_budget_that_asks_lets_a_request_wait_until_its_amount_is_raised_in_the_store() -> None:
    turn = replace(say("hello"), usage=Usage(output_tokens=4))
    wiring = {**USED_UP, "budgets": {}, "secret": "a secret of at least thirty-two characters"}
    value = {"amount": 0.000001, "window": "total", "on_reach": "ask"}
    async with open_client([turn], **wiring) as http, asyncio.timeout(TEST_TIMEOUT_S):
        root = http.with_key("root")
        await root.put("/settings/budgets/team", {"value": value})
        task = asyncio.create_task(chat(http, "ann"))
        while not (budget := (await root.get("/budgets"))["budgets"][0])["waiting"]:  # noqa: ASYNC110 - polled as a page does
            await asyncio.sleep(0.02)
        assert (budget["on_reach"], budget["spent"]) == ("ask", 0)
        assert not task.done()
        await root.put("/settings/budgets/team", {"value": {**value, "amount": 1.0}})
        await task
        (budget,) = (await root.get("/budgets"))["budgets"]
        assert (budget["waiting"], budget["amount"]) == (0, 1.0)


async def test_prices_and_budgets_that_do_not_fit_each_other_are_refused_at_their_field() -> None:
    async with open_client([], prices={}) as http:
        root = http.with_key("root")
        refused = await root.put("/settings/budgets/team", {"value": {"amount": -1, "window": "total"}}, expect=422)
        assert refused["details"]["fields"][0]["key"] == "amount"
        refused = await root.put("/settings/budgets/team", {"value": {"amount": 5}}, expect=422)
        assert refused["details"]["fields"][0]["key"] == "time_zone"
        francs = {"amount": 5, "window": "total", "currency": "CHF"}
        refused = await root.put("/settings/budgets/team", {"value": francs}, expect=422)
        assert "no model has a price" in refused["error"]
        await root.put("/settings/prices/given", {"value": {"input": 1, "output": 2, "currency": "CHF"}})
        await root.put("/settings/budgets/team", {"value": francs})
        dollars = {"input": 1, "output": 2}
        refused = await root.put("/settings/prices/other", {"value": dollars}, expect=422)
        assert "use one currency" in refused["error"]
