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

from contracts.store_contract import claim, make_entries
from support import TEST_TIMEOUT_S
from surfaces.api_client import ApiClient, Json, build_key, build_yard, join_deltas, open_api_client
from surfaces.http_server import connect_client
from toolyard import Model, ModelRequest
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import ModelText, Usage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price
from toolyard.core.store import Append, UsageRow
from toolyard.observability.usage_report import MAX_LINES
from toolyard.stores.memory import MemoryStore
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
LIMIT = 10


class HeldModel:
    """A model that answers when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answered = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed]:
        self.asked.set()
        await self.answered.wait()
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="hello")
        yield TurnEnded(items=(text,), finish="stop", usage=Usage(input_tokens=100, output_tokens=2))

    async def close(self) -> None:
        pass


@asynccontextmanager
async def open_client(script: Sequence[Turn] | Model, **wiring: object) -> AsyncGenerator[ApiClient]:
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
        first_day = datetime.now(UTC).date()
        for user in ("ann", "ann", "bob", "eve"):
            await chat(http, user)
        last_day = datetime.now(UTC).date()  # a day may have ended meanwhile
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
        assert {line["day"] for line in days} <= {first_day.isoformat(), last_day.isoformat()}
        assert {line["model"] for line in days} == {"given"} and sum(line["turns"] for line in days) == 4
        assert await read_lines(http, "root", f"from=2020-01-01&to={first_day - timedelta(days=1)}") == []


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


async def test_the_list_of_runs_tells_what_each_of_them_cost_and_how_many_costs_are_unknown() -> None:
    for prices, cost in (({"given": PRICE}, {"USD": MICROS}), ({}, {})):
        async with open_client([TURN], prices=prices) as http:
            await chat(http, "ann")
            (run,) = (await http.with_key("ann").get("/traces"))["runs"]
            assert (run["cost_micros"], run["unknown_costs"], run["estimated_costs"]) == (cost, 0 if cost else 1, 0)


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


async def test_a_csv_that_does_not_have_all_lines_says_so_in_its_last_one() -> None:
    rows = [UsageRow(day=day, turns=1) for day in range(MAX_LINES + 1)]
    store = MemoryStore()
    epoch = await claim(store, "c")
    yard = build_yard([], keys=KEYS, opened_store=store)
    async with asyncio.timeout(TEST_TIMEOUT_S), yard, connect_client(yard) as http, aiohttp.ClientSession() as session:

        async def read_csv() -> list[str]:
            url = f"{http.url}/usage?group_by=day&from=1970-01-01&format=csv"
            async with session.get(url, headers={"x-api-key": "root"}) as answer:
                return (await answer.text()).splitlines()

        await store.append(Append(conversation="c", epoch=epoch, entries=make_entries("c", 1), usage=rows[1:]))
        lines = await read_csv()
        assert (len(lines), lines[-1].split(",")[0]) == (1 + MAX_LINES, "1997-05-19")
        await store.append(Append(conversation="c", epoch=epoch, entries=make_entries("c", 2), usage=rows[:1]))
        lines = await read_csv()
        assert len(lines) == 1 + MAX_LINES + 1
        assert lines[-1] == '"only the first 10,000 lines: choose fewer days or groups"'


async def test_a_budget_counts_the_requests_that_wait_for_it_and_not_those_of_others() -> None:
    rule = BudgetRule(amount=0.000001, window="total", on_reach="ask", scope="user")
    async with open_client([], **{**USED_UP, "budgets": {"each": rule}}) as http, asyncio.timeout(TEST_TIMEOUT_S):
        ann, bob = http.with_key("ann"), http.with_key("bob")
        await ann.post(f"{await ann.create_conversation()}/chat", {"content": "hi"}, expect=202)
        waiting = [(await client.get("/budgets"))["budgets"][0]["waiting"] for client in (ann, bob)]
        assert waiting == [1, 0]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"),
        ("to=2027-13-01", "to"),
        ("to=0001-01-01", "to"),
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


@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_clients_get_429_and_are_told_not_to_try_again(stream: bool) -> None:
    messages = [{"role": "user", "content": "hi"}]
    body = {"model": "default", "max_tokens": 10, "messages": messages, "stream": stream}
    async with open_client([], **USED_UP) as http:
        status, answer, headers = await http.with_key("ann").send_request("POST", "/v1/messages", body)
        assert (status, headers["x-should-retry"]) == (429, "false")
        assert (answer["type"], answer["error"]["type"]) == ("error", "rate_limit_error")
        assert answer["error"]["details"] == {"error_code": "insufficient_quota"}
        assert "team" in answer["error"]["message"]


async def test_a_budget_shows_what_is_left_to_those_whom_it_applies_to() -> None:
    budgets = {"each": build_budget(3, scope="user"), "elsewhere": build_budget(5, scope="tenant", only=("elsewhere",))}
    turn = replace(say("hello"), usage=Usage(output_tokens=4))
    async with open_client([turn], **{**USED_UP, "budgets": budgets}) as http:
        await chat(http, "ann")
        (own,) = (await http.with_key("ann").get("/budgets"))["budgets"]
        assert (own["name"], own["scope"], own["period"], own["currency"]) == ("each", "user", "total", "USD")
        assert own["amount"] == pytest.approx(own["left"] + own["spent"] + own["reserved"])
        assert own["spent"] + own["reserved"] > 0
        assert own["last_reserved"] == LIMIT / 1_000_000, "the most that the request could cost"
        (untouched,) = (await http.with_key("bob").get("/budgets"))["budgets"]
        assert untouched["last_reserved"] == 0
        assert untouched["left"] == untouched["amount"]
        named = [budget["name"] for budget in (await http.with_key("eve").get("/budgets"))["budgets"]]
        assert named == ["each", "elsewhere"]
        everything = (await http.with_key("root").get("/budgets"))["budgets"]
        assert [(budget["name"], budget["scope_name"], budget["applies"]) for budget in everything] == [
            ("each", '["","root"]', True),
            ("each", '["t","ann"]', False),
        ]


async def test_a_budget_that_asks_lets_a_run_wait_until_its_amount_is_raised_in_the_store() -> None:
    turn = replace(say("hello"), usage=Usage(output_tokens=4))
    wiring = {**USED_UP, "budgets": {}, "secret": "a secret of at least thirty-two characters"}
    value = {"amount": 0.000001, "window": "total", "on_reach": "ask"}
    async with open_client([turn], **wiring) as http, asyncio.timeout(TEST_TIMEOUT_S):
        root, ann = http.with_key("root"), http.with_key("ann")
        await root.put("/settings/budgets/team", {"value": value})
        conversation = await ann.create_conversation()
        answer = await ann.post(f"{conversation}/chat", {"content": "hi"}, expect=202)
        assert (answer["status"], answer["budget"], answer["waiting"]) == ("waiting", "team", [])
        assert answer["message"] == "The run waits until the amount of a budget is raised"
        (budget,) = (await root.get("/budgets"))["budgets"]
        assert (budget["on_reach"], budget["spent"], budget["waiting"]) == ("ask", 0, 1)
        (run,) = (await ann.get("/live"))["runs"]
        assert (run["status"], run["budget"], run["calls"]) == ("waiting", "team", [])
        await root.put("/settings/budgets/team", {"value": {**value, "amount": 1.0}})
        while (await ann.get(conversation))["conversation"]["status"] != "idle":  # noqa: ASYNC110 - polled as a page does
            await asyncio.sleep(0.02)
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


async def test_a_budget_that_is_deleted_while_a_run_has_reserved_of_it_limits_nothing_and_is_settled() -> None:
    wiring = {"prices": {"given": PRICE}, "secret": "a secret of at least thirty-two characters"}
    model = HeldModel()
    async with open_client(model, **wiring) as http, asyncio.timeout(TEST_TIMEOUT_S):
        root = http.with_key("root")
        value = {"amount": 1.0, "window": "total"}
        stored = await root.put("/settings/budgets/team", {"value": value})
        task = asyncio.create_task(chat(http, "ann"))
        await model.asked.wait()
        (budget,) = (await root.get("/budgets"))["budgets"]
        assert budget["reserved"] > 0
        status, _, _ = await root.send_request(
            "DELETE", "/settings/budgets/team", if_match=f'"{stored["setting"]["version"]}"'
        )
        assert status == 200
        assert (await root.get("/budgets"))["budgets"] == []
        model.answered.set()
        await task
        await root.put("/settings/budgets/team", {"value": value})
        while (budget := (await root.get("/budgets"))["budgets"][0])["reserved"]:  # noqa: ASYNC110 - settled later
            await asyncio.sleep(0.02)
        assert budget["spent"] == 120 / 1_000_000


async def test_budgets_of_a_preset_are_told_to_those_who_may_use_it() -> None:
    budgets = {"cheap": build_budget(3, scope="preset", only=("small", "other"))}
    async with open_client([], **{**USED_UP, "budgets": budgets}) as http:
        ann = http.with_key("ann")
        assert (await ann.get("/budgets"))["budgets"] == []
        await ann.put("/presets/small", {"settings": {"model": ""}, "shared": True})
        for user, names in (("ann", ['["t","small"]']), ("bob", ['["t","small"]']), ("eve", [])):
            listed = (await http.with_key(user).get("/budgets"))["budgets"]
            assert [(budget["scope_name"]) for budget in listed] == names
            assert all(budget["applies"] for budget in listed)
