"""Divisions, tenants, redaction and web search that are set while the server runs.

What restricts acts at once, also in open runs; what widens holds from the next run on.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from surfaces.api_client import ApiClient, Json, build_key, open_api_client
from toolyard import tool
from toolyard.core.items import Call
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.divisions import Division
from toolyard.core.settings.web_search import WebSearchConfig
from toolyard.core.tools.definition import ProviderOptions
from toolyard.core.tools.web_search_rule import SearchRules, build_search_rules
from toolyard.testing import Turn, call, say

ACME, FOOD = "/settings/tenants/acme", "/settings/divisions/food"
REDACT, SEARCH = "/settings/general/redact", "/settings/general/web_search"
TOKEN = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
KEYS = [
    build_key("root", "admin", tenant=""),
    build_key("boss", "admin", tenant="acme"),
    build_key("rival", "admin", tenant="other"),
    build_key("watcher", "operator", tenant=""),
    build_key("ann", tenant="acme"),
    build_key("baker", tenant="", divisions=frozenset({"food"})),
]


@tool(approval="ask")
def pay() -> str:
    """Pay."""
    return f"paid by EMP-123456 with {TOKEN}"


@tool
def look() -> str:
    """Look."""
    return f"seen EMP-123456 with {TOKEN}"


@tool
def web_search() -> str:
    """Search."""
    return "found"


class Model:
    """Calls `pay`, then `look` so often, and remembers each request."""

    def __init__(self, times: int = 1) -> None:
        self.times = times
        self.requests: list[ModelRequest] = []

    def answer(self, request: ModelRequest) -> Turn:
        self.requests.append(request)
        made = sum(isinstance(item, Call) for item in request.history)
        return call("pay") if not made else call("look") if made <= self.times else say("done")

    def list_offered(self) -> set[str]:
        return {tool.name for tool in self.requests[-1].offer.tools}


class Waiting:
    """A run of a caller that waits for an approval."""

    def __init__(self, http: ApiClient, conversation: str, call: str) -> None:
        self.http, self.conversation, self.call = http, conversation, call

    async def finish(self) -> Sequence[str]:
        """Approve the call, and return the results of all calls once the run is over."""
        await self.http.post(f"{self.call}/approve", {})
        await self.http.read_until_done(self.conversation)
        messages = await self.http.list_messages(self.conversation)
        return [str(message["content"]) for message in messages if message["role"] == "tool"]


async def start_waiting(http: ApiClient) -> Waiting:
    conversation = await http.create_conversation()
    waiting = await http.post(f"{conversation}/chat", {"content": "Go"}, expect=202)
    return Waiting(http, conversation, f"{conversation}/calls/{waiting['waiting'][0]['call_id']}")


@asynccontextmanager
async def open_server(model: Model, **wiring: Any) -> AsyncGenerator[ApiClient]:
    async with open_api_client(model.answer, tools=[pay, look, web_search], keys=KEYS, **wiring) as http:
        yield http


@pytest.mark.parametrize(("path", "user"), [(ACME, "ann"), (FOOD, "baker")])
async def test_a_tool_that_a_tenant_or_division_loses_runs_no_more_and_one_that_it_gets_from_the_next_run_on(
    path: str, user: str
) -> None:
    model = Model()
    async with open_server(model) as http:
        root, person = http.with_key("root"), http.with_key(user)
        open_run = await start_waiting(person)
        assert model.list_offered() == {"pay", "look", "web_search"}
        await root.put(path, {"value": {"tools": ["pay"]}})
        assert "does not have it" in (await open_run.finish())[1]
        assert model.list_offered() == {"pay"}
        narrow_run = await start_waiting(person)
        await root.put(path, {"value": {"tools": "all"}})
        assert "does not have it" in (await narrow_run.finish())[1]
        wide_run = await start_waiting(person)
        assert model.list_offered() == {"pay", "look", "web_search"}
        await root.delete(path)
        assert "seen" in (await wide_run.finish())[1]


async def test_a_lowered_limit_of_a_tenant_ends_an_open_run_and_a_raised_one_holds_from_the_next_run_on() -> None:
    model = Model(times=5)
    async with open_server(model) as http:
        root, ann = http.with_key("root"), http.with_key("ann")
        open_run = await start_waiting(ann)
        await root.put(ACME, {"value": {"limits": {"turns_per_request": 2}}})
        assert len(await open_run.finish()) == 2
        low_run = await start_waiting(ann)
        await root.put(ACME, {"value": {"limits": {"turns_per_request": 20}}})
        assert len(await low_run.finish()) == 2
        high_run = await start_waiting(ann)
        await root.delete(ACME)
        assert len(await high_run.finish()) == 6
        await root.put("/settings/general/limits", {"value": {"turns_per_request": 3}})
        assert len(await (await start_waiting(ann)).finish()) == 3, "without an entry the server's limits count"
        await root.put(ACME, {"value": {"limits": {"parallel_calls": 2}}})
        assert len(await (await start_waiting(ann)).finish()) == 3, "and where an entry says nothing of a limit"


async def test_a_tenants_requests_per_minute_count_at_once_and_for_that_tenant_only() -> None:
    async with open_server(Model()) as http:
        await http.with_key("root").put(ACME, {"value": {"limits": {"requests_per_minute": 1}}})
        await start_waiting(http.with_key("ann"))
        conversation = await http.with_key("ann").create_conversation()
        await http.with_key("ann").post(f"{conversation}/chat", {"content": "Go"}, expect=429)
        for _ in range(2):
            await start_waiting(http.with_key("baker"))


async def test_a_tenants_prompt_counts_from_the_next_run_on() -> None:
    model = Model()
    async with open_server(model) as http:
        root, ann = http.with_key("root"), http.with_key("ann")
        open_run = await start_waiting(ann)
        await root.put(ACME, {"value": {"prompt": "Speak Latin."}})
        await open_run.finish()
        assert "Latin" not in model.requests[-1].system
        latin_run = await start_waiting(ann)
        assert "Speak Latin." in model.requests[-1].system
        await root.delete(ACME)
        await latin_run.finish()
        assert "Speak Latin." in model.requests[-1].system
        await start_waiting(http.with_key("baker"))
        assert "Latin" not in model.requests[-1].system


async def test_a_new_pattern_is_replaced_at_once_and_a_removed_one_stays_replaced_in_open_runs() -> None:
    async with open_server(Model()) as http:
        root, ann = http.with_key("root"), http.with_key("ann")
        open_run = await start_waiting(ann)
        await root.put(REDACT, {"value": {"patterns": ["github_token"], "own": {"staff": r"EMP-\d{6}"}}})
        assert await open_run.finish() == [
            "paid by [redacted: staff] with [redacted: github_token]",
            "seen [redacted: staff] with [redacted: github_token]",
        ]
        strict_run = await start_waiting(ann)
        await root.put(REDACT, {"value": {"own": {"staff": "EMP-1"}}})
        assert "[redacted: staff] with [redacted: github_token]" in (await strict_run.finish())[0]
        assert TOKEN in (await (await start_waiting(ann)).finish())[0]
        await root.put(REDACT, {"value": {"own": {"staff": "(a+)+"}}}, expect=422)


async def test_searches_that_are_switched_off_stop_at_once_and_go_on_from_the_next_run_on() -> None:
    model = Model()
    async with open_server(model) as http:
        root, ann = http.with_key("root"), http.with_key("ann")
        open_run = await start_waiting(ann)
        assert "web_search" in model.list_offered()
        await root.put(SEARCH, {"value": {"prefer": "off"}})
        await open_run.finish()
        assert "web_search" not in model.list_offered()
        off_run = await start_waiting(ann)
        await root.put(SEARCH, {"value": {}})
        assert (await root.get(SEARCH))["setting"]["value"] == {}
        await off_run.finish()
        assert "web_search" not in model.list_offered()
        await start_waiting(ann)
        assert "web_search" in model.list_offered()


@pytest.mark.parametrize(
    ("begun", "now", "narrowed"),
    [
        ({"max_uses": 5}, {"max_uses": 3}, {"max_uses": 3}),
        ({"max_uses": 3}, {}, {"max_uses": 3}),
        ({}, {"max_uses": 3}, {"max_uses": 3}),
        ({"blocked_domains": ("a.example",)}, {"blocked_domains": ("b.example",)},
         {"blocked_domains": ("a.example", "b.example")}),
        ({}, {"allowed_domains": ("a.example",)}, {"allowed_domains": ("a.example",)}),
        ({"allowed_domains": ("a.example", "b.example")}, {"allowed_domains": ("b.example", "c.example")},
         {"allowed_domains": ("b.example",)}),
        ({"allowed_domains": ("a.example",)}, {}, {"allowed_domains": ("a.example",)}),
        ({"allowed_domains": ("a.example",)}, {"allowed_domains": ("b.example",)},
         {"allowed_domains": ("b.example",), "prefer": "off"}),
        ({"prefer": "native"}, {"prefer": "mcp", "full_logging": True}, {"prefer": "native", "full_logging": True}),
        ({"prefer": "off"}, {"prefer": "native"}, {"prefer": "off"}),
        ({"tools": frozenset({"a"})}, {"tools": frozenset({"b"})}, {"tools": frozenset({"a", "b"})}),
    ],
)  # fmt: skip
def test_an_open_run_searches_no_more_widely_than_at_its_start_or_now(begun: Json, now: Json, narrowed: Json) -> None:
    before, after = (build_search_rules(WebSearchConfig(**fields)) for fields in (begun, now))
    assert before.narrow_to(after) == build_search_rules(WebSearchConfig(**narrowed))
    assert SearchRules().narrow_to(SearchRules()) == SearchRules(options=ProviderOptions())


async def test_a_tenants_administrator_changes_the_words_of_the_tenant_and_nothing_else() -> None:
    value: Json = {
        "prompt": "Be kind.",
        "tools": ["pay"],
        "limits": {"run_tokens": 5},
        "divisions": {"food": {"tools": "none"}},
    }
    async with open_server(Model()) as http:
        root, boss = http.with_key("root"), http.with_key("boss")
        await boss.put(ACME, {"value": {"prompt": "Mine."}}, expect=403)
        await root.put(ACME, {"value": value})
        await root.put(FOOD, {"value": {}})
        listed = await boss.get("/settings")
        assert [(entry["kind"], entry["name"]) for entry in listed["settings"]] == [("tenants", "acme")]
        assert [[field["name"] for field in form["fields"]] for form in listed["forms"]] == [["prompt", "language"]]
        assert (listed["fixed"], listed["secret"]) == ([], "")
        words = {
            **value,
            "prompt": "Be brief.",
            "language": "de",
            "divisions": {"food": {"tools": "none", "prompt": "P"}},
        }
        assert (await boss.put(ACME, {"value": words}))["setting"]["changed_by"] == "boss"
        wider_values: list[Json] = [
            {**value, "tools": "all"},
            {**value, "tools": ["pay", "look"]},
            {**value, "limits": {}},
            {**value, "limits": {"run_tokens": 4}},
            {**value, "divisions": {}},
            {**value, "divisions": {"food": {}}},
            {**value, "divisions": {**value["divisions"], "toys": {}}},
        ]
        for wider in wider_values:
            await boss.put(ACME, {"value": wider}, expect=403)
        await boss.delete(ACME, expect=403)
        assert (await root.get(ACME))["setting"]["value"] == words
        entries = (await boss.get("/audit?action=setting.set"))["entries"]
        assert {(entry["target"], entry["outcome"]) for entry in entries} == {
            ("tenants.acme", "allowed"),
            ("tenants/acme", "refused"),
        }


@pytest.mark.parametrize("user", ["rival", "watcher", "ann", "baker"])
async def test_nobody_else_sees_or_changes_a_tenant(user: str) -> None:
    async with open_server(Model()) as http:
        await http.with_key("root").put(ACME, {"value": {"prompt": "A secret plan."}})
        other = http.with_key(user)
        for path in (ACME, FOOD, REDACT, SEARCH):
            await other.get(path, expect=403)
            await other.put(path, {"value": {"prompt": "x"}}, expect=403)
            await other.delete(path, expect=403)
        _, listed, _ = await other.send_request("GET", "/settings")
        assert "secret plan" not in str(listed)


async def test_a_tool_or_a_language_that_there_is_not_is_told_at_its_field() -> None:
    async with open_server(Model()) as http:
        root = http.with_key("root")
        division = {"tools": ["lok"], "language": "xx"}
        answer = await root.put(ACME, {"value": {"divisions": {"food": division}}}, expect=422)
        fields = {field["key"]: field["message"] for field in answer["details"]["fields"]}
        assert set(fields) == {"divisions.food.tools", "divisions.food.language"}
        assert "'lok'" in fields["divisions.food.tools"] and "'xx'" in fields["divisions.food.language"]
        await root.put(FOOD, {"value": {"tools": ["look"], "language": "de"}})


async def test_the_divisions_of_a_program_come_before_the_store() -> None:
    wiring = {"divisions": {("acme", ""): Division(prompt="P"), ("", "food"): Division()}}
    async with open_server(Model(), **wiring) as http:
        for path in (ACME, FOOD):
            assert "the program" in (await http.with_key("root").put(path, {"value": {}}, expect=409))["error"]
