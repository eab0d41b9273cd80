"""Who may use which route: every route, and every kind of caller. A route that no line names fails the test."""

import asyncio
import re
from collections.abc import Iterable
from typing import NamedTuple

import aiohttp
from litestar.handlers import HTTPRouteHandler, WebsocketRouteHandler

from support import TEST_TIMEOUT_S
from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import serve_yard
from surfaces.openai.sockets import open_talk, refuse_handshake
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.surfaces.app import SURFACES
from toolyard.surfaces.surface import Route
from toolyard.testing import say

CALLERS: dict[str, dict[str, str]] = {
    "nobody": {},
    "user": {"x-api-key": "una"},
    "owner": {"x-api-key": "ann"},
    "tenant user": {"x-api-key": "bob"},
    "tenant operator": {"x-api-key": "oda"},
    "tenant approver": {"x-api-key": "abe"},
    "tenant admin": {"x-api-key": "ada"},
    "other tenant's operator": {"x-api-key": "eve"},
    "operator": {"x-api-key": "otto"},
    "admin": {"x-api-key": "root"},
    "trusted key for a user": {"x-api-key": "shop", "x-user": "guest"},
}
KEYS = [
    build_key("una", tenant=""),
    build_key("ann"),
    build_key("bob"),
    build_key("oda", "operator"),
    build_key("abe", "approver"),
    build_key("ada", "admin"),
    build_key("eve", "operator", "approver", "admin", tenant="elsewhere"),
    build_key("otto", "operator", tenant=""),
    build_key("root", "admin", tenant=""),
    build_key("shop", "admin", "operator", "approver", tenant="", trusted=True),
]

EVERYBODY = frozenset(CALLERS)
WITH_KEY = EVERYBODY - {"nobody"}
OWNER = frozenset({"owner"})
SEES = OWNER | {"tenant operator", "tenant approver"}
TENANT = SEES | {"tenant user", "tenant admin"}
LACKS_PRESET = TENANT - OWNER - {"tenant admin"}
"""Those who see the owner's shared preset and may not change it. In other tenants there is none of its name."""
DECIDES = OWNER | {"tenant approver"}
OVERSEES = frozenset({"tenant operator", "tenant approver", "other tenant's operator", "operator"})
ADMINISTERS = frozenset({"tenant admin", "other tenant's operator", "admin"})
ADMINISTERS_SERVER = frozenset({"admin"})
OBSERVES_SERVER = frozenset({"operator", "admin"})


class Row(NamedTuple):
    """A request, who may make it, and what the others with a key are told: 403, or that there is no such thing."""

    method: str
    path: str
    may: frozenset[str]
    refusal: str = "forbidden"
    body: object = None


def make_hidden_row(method: str, path: str, may: frozenset[str], body: object = None) -> Row:
    return Row(method, path, may, "hidden", body)


CONVERSATION = "/conversations/{conversation_id}"
CALL = f"{CONVERSATION}/calls/{{call_id}}"
NOTHING: dict[str, object] = {}
ENDS = ("test", "set-default", "models/{kind}")
"""Of paths at which older clients change a provider, which nobody may; a POST to `test` tries it."""
UI_MESSAGE = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
TOOL_NAME = {"server_id": "function", "tool_name": "x"}
HIDDEN = ("there is no conversation", "there is no trace", "there is no response", "there is no shared")
MESSAGES_BODY = {"model": "default", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
ROWS = [
    Row("GET", "/", EVERYBODY),
    Row("GET", "/diagram", EVERYBODY),
    Row("GET", "/assets/{name}", EVERYBODY),
    Row("GET", "/healthz", EVERYBODY),
    Row("GET", "/readyz", EVERYBODY),
    Row("GET", "/openapi.json", EVERYBODY),
    Row("GET", "/docs", EVERYBODY),
    Row("GET", "/session", EVERYBODY),
    Row("GET", "/session/oidc", EVERYBODY),
    Row("GET", "/session/oidc/callback?code=x&state=y", EVERYBODY),
    Row("GET", "/me", WITH_KEY),
    Row("GET", "/me/instructions", WITH_KEY),
    Row("PUT", "/me/instructions", WITH_KEY, body={"text": ""}),
    Row("POST", "/files/text", WITH_KEY, body=NOTHING),
    Row("GET", "/tools", WITH_KEY),
    Row("GET", "/ai/tools/health", WITH_KEY),
    Row("POST", "/ai/respond", WITH_KEY, body={"prompt": "hi"}),
    Row("GET", "/v1/models", WITH_KEY),
    Row("GET", "/v1/models/{name}", WITH_KEY),
    Row("POST", "/v1/chat/completions", WITH_KEY, body={"messages": [{"role": "user", "content": "hi"}]}),
    Row("POST", "/v1/messages", WITH_KEY, body=MESSAGES_BODY),
    Row("POST", "/v1/messages/count_tokens", WITH_KEY, body=MESSAGES_BODY),
    Row("POST", "/v1/responses", WITH_KEY, body={"input": "hi"}),
    Row("POST", "/v1/responses/compact", WITH_KEY, body={"model": "default", "input": "hi"}),
    make_hidden_row("GET", "/v1/responses/{response_id}", OWNER),
    make_hidden_row("POST", "/v1/responses/{response_id}/cancel", OWNER),
    make_hidden_row("GET", "/v1/responses/{response_id}/input_items", OWNER),
    make_hidden_row("DELETE", "/v1/responses/{response_id}", OWNER),
    Row("POST", "/v1/responses/input_tokens", WITH_KEY, body={"input": "hi"}),
    Row("POST", "/v1/conversations", WITH_KEY, body=NOTHING),
    make_hidden_row("GET", "/v1/conversations/{conversation_id}", SEES),
    make_hidden_row("POST", "/v1/conversations/{conversation_id}", OWNER, NOTHING),
    make_hidden_row("GET", "/v1/conversations/{conversation_id}/items", SEES),
    make_hidden_row("POST", "/v1/conversations/{conversation_id}/items", OWNER, {"items": []}),
    make_hidden_row("GET", "/v1/conversations/{conversation_id}/items/{item_id}", SEES),
    make_hidden_row("DELETE", "/v1/conversations/{conversation_id}/items/{item_id}", OWNER),
    Row("POST", "/chat/v1/conversation", WITH_KEY, body={"messages": [{"role": "user", "content": "hi"}]}),
    Row("POST", "/ai-sdk/chat", WITH_KEY, body={"id": "none", "messages": [UI_MESSAGE]}),
    Row("GET", "/ai-sdk/chat/{thread_id}/stream", WITH_KEY),
    Row("POST", "/ai-sdk/chat/{thread_id}/stop", WITH_KEY),
    Row("GET", "/ag-ui/capabilities", WITH_KEY),
    Row(
        "POST",
        "/ag-ui",
        WITH_KEY,
        body={"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hi"}]},
    ),
    Row("POST", "/mcp", WITH_KEY, body={"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    Row("GET", "/mcp", WITH_KEY),
    Row("DELETE", "/mcp", WITH_KEY),
    Row("GET", "/models", WITH_KEY),
    Row("GET", "/providers", WITH_KEY),
    Row("GET", "/providers/{provider_id}", WITH_KEY),
    Row("GET", "/providers/{provider_id}/models", WITH_KEY),
    *(
        Row(method, path, WITH_KEY)
        for method in ("POST", "PUT", "PATCH", "DELETE")
        for path in ("/providers", "/providers/{provider_id}", *(f"/providers/{{provider_id}}/{end}" for end in ENDS))
        if (method, path) != ("POST", "/providers/{provider_id}/test")
    ),
    Row("POST", "/providers/{provider_id}/test", ADMINISTERS_SERVER, body=NOTHING),
    Row("GET", "/settings", ADMINISTERS),
    Row("GET", "/settings/{kind}/{name}", ADMINISTERS_SERVER),
    Row("PUT", "/settings/{kind}/{name}", ADMINISTERS_SERVER, body={"value": NOTHING}),
    Row("POST", "/settings/import", ADMINISTERS_SERVER, body={}),
    Row("DELETE", "/settings/{kind}/{name}", ADMINISTERS_SERVER),
    Row("GET", "/metrics", OBSERVES_SERVER),
    Row("GET", "/access?tool=none", WITH_KEY),
    Row("GET", "/access?tool=none&key=none", ADMINISTERS),
    Row("GET", "/keys", ADMINISTERS),
    Row("POST", "/keys", ADMINISTERS, body={"name": "new", "user": "new"}),
    Row("POST", "/keys/{name}/rotate", ADMINISTERS, body=NOTHING),
    Row("DELETE", "/keys/{name}", ADMINISTERS),
    Row("GET", "/people", ADMINISTERS),
    Row("DELETE", "/people/sessions?user=none", ADMINISTERS),
    Row("GET", "/audit", ADMINISTERS),
    Row("GET", "/audit/verification", ADMINISTERS_SERVER),
    Row("GET", "/servers", WITH_KEY),
    Row("GET", "/servers/{server_id}", WITH_KEY),
    Row("GET", "/servers/{server_id}/tools", WITH_KEY),
    Row("POST", "/servers/{server_id}/tools/call", WITH_KEY, body={"tool_name": "x"}),
    Row("POST", "/servers", ADMINISTERS_SERVER, body={"name": "shared", "config": {"command": "x"}}),
    Row("POST", "/servers/test", ADMINISTERS_SERVER, body={"name": "x", "config": {"url": "http://127.0.0.1:9/"}}),
    Row("POST", "/servers/import", ADMINISTERS_SERVER, body={"mcpServers": {"shared": {"url": "http://127.0.0.1:9"}}}),
    Row("PUT", "/servers/{server_id}", ADMINISTERS_SERVER, body={"config": {"command": "x"}}),
    Row("POST", "/servers/{server_id}/login", ADMINISTERS_SERVER, body={"redirect_uri": "http://example.org/"}),
    Row("POST", "/servers/{server_id}/login/answer", ADMINISTERS_SERVER, body={"state": "x", "code": "x"}),
    Row("DELETE", "/servers/{server_id}/login", ADMINISTERS_SERVER),
    Row("GET", "/usage", WITH_KEY),
    Row("GET", "/budgets", WITH_KEY),
    Row("GET", "/connections", WITH_KEY),
    Row("DELETE", "/connections/{server_id}", WITH_KEY),
    Row("POST", "/servers/{server_id}/start", ADMINISTERS_SERVER),
    Row("POST", "/servers/{server_id}/stop", ADMINISTERS_SERVER),
    Row("POST", "/servers/{server_id}/accept", ADMINISTERS_SERVER, body=NOTHING),
    Row("POST", "/servers/{server_id}/reject", ADMINISTERS_SERVER, body=NOTHING),
    Row("DELETE", "/servers/{server_id}", ADMINISTERS_SERVER),
    Row("DELETE", "/servers/{server_id}/names", ADMINISTERS_SERVER),
    Row("GET", "/conversations", WITH_KEY),
    Row("GET", "/conversations?whose=tenant", OVERSEES),
    Row("GET", "/conversations/search?q=hi", WITH_KEY),
    Row("POST", "/conversations", WITH_KEY, body={"title": "x"}),
    Row("GET", "/traces", WITH_KEY),
    Row("GET", "/traces?whose=tenant", OVERSEES),
    Row("GET", "/overview", WITH_KEY),
    Row("GET", "/overview?whose=tenant", OVERSEES),
    Row("GET", "/live", WITH_KEY),
    Row("GET", "/live?whose=tenant", OVERSEES),
    Row("GET", "/live?whose=deciding", WITH_KEY),
    Row("GET", "/decisions", WITH_KEY),
    make_hidden_row("GET", "/traces/{correlation_id}", SEES),
    make_hidden_row("GET", CONVERSATION, SEES),
    make_hidden_row("GET", f"{CONVERSATION}/messages", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/context", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/context/{{context_id}}", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/events", SEES),
    make_hidden_row("GET", f"/sse{CONVERSATION}", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/tools", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/tools/available", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/runs/{{run_id}}", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/feedback", SEES),
    make_hidden_row("PUT", f"{CONVERSATION}/runs/{{run_id}}/feedback", OWNER, {"rating": "up"}),
    make_hidden_row("DELETE", f"{CONVERSATION}/runs/{{run_id}}/feedback", OWNER),
    make_hidden_row("POST", f"{CALL}/approve", DECIDES, NOTHING),
    make_hidden_row("POST", f"{CALL}/deny", DECIDES, NOTHING),
    make_hidden_row("POST", f"{CALL}/answer", DECIDES, NOTHING),
    make_hidden_row("POST", f"{CALL}/result", DECIDES, {"result": 1}),
    make_hidden_row("POST", f"{CONVERSATION}/cancel", DECIDES, NOTHING),
    make_hidden_row("GET", f"{CONVERSATION}/export", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/export?format=json", SEES),
    make_hidden_row("GET", f"{CONVERSATION}/shares", OWNER),
    make_hidden_row("POST", f"{CONVERSATION}/shares", OWNER, NOTHING),
    make_hidden_row("DELETE", f"{CONVERSATION}/shares/{{share_id}}", OWNER),
    make_hidden_row("GET", "/shares/{token}", TENANT),
    Row("GET", "/presets", WITH_KEY),
    Row("DELETE", "/presets/{name}?shared=true", WITH_KEY - LACKS_PRESET),
    Row("PUT", "/presets/{name}", WITH_KEY, body={"settings": {}}),
    Row("DELETE", "/presets/{name}", WITH_KEY),
    make_hidden_row("PUT", CONVERSATION, OWNER, {"title": "x"}),
    make_hidden_row("POST", f"{CONVERSATION}/messages", OWNER, {"role": "user", "content": "x"}),
    make_hidden_row("DELETE", f"{CONVERSATION}/messages/{{message_id}}", OWNER),
    make_hidden_row("POST", f"{CONVERSATION}/context", OWNER, {"descriptive_name": "x", "content": "x"}),
    make_hidden_row("PUT", f"{CONVERSATION}/context/{{context_id}}", OWNER, {"descriptive_name": "x", "content": "x"}),
    make_hidden_row("DELETE", f"{CONVERSATION}/context/{{context_id}}", OWNER),
    make_hidden_row("POST", f"{CONVERSATION}/tools", OWNER, TOOL_NAME),
    make_hidden_row("DELETE", f"{CONVERSATION}/tools", OWNER, TOOL_NAME),
    make_hidden_row("POST", f"{CONVERSATION}/calls", OWNER, {"tool": "x"}),
    make_hidden_row("POST", f"{CONVERSATION}/chat", OWNER, {"content": "hi"}),
    make_hidden_row("POST", f"{CONVERSATION}/rewind", OWNER, {"to": ""}),
    make_hidden_row("POST", f"{CONVERSATION}/fork", OWNER, NOTHING),
    make_hidden_row("DELETE", f"{CONVERSATION}?undo=true", OWNER),
    make_hidden_row("POST", f"{CONVERSATION}/restore", OWNER),
    make_hidden_row("DELETE", CONVERSATION, OWNER),
]
TURN = f"{CONVERSATION}/runs/{{run_id}}/turns/{{number}}"
"""For operators among those who see the conversation; its own line is in a test of its own."""
ORIGINAL = f"{CALL}/original"
"""For administrators among those who see the conversation, whom `tests/flows/test_redaction.py` has."""
ELSEWHERE = {
    ("GET", TURN),
    ("GET", ORIGINAL),
    ("POST", "/session"),
    ("DELETE", "/session"),
    ("WEBSOCKET", "/v1/responses"),
    ("DELETE", "/v1/conversations/{conversation_id}"),
    ("GET", "/v1/messages/batches"),
    ("POST", "/v1/messages/batches"),
}
"""Routes with tests of their own: deleting ends what other rows ask for; there are no batches for anybody;
signing in and out, in `test_sessions.py`, needs no key but the page's origin."""


class RoleClient:
    """Requests to a running yard, each as one of the callers."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.ids: dict[str, str] = {
            "name": "none", "server_id": "shared", "call_id": "none", "context_id": "none", "message_id": "none",
            "kind": "none", "provider_id": "none", "share_id": "none", "thread_id": "none", "item_id": "none",
            "number": "1",
        }  # fmt: skip

    async def ask(
        self, caller: str, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Json, str]:
        """The status, the JSON of an answer that is no stream, and the correlation id."""
        url = self._url + path.format_map(self.ids)
        async with self._session.request(method, url, json=body, headers={**CALLERS[caller], **headers}) as answer:
            content: Json = await answer.json() if answer.content_type == "application/json" else None
            return answer.status, content, answer.headers["x-correlation-id"]

    async def request_outcome(self, caller: str, row: Row) -> str:
        status, content, _ = await self.ask(caller, row.method, row.path, row.body)
        if status == 404:
            error: Json = content["error"]
            message: Json = error["message"] if row.path.startswith("/v1/") else error
            if message.startswith(HIDDEN):
                return "hidden"
        if row.path.endswith("/tools/call") and status == 503:
            assert content["error_type"] == "unavailable", content  # the server of the tool is stopped
            return "let in"
        assert status < 500 and (status != 422 or row.path.endswith("/login")), (caller, row, status, content)
        return {401: "unauthenticated", 403: "forbidden"}.get(status, "let in")

    async def prepare(self) -> None:
        """Have the owner begin a conversation with one run in it."""
        _, reply, _ = await self.ask("owner", "POST", "/conversations", {"title": "Ours"})
        self.ids["conversation_id"] = reply["conversation"]["id"]
        _, _, trace = await self.ask("owner", "POST", f"{CONVERSATION}/chat", {"content": "hi"})
        _, listed, _ = await self.ask("owner", "GET", "/traces?conversation={conversation_id}")
        _, response, _ = await self.ask("owner", "POST", "/v1/responses", {"input": "hi"})
        _, shared, _ = await self.ask("owner", "POST", f"{CONVERSATION}/shares", NOTHING)
        await self.ask("owner", "PUT", "/presets/{name}", {"settings": NOTHING, "shared": True})
        self.ids |= {
            "correlation_id": trace,
            "token": shared["token"],
            "run_id": listed["runs"][0]["run_id"],
            "response_id": response["id"],
        }


def get_expected_outcome(caller: str, row: Row) -> str:
    return "let in" if caller in row.may else "unauthenticated" if caller == "nobody" else row.refusal


def order_callers(row: Row) -> Iterable[str]:
    """Those who may come last: what they do may end what the others ask for."""
    return sorted(CALLERS, key=lambda caller: caller in row.may)


async def check_rows() -> None:
    shared = ServerSpec(url="http://127.0.0.1:9/mcp", connect_s=1.0)
    async with (
        asyncio.timeout(2 * TEST_TIMEOUT_S),
        build_yard(lambda _: say("ok"), keys=KEYS, servers={"shared": shared}, add_servers="all") as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession() as session,
    ):
        client = RoleClient(session, url)
        await client.prepare()
        wrong = [
            f"{row.method} {row.path}: {caller} is {outcome}, not {get_expected_outcome(caller, row)}"
            for row in ROWS
            for caller in order_callers(row)
            if (outcome := await client.request_outcome(caller, row)) != get_expected_outcome(caller, row)
        ]
        assert not wrong, "\n".join(wrong)
        named = {(row.method, row.path.partition("?")[0]) for row in ROWS} | ELSEWHERE
        undecided = list_routes() - named
        assert not undecided, f"say in ROWS who may use {sorted(undecided)}"


def list_routes() -> set[tuple[str, str]]:
    """Return the method and the path of every route, also of those that the API's description leaves out."""
    return {
        (method, re.sub(r"\{(\w+):\w+\}", r"{\1}", path))
        for surface in SURFACES
        for route in surface.routes
        for path in route.paths
        for method in list_methods(route)
    }


def list_methods(route: Route) -> Iterable[str]:
    if isinstance(route, HTTPRouteHandler):
        return map(str, route.http_methods)
    return {"WEBSOCKET"} if isinstance(route, WebsocketRouteHandler) else {"GET", "POST", "DELETE"}


async def test_each_route_lets_in_those_who_may_and_nobody_else() -> None:
    await check_rows()


async def test_what_is_another_tenants_looks_like_what_does_not_exist() -> None:
    names = ("conversation_id", "correlation_id", "response_id", "run_id", "token")
    async with (
        asyncio.timeout(2 * TEST_TIMEOUT_S),
        build_yard(lambda _: say("ok"), keys=KEYS) as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession() as session,
    ):
        client = RoleClient(session, url)
        await client.prepare()
        existing = dict(client.ids)
        missing = {**existing, **{name: f"{existing[name][:-6]}ffffff" for name in names}}

        async def ask_for(ids: dict[str, str], row: Row) -> tuple[int, str]:
            client.ids = ids
            status, content, trace = await client.ask("other tenant's operator", row.method, row.path, row.body)
            text = str(content).replace(trace, "")
            for name in names:
                text = text.replace(ids[name], name)
            return status, text

        for row in ROWS:
            if row.refusal == "hidden":
                assert await ask_for(existing, row) == await ask_for(missing, row), row


async def check_turn() -> None:
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        build_yard(lambda _: say("ok"), keys=KEYS) as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession() as session,
    ):
        client = RoleClient(session, url)
        await client.prepare()
        row = make_hidden_row("GET", TURN, frozenset({"tenant operator"}))
        for caller in CALLERS:
            among_others = "forbidden" if caller in ("owner", "tenant approver") else get_expected_outcome(caller, row)
            assert await client.request_outcome(caller, row) == among_others, caller
        row = Row("GET", ORIGINAL, frozenset())
        for caller in CALLERS:
            hidden = "hidden" if caller in ADMINISTERS else get_expected_outcome(caller, row)
            assert await client.request_outcome(caller, row) == hidden, caller


async def test_what_went_to_the_model_is_for_operators_of_the_tenant_and_secrets_for_administrators() -> None:
    await check_turn()


async def test_a_websocket_lets_in_every_caller_with_a_key_and_shows_nothing_of_others() -> None:
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        build_yard(lambda _: say("ok"), keys=KEYS) as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession() as session,
    ):
        client = RoleClient(session, url)
        await client.prepare()
        assert await refuse_handshake(url) == 401
        for caller in sorted(WITH_KEY):
            async with open_talk(url, **CALLERS[caller]) as talk:
                assert (await talk.create())[-1]["type"] == "response.completed", caller
                last = (await talk.create(previous_response_id=client.ids["response_id"]))[-1]
                assert last["type"] == ("response.completed" if caller in OWNER else "error"), caller
                assert caller in OWNER or last["code"] == "previous_response_not_found", caller
