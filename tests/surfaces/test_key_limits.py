"""What a key is limited to counts on every way to a tool or a model, and for the users that it speaks for."""

import asyncio

import pytest
from msgspec.structs import replace

from surfaces.api_client import Json, build_key, open_api_client
from toolyard import ModelRequest, Result, tool
from toolyard.core.settings.limits import SocketLimits
from toolyard.engine.access.authentication import hash_key
from toolyard.testing import Scripted, Turn, call, say

KEYS = [
    build_key("ann", tools=frozenset({"look_*"}), models=frozenset({"giv*"})),
    build_key("bob", models=frozenset({"openai:*"})),
    build_key("shop", tools=frozenset({"look_*"}), trusted=True),
    build_key("root", "admin", tenant=""),
    build_key("eve"),
    replace(build_key("eve", tools=frozenset({"look_*"})), name="eve's phone", hash=hash_key("phone")),
]


@tool
def look_up(word: str) -> str:
    """Look up a word."""
    return f"{word}: found"


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"


def named_tools(answer: Json) -> set[str]:
    return {card["name"] for card in answer["tools"]} & {"look_up", "pay"}


async def test_a_key_of_some_tools_is_shown_and_offered_them_and_runs_no_other() -> None:
    async with open_api_client([call("pay", amount=1), say("ok")], tools=[look_up, pay], keys=KEYS) as http:
        ann = http.with_key("ann")
        assert named_tools(await ann.get("/tools")) == {"look_up"}
        path = await ann.create_conversation()
        await ann.post(f"{path}/chat", {"content": "pay"})
        (result,) = [message["content"] for message in await ann.list_messages(path) if message["role"] == "tool"]
        assert "permission_denied" in result and "the key is not for this tool" in result
        access = (await ann.get("/access?tool=pay"))["access"]
        assert (access["decision"], access["rule"]) == ("deny", "key")


async def test_the_users_of_a_trusted_key_have_no_more_tools_than_the_key() -> None:
    async with open_api_client(tools=[look_up, pay], keys=KEYS) as http:
        headers = {"x_user": "guest", "x_roles": "manager"}
        _, listed, _ = await http.with_key("shop").send_request("GET", "/tools", **headers)
        assert named_tools(listed) == {"look_up"}


def make_silent_model(name: str) -> Scripted:
    return Scripted([])


@tool(approval="ask")
def send(text: str) -> str:
    """Send a text."""
    return "sent"


async def test_a_key_of_some_tools_approves_no_other_and_may_deny_it() -> None:
    async with open_api_client([call("send", text="x"), say("ok")], tools=[look_up, send], keys=KEYS) as http:
        eve, phone = http.with_key("eve"), http.with_key("phone")
        path = await eve.create_conversation()
        waiting = (await eve.post(f"{path}/chat", {"content": "send"}, expect=202))["waiting"]
        call_path = f"{path}/calls/{waiting[0]['call_id']}"
        refused = await phone.post(f"{call_path}/approve", {}, expect=403)
        assert "your key is not for the tool 'send'" in refused["error"]
        await phone.post(f"{call_path}/deny", {})


async def test_a_key_of_some_models_leaves_no_conversation_to_another() -> None:
    async with open_api_client(keys=KEYS, named_model=make_silent_model) as http:
        bob = http.with_key("bob")
        path = await bob.create_conversation(model="openai:small")
        refused = await bob.put(path, {"model": ""}, expect=403)
        assert "your key is not for the model 'given'" in refused["error"]
        await bob.put(path, {"title": "Still mine"})
        await bob.put(path, {"model": "openai:large"})


async def test_a_key_of_some_models_starts_no_run_with_another() -> None:
    async with open_api_client([say("ok")], keys=KEYS) as http:
        bob = http.with_key("bob")
        path = await bob.create_conversation()
        refused = await bob.post(f"{path}/chat", {"content": "hi"}, expect=403)
        assert "your key is not for the model" in refused["error"]
        body: dict[str, list[Json]] = {"messages": [{"role": "user", "content": "hi"}]}
        _, answer, _ = await bob.send_request("POST", "/v1/chat/completions", body)
        assert "your key is not for the model" in str(answer)
        searched = [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}]
        body["messages"].append({"role": "assistant", "content": searched})  # it asks the model to go on
        _, answer, _ = await bob.send_request("POST", "/v1/messages", {**body, "model": "default", "max_tokens": 9})
        assert "your key is not for the model" in str(answer)
        ann = http.with_key("ann")
        await ann.post(f"{await ann.create_conversation()}/chat", {"content": "hi"})
        answers = [await http.with_key(user).get("/models") for user in ("bob", "ann")]
        assert [{card["id"] for card in answer["models"]} for answer in answers] == [set(), {"given"}]


async def test_keys_are_made_with_limits_rotated_and_shown_with_their_last_use() -> None:
    async with open_api_client(keys=KEYS) as http:
        root = http.with_key("root")
        new = {
            "name": "guest",
            "user": "guest",
            "tools": ["look_*"],
            "expires_at": 4e9,
            "origins": ["https://a.example"],
        }
        created = await root.post("/keys", new, expect=201)
        assert created["key"]["tools"] == ["look_*"] and created["key"]["last_used_at"] == 0
        await http.with_key(created["secret"]).get("/tools", expect=403)
        _, _, _ = await http.with_key(created["secret"]).send_request("GET", "/tools", origin="https://a.example")
        rotated = await root.post("/keys/guest/rotate", {"overlap_s": 3600})
        assert rotated["key"]["previous_until"] > 0 and rotated["secret"] != created["secret"]
        for secret in (created["secret"], rotated["secret"]):
            status, _, _ = await http.with_key(secret).send_request("GET", "/tools", origin="https://a.example")
            assert status == 200
        await root.post("/keys/guest/rotate")
        for secret in (created["secret"], rotated["secret"]):
            await http.with_key(secret).get("/tools", expect=401)
        shown = {key["name"]: key for key in (await root.get("/keys"))["keys"]}
        assert shown["guest"]["last_used_at"] > 0 and shown["ann@t"]["last_used_at"] == 0
        await root.post("/keys/none/rotate", expect=404)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"expires_at": 5, "not_before": 10}, "expires_at"),
        ({"expires_at": -5}, "expires_at"),
        ({"not_before": -5}, "not_before"),
        ({"origins": ["shop.example"]}, "origins"),
        ({"origins": ["https://shop.example/path"]}, "origins"),
    ],
)
async def test_a_key_that_nobody_could_use_is_not_made(fields: dict[str, object], field: str) -> None:
    async with open_api_client(keys=KEYS) as http:
        refused = await http.with_key("root").post("/keys", {"name": "x", "user": "x", **fields}, expect=422)
        assert refused["details"]["field"] == field


async def test_a_user_has_so_many_requests_open_and_no_more_and_others_have_theirs() -> None:
    entered, opened = asyncio.Semaphore(0), asyncio.Event()

    @tool
    async def hold() -> str:
        """Wait until the test lets it go on."""
        entered.release()
        await opened.wait()
        return "held"

    def choose_turn(request: ModelRequest) -> Turn:
        return say("done") if isinstance(request.history[-1], Result) else call("hold")

    limits = SocketLimits(max_user_requests=2)
    async with open_api_client(choose_turn, tools=[hold], keys=KEYS, socket_limits=limits) as http:
        root, bob = http.with_key("root"), http.with_key("bob")
        paths = [await root.create_conversation() for _ in range(2)]
        async with asyncio.TaskGroup() as tasks:
            for path in paths:
                tasks.create_task(root.post(f"{path}/chat", {"content": "hi"}))
            for _ in paths:
                await entered.acquire()
            refused = await root.get("/tools", expect=503)
            assert "2 requests and streams open at most" in refused["error"]
            await bob.get("/tools")
            opened.set()
        await root.get("/tools")
