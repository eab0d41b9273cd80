"""Settings that are changed at one replica count at all of them within two seconds, for runs that start afterwards."""

import asyncio
import time
from typing import Any

from replicas.pair import Replica, open_replicas, wait_for_status
from stores.memory_replicas import MemoryDatabase
from support import wait_until
from surfaces.api_client import ApiClient, build_key
from surfaces.unconfigured import MODEL, PROVIDER, WIRING, chat
from toolyard import tool
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Turn, call, say
from wire.keyed_provider import KeyedProvider

SECRET = "a secret of at least thirty-two characters"
MAX_DELAY_S = 2.0
SEALED: dict[str, Any] = {**WIRING, "script": "toolyard:offline", "secret": SECRET}


@tool
def pay() -> str:
    """Pay."""
    return "paid"


def get_default(replica: Replica) -> str:
    return replica.yard.service.models.default


async def wait_for_setting(replica: Replica, path: str, version: str) -> None:
    while (await replica.http.get(path))["setting"]["version"] != version:  # noqa: ASYNC110 - there is nothing to wait on
        await asyncio.sleep(0.02)


async def test_a_provider_and_a_model_of_one_replica_answer_at_the_other_without_a_restart() -> None:
    one, two = KeyedProvider("one", "first-key"), KeyedProvider("two", "second-key")
    async with (
        one.serving() as first_url,
        two.serving() as second_url,
        open_replicas(**SEALED) as (first, second),
    ):
        await first.http.put(PROVIDER, {"value": {"base_url": first_url, "api_key": "first-key"}})
        await first.http.put(MODEL, {"value": "shop:small"})
        saved_at = time.monotonic()
        await wait_until(lambda: get_default(second) == "shop:small")
        assert time.monotonic() - saved_at < MAX_DELAY_S
        assert await chat(second.http) == "one"
        value = {"base_url": second_url, "api_key": "second-key"}
        await second.http.put(PROVIDER, {"value": value})
        assert await chat(second.http) == "two"
        version = (await second.http.get(PROVIDER))["setting"]["version"]
        await wait_for_setting(first, PROVIDER, version)
        assert await chat(first.http) == "two"
        await first.http.delete(MODEL)
        await first.http.delete(PROVIDER)
        await wait_for_status(second.http, PROVIDER, 404)
        assert get_default(second) == "toolyard:offline"


async def test_of_two_replicas_that_change_an_entry_at_once_one_is_told_of_the_other() -> None:
    async with open_replicas(**SEALED) as replicas:
        path = "/settings/model_options/openai:gpt-5"
        answers = await asyncio.gather(
            *(
                replica.http.send_request("PUT", path, {"value": {"seed": number}}, if_none_match="*")
                for number, replica in enumerate(replicas)
            )
        )
        assert sorted(status for status, _, _ in answers) == [200, 412]
        winner = next(answer["setting"] for status, answer, _ in answers if status == 200)
        loser = next(answer["details"]["current"] for status, answer, _ in answers if status == 412)
        assert winner == loser


async def test_a_shared_store_takes_no_secret_without_encryption_and_holds_none_in_the_clear() -> None:
    database = MemoryDatabase()
    value = {"base_url": "http://127.0.0.1:9/v1", "api_key": "a-key-to-hide"}
    async with open_replicas(1, database, **{**SEALED, "secret": ""}) as (only,):
        assert "TOOLYARD_SECRET" in (await only.http.put(PROVIDER, {"value": value}, expect=409))["error"]
    async with open_replicas(1, database, **SEALED) as (only,):
        await only.http.put(PROVIDER, {"value": value})
    stored = repr(database.records)
    assert "127.0.0.1:9" in stored and "a-key-to-hide" not in stored
    rotated = "the new secret of this server - long enough"
    for secret, problem in (("another secret with which nobody has encrypted", True), (f"{rotated},{SECRET}", False)):
        async with open_replicas(1, database, **{**SEALED, "secret": secret}) as (only,):
            shown = (await only.http.get(PROVIDER))["setting"]
            assert bool(shown["problem"]) is problem, shown
            assert shown["value"] == {**value, "api_key": "***"}


async def test_a_tool_that_one_replica_disables_is_offered_by_none_within_two_seconds() -> None:
    async with open_replicas(tools=[pay], **SEALED) as (first, second):
        assert "pay" in str(await second.http.get("/tools"))
        async with asyncio.timeout(MAX_DELAY_S):
            await first.http.put("/settings/tool/pay", {"value": {"enabled": False}})
            while "pay" in str(await second.http.get("/tools")):
                pass
        async with asyncio.timeout(MAX_DELAY_S):
            await second.http.delete("/settings/tool/pay")
            while "pay" not in str(await first.http.get("/tools")):
                pass


def call_pay(request: ModelRequest) -> Turn:
    return say("done") if any(isinstance(item, Result) for item in request.history) else call("pay")


async def read_result(http: ApiClient) -> str:
    """Return the result of a call in a new conversation."""
    conversation = await http.create_conversation()
    await http.post(f"{conversation}/chat", {"content": "Go"})
    return next(str(row["content"]) for row in await http.list_messages(conversation) if row["role"] == "tool")


async def test_each_kind_of_setting_that_restricts_counts_at_the_other_replica_within_two_seconds() -> None:
    keys = [build_key("root", "admin", tenant=""), build_key("ann", tenant="acme")]
    keys.append(build_key("baker", tenant="", divisions=frozenset({"food"})))
    settings = {
        "tenants/acme": ({"tools": "none"}, "ann", "the tenant acme does not have it"),
        "divisions/food": ({"tools": "none"}, "baker", "the division food does not have it"),
        "general/redact": ({"own": {"done": "paid"}}, "root", "[redacted: done]"),
        "general/web_search": ({"tools": ["pay"], "prefer": "off"}, "root", "searches do not go to this tool"),
    }
    wiring: dict[str, Any] = {"tools": [pay], "keys": keys, "requests_per_minute": 0}
    async with open_replicas(script=call_pay, **wiring) as (first, second):
        for path, (value, user, result) in settings.items():
            person = second.http.with_key(user)
            assert await read_result(person) in ("paid", "[redacted: done]")
            async with asyncio.timeout(MAX_DELAY_S):
                await first.http.with_key("root").put(f"/settings/{path}", {"value": value})
                while result not in await read_result(person):
                    pass
