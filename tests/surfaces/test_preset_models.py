"""`preset:NAME` is a model on every endpoint: its prompt, model, tools and limits apply, and open nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
from msgspec import Struct

from support import wait_until
from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import SocketClient, connect_client
from surfaces.openai.clients import add_to_groceries, added, order
from toolyard import Yard, tool
from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings
from toolyard.testing import Scripted, call, say
from toolyard.venues.function import as_tool

CALLER = Caller(user="ann", tenant="t")
MODEL = "preset:Shopping list"
QUESTION: Json = {"role": "user", "content": "Add milk"}
PART: Json = {"type": "text", "text": "Add milk"}
SETTINGS = {"system_prompt": "You keep the list.", "tools": ["add_to_groceries"], "max_turns": 1}
AG_UI: Json = {
    "threadId": "t",
    "runId": "r",
    "messages": [{"id": "m", **QUESTION}],
    "tools": [],
    "context": [],
    "state": {},
    "forwardedProps": {"toolyard": {"model": MODEL}},
}
REQUESTS: dict[str, Json] = {
    "/v1/chat/completions": {"model": MODEL, "messages": [QUESTION]},
    "/v1/responses": {"model": MODEL, "input": "Add milk"},
    "/v1/messages": {"model": MODEL, "messages": [QUESTION], "max_tokens": 100},
    "/ai/respond": {"model": MODEL, "prompt": "Add milk"},
    "/chat/v1/conversation": {"model": MODEL, "messages": [QUESTION]},
    "/ai-sdk/chat": {
        "id": "t",
        "model": MODEL,
        "trigger": "submit-message",
        "messages": [{"id": "m", "role": "user", "parts": [PART]}],
    },
    "/ag-ui": AG_UI,
}
ERROR_STREAMS = ("/ai-sdk/chat", "/ag-ui")
"""The endpoints whose errors are events of a stream."""
every_endpoint = pytest.mark.parametrize("path", list(REQUESTS))


@tool(roles={"boss"})
def pay(amount: int) -> str:
    """Pay an amount."""
    added.append(f"paid {amount}")
    return "paid"


class PresetClient(Struct, frozen=True):
    yard: Yard
    client: SocketClient
    model: Scripted

    async def save(self, key: str = "ann", name: str = "Shopping list", shared: bool = True, **settings: Json) -> None:
        path, body = f"/presets/{name}".replace(" ", "%20"), {"settings": {**SETTINGS, **settings}, "shared": shared}
        status, answer, _ = await self.client.ask("PUT", path, body, x_api_key=key)
        assert status == 200, answer

    async def ask(self, path: str, body: Json = None, key: str = "ann") -> tuple[int, Json]:
        status, answer, _ = await self.client.ask("POST", path, body or REQUESTS[path], x_api_key=key)
        return status, answer


@asynccontextmanager
async def open_clients(*script: Json, **wiring: Json) -> AsyncGenerator[PresetClient, None]:
    added.clear()
    keys = [
        build_key("ann"),
        build_key("bob"),
        build_key("eve", tenant="other"),
        build_key("kim", models=frozenset({"other"})),
        build_key("sam", tools=frozenset({"order"})),
    ]
    model = Scripted(list(script))
    tools = [as_tool(function) for function in (add_to_groceries, order, pay)]
    async with (
        build_yard(model, keys=keys, tools=tools, allowed_models=frozenset({"given", "other"}), **wiring) as yard,
        connect_client(yard) as client,
    ):
        yield PresetClient(yard, client, model)


@every_endpoint
async def test_the_prompt_the_tools_and_the_limits_of_a_preset_apply(path: str) -> None:
    async with open_clients(call("add_to_groceries", item="milk")) as clients:
        await clients.save()
        status, answer = await clients.ask(path, key="bob")
        assert status == 200, answer
    assert added == ["milk"]
    request = clients.model.requests[0]
    assert len(clients.model.requests) == 1, "one turn is the limit"
    assert "You keep the list." in request.system
    assert [tool.name for tool in request.offer.tools] == ["add_to_groceries"]


@every_endpoint
async def test_a_preset_that_the_caller_does_not_have_is_not_found(path: str) -> None:
    async with open_clients() as clients:
        await clients.save(shared=False)
        for key in ("bob", "eve"):
            headers = {"x-api-key": key}
            async with clients.client.session.post(
                clients.client.url + path, json=REQUESTS[path], headers=headers
            ) as response:
                text = await response.text()
            assert response.status == (200 if path in ERROR_STREAMS else 404), text
            assert "there is no preset 'Shopping list'" in text


async def test_presets_are_listed_as_models_to_those_who_have_them() -> None:
    async with open_clients() as clients:
        await clients.save()
        await clients.save(name="Mine", shared=False)
        lists: dict[str, list[str]] = {}
        for key in ("ann", "bob", "eve"):
            _, answer, _ = await clients.client.ask("GET", "/v1/models", x_api_key=key)
            data: Json = answer["data"]
            lists[key] = [model["id"] for model in data if model["id"].startswith("preset:") and "@" not in model["id"]]
        _, one, _ = await clients.client.ask("GET", "/v1/models/preset:Mine", x_api_key="ann")
        assert one["id"] == "preset:Mine"
    assert lists == {"ann": ["preset:Mine", MODEL], "bob": [MODEL], "eve": []}


async def test_a_preset_opens_no_model_and_no_tool_that_its_user_may_not_use() -> None:
    async with open_clients(say("no tool")) as clients:
        await clients.save(tools=["pay"])
        status, answer = await clients.ask("/v1/chat/completions", key="kim")
        assert (status, answer["error"]["code"]) == (403, "permission_denied")
        assert "your key is not for the model 'given'" in answer["error"]["message"]
        status, answer = await clients.ask("/v1/chat/completions")
        assert status == 200, answer
    assert clients.model.requests[0].offer.tools == ()


async def test_the_request_narrows_the_tools_of_a_preset_and_adds_to_its_prompt() -> None:
    async with open_clients(say("a"), say("b")) as clients:
        await clients.save(tools=["add_to_groceries", "order"])
        body = {**REQUESTS["/v1/messages"], "toolyard": {"server_tools": ["order", "add_to_groceries"]}}
        await clients.ask("/v1/messages", {**body, "toolyard": {"server_tools": ["order"]}, "system": "Be brief."})
        await clients.ask("/v1/messages")
    first, second = clients.model.requests
    assert [tool.name for tool in first.offer.tools] == ["order"]
    assert first.system.endswith("You keep the list.\n\nBe brief.")
    assert [tool.name for tool in second.offer.tools] == ["add_to_groceries", "order"]


async def test_a_preset_brings_its_tools_where_conversations_begin_with_none() -> None:
    async with open_clients(say("a"), default_settings=Settings(tools=frozenset())) as clients:
        await clients.save()
        await clients.ask("/v1/chat/completions")
    assert [tool.name for tool in clients.model.requests[0].offer.tools] == ["add_to_groceries"]


async def test_a_request_for_no_tools_gets_none_of_the_preset_where_conversations_begin_with_none() -> None:
    async with open_clients(say("a"), say("b"), default_settings=Settings(tools=frozenset())) as clients:
        await clients.save()
        for path in ("/v1/messages", "/v1/chat/completions"):
            await clients.ask(path, {**REQUESTS[path], "toolyard": {"server_tools": "none"}})
    assert [request.offer.tools for request in clients.model.requests] == [(), ()]


async def test_a_run_in_line_gets_the_preset_that_its_conversation_gets_meanwhile() -> None:
    script = [call("order", item="milk"), say("ordered"), say("second"), say("third")]
    async with open_clients(*script) as clients:
        await clients.save()
        _, created = await clients.ask("/conversations", {"title": "T", "system_prompt": "Be brief."})
        path: str = f"/conversations/{created['conversation']['id']}"
        _, waiting = await clients.ask(f"{path}/chat", {"content": "Order milk"})
        for content, more in (("Second", {}), ("Third", {"model": "given"})):
            status, queued = await clients.ask(f"{path}/chat", {"content": content, **more})
            assert (status, queued["status"]) == (202, "queued")
        status, refused, _ = await clients.client.ask("PUT", path, {"model": "preset:none"}, x_api_key="ann")
        assert (status, refused["error"]) == (404, "there is no preset 'none'")
        status, changed, _ = await clients.client.ask("PUT", path, {"model": MODEL}, x_api_key="ann")
        assert status == 200, changed
        await clients.ask(f"{path}/calls/{waiting['waiting'][0]['call_id']}/approve", {"remember": "no"})
        await wait_until(lambda: len(clients.model.requests) == 4)
    before, _, second, third = clients.model.requests
    assert "You keep the list." not in before.system + third.system
    assert second.system.endswith("You keep the list.\n\nBe brief.")
    assert [tool.name for tool in second.offer.tools] == ["add_to_groceries"]
    assert (second.model, third.model) == ("given", "given")


async def test_a_key_cannot_give_a_run_in_line_a_preset_with_another_model() -> None:
    async with open_clients() as clients:
        await clients.save()
        _, created = await clients.ask("/conversations", {"title": "T"}, key="kim")
        path: str = f"/conversations/{created['conversation']['id']}"
        status, refused, _ = await clients.client.ask("PUT", path, {"model": MODEL}, x_api_key="kim")
    assert (status, refused["error"]) == (403, "your key is not for the model 'given'")


@pytest.mark.parametrize("model", ["preset:Shopping list", "preset:other", "given@plain", "@plain"])
async def test_a_preset_is_refused_if_its_model_is_a_preset_or_the_name_of_a_model_without_tools(model: str) -> None:
    async with open_clients() as clients:
        body = {"settings": {**SETTINGS, "model": model}}
        status, answer, _ = await clients.client.ask("PUT", "/presets/x", body, x_api_key="ann")
        details: Json = answer["details"]
        assert (status, details["fields"][0]["key"]) == (422, "settings.model"), answer
        # One that an earlier version has saved.
        await clients.yard.service.presets.save(CALLER, "x", msgspec.json.encode({"model": model}), shared=True)
        status, answer = await clients.ask("/v1/messages", {**REQUESTS["/v1/messages"], "model": "preset:x"})
        assert (status, answer["error"]["message"]) == (404, "there is no preset 'x'")


async def test_an_unknown_tool_choice_names_only_tools_that_the_key_may_use() -> None:
    choice = {"type": "tool", "name": "nothing"}
    tool = {"name": "mine", "input_schema": {"type": "object"}}
    async with open_clients() as clients:
        body = {**REQUESTS["/v1/messages"], "model": "given", "tool_choice": choice, "tools": [tool]}
        status, answer = await clients.ask("/v1/messages", body, key="sam")
    message: str = answer["error"]["message"]
    assert (status, "order" in message, "mine" in message) == (400, True, True), message
    assert "pay" not in message and "add_to_groceries" not in message


async def count_tokens(clients: PresetClient, **fields: Json) -> int:
    status, answer = await clients.ask("/v1/messages/count_tokens", {"messages": [QUESTION], **fields})
    assert status == 200, answer
    return int(answer["input_tokens"])


async def test_a_count_of_tokens_has_the_prompt_and_the_tools_of_a_preset() -> None:
    async with open_clients(default_settings=Settings(tools=frozenset({"order"}))) as clients:
        await clients.save(name="a", system_prompt="", tools=[])
        await clients.save(name="b", system_prompt="x" * 400, tools=[])
        await clients.save(name="c", system_prompt="", tools=["add_to_groceries", "order"])
        plain, bare, prompt, tools = [
            await count_tokens(clients, model=model) for model in ("default", "preset:a", "preset:b", "preset:c")
        ]
        narrow = await count_tokens(clients, model="preset:c", toolyard={"server_tools": ["order"]})
        none = await count_tokens(clients, model="preset:c", toolyard={"server_tools": "none"})
    assert prompt - bare >= 100
    assert bare == none < plain == narrow < tools


async def test_an_open_run_keeps_the_preset_and_the_next_one_gets_the_new_one_or_404() -> None:
    script = [call("order", item="milk"), say("ordered"), say("new"), say("plain")]
    async with open_clients(*script) as clients:
        await clients.save(tools=["order"], max_turns=5)
        _, created = await clients.ask("/conversations", {"title": "T", "model": MODEL})
        conversation: str = created["conversation"]["id"]
        chat = f"/conversations/{conversation}/chat"
        status, waiting = await clients.ask(chat, {"content": "Order milk"})
        assert status == 202, waiting
        await clients.save(system_prompt="You are another.", tools=[], max_turns=5)
        call_id = waiting["waiting"][0]["call_id"]
        status, answer = await clients.ask(f"/conversations/{conversation}/calls/{call_id}/approve", {"remember": "no"})
        assert status == 200, answer
        status, answer = await clients.ask(chat, {"content": "And now?"})
        assert status == 200, answer
        _, _, _ = await clients.client.ask("DELETE", "/presets/Shopping%20list?shared=true", x_api_key="ann")
        status, answer = await clients.ask(chat, {"content": "And now?"})
        assert (status, answer["error"]) == (404, "there is no preset 'Shopping list'")
        status, answer = await clients.ask(chat, {"content": "x", "model": "given"})
        assert status == 200, answer
    systems = [request.system for request in clients.model.requests]
    assert ["You keep the list." in system for system in systems] == [True, True, False, False]
    assert "You are another." in systems[2]
    offered = [[tool.name for tool in request.offer.tools] for request in clients.model.requests]
    assert offered[:3] == [["order"], ["order"], []]
    assert added == ["ordered milk"]


async def test_a_conversation_cannot_have_a_preset_that_its_user_does_not_have() -> None:
    async with open_clients() as clients:
        status, answer = await clients.ask("/conversations", {"title": "T", "model": "preset:none"})
        assert (status, answer["error"]) == (404, "there is no preset 'none'")
