"""Credentials that were sent to a server in every way there is are found in nothing that it says or keeps."""

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support import LineCollector
from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import SocketClient, connect_client
from toolyard.engine.access.authentication import hash_key
from toolyard.engine.settings.setting_store import SETTINGS
from toolyard.observability.otel import Spans
from toolyard.stores.memory import MemoryStore
from toolyard.testing import call, say
from toolyard.venues.mcp.server_records import SERVERS

ADMIN, OPERATOR = "planted-admin-key", "planted-operator-key"
KEYS = [
    replace(build_key("root", "admin", tenant=""), hash=hash_key(ADMIN)),
    replace(build_key("otto", "operator", tenant=""), hash=hash_key(OPERATOR)),
    build_key("una", tenant=""),
]
READ_PATHS = [
    "/me", "/keys", "/audit", "/access?tool=fail_to_pay", "/servers",
    "/servers/remote", "/servers/remote/tools", "/servers/local", "/servers/local/tools",
    "/servers/pasted", "/audit?action=server.add", "/audit?action=server.change", "/audit?action=server.test",
    "/tools", "/models", "/providers", "/overview", "/overview?whose=tenant", "/live", "/live?whose=tenant", "/traces",
    "/traces?whose=tenant", "/conversations", "/conversations?whose=tenant", "/presets", "/metrics", "/readyz",
    "/ai/tools/health", "/openapi.json", "/settings", "/settings?kind=providers", "/settings/providers/planned",
    "/settings/providers/openai", "/settings/general/model", "/providers/planned", "/providers/planned/models",
    "/audit?action=setting.set", "/audit?action=provider.test", "/connections", "/people", "/settings?kind=tool",
    "/settings/tool/fail_to_pay", "/settings/general/limits", "/audit?action=session.end",
    "/settings/tenants/acme", "/settings/divisions/food", "/settings/general/redact", "/settings/general/web_search",
    "/settings/general/trust", "/settings/budgets/team", "/settings/prices/planned:any", "/usage", "/usage?format=csv",
    "/budgets", "/decisions", "/access?tool=fail_to_pay&key=one", "/audit?action=key.add", "/audit?action=key.rotate",
    "/audit?action=key.revoke", "/audit?action=setting.delete", "/audit/verification", "/settings/providers/imported",
    "/servers/imported", "/audit?action=server.remove",
]  # fmt: skip


ADMINISTERED = {"settings", "servers", "keys", "providers", "audit", "usage", "traces"}
"""The tags of the routes that administrators and operators use: the test asks each of them."""


class RecordingClient(SocketClient):
    """A client that keeps what it has asked for."""

    def __init__(self, http: SocketClient) -> None:
        super().__init__(http.session, http.url, http.headers)
        self.asked: set[str] = set()

    async def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, object], dict[str, str]]:
        self.asked.add(f"{method} {path.partition('?')[0]}")
        return await super().ask(method, path, body, **headers)

    async def list_unasked(self) -> list[str]:
        """Return the routes of administrators that were not asked for, as the server describes them."""
        _, api, _ = await super().ask("GET", "/openapi.json")
        paths: Json = api["paths"]
        routes = [
            f"{method.upper()} {path}"
            for path, operations in paths.items()
            for method, operation in operations.items()
            if not ADMINISTERED.isdisjoint(operation["tags"])
        ]
        assert len(routes) > 40
        patterns = {route: re.compile(re.sub(r"\{\w+\}", "[^/]+", route)) for route in routes}
        return [route for route, pattern in patterns.items() if not any(map(pattern.fullmatch, self.asked))]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    for name in ("toolyard", "uvicorn", "aiohttp", ""):
        caplog.set_level(logging.DEBUG, name)
    collector = LineCollector(logging.DEBUG)
    logging.getLogger().addHandler(collector)
    yield collector.lines
    logging.getLogger().removeHandler(collector)


def fail_to_pay(password: str, authorization: str) -> None:
    """Pay, which fails."""
    raise RuntimeError("the bank is closed")


def list_planted(text: str) -> list[str]:
    """Return what surrounds each planted credential in a text."""
    places = [place for place in range(len(text)) if text.startswith("planted-", place)]
    return [text[max(0, place - 60) : place + 40] for place in places]


async def send_wrong_credentials(http: SocketClient) -> list[str]:
    """Send credentials that are refused, and return the answers."""
    answers: list[Json] = []
    for headers in (
        {"x_api_key": "planted-wrong-key"},
        {"authorization": "Bearer planted-wrong-token"},
        {"authorization": "Basic planted-basic"},
        {"authorization": "planted-scheme planted-value"},
        {"cookie": "toolyard_session=planted-cookie; __Host-toolyard_session=planted-host-cookie"},
        {"sec_websocket_protocol": "planted-websocket-protocol"},
        {"x_api_key": "una", "x_user": "ann", "cookie": "planted-name=planted-cookie-value"},
    ):
        for path in ("/me", "/v1/models", "/ag-ui/capabilities", "/mcp", "/nowhere"):
            answers.append(await http.ask("GET", path, **headers))
    for body in ({"key": "planted-sign-in"}, {"key": ["planted-listed"]}, {"key": {"planted-name": "planted-value"}}):
        answers.append(await http.ask("POST", "/session", body, origin=http.url))
    for path in ("/me?key=planted-query", "/conversations?access_token=planted-query", "/shares/planted-token"):
        answers.append(await http.ask("GET", path, x_api_key="una"))
        answers.append(await http.ask("GET", path))
    return [repr(answer) for answer in answers]


async def add_servers(http: SocketClient) -> list[str]:
    """Add MCP servers that cannot be reached, with credentials in each place that takes one; return the answers."""
    remote = {
        "url": "http://planted-user:planted-password@127.0.0.1:9/mcp?token=planted-url-token",
        "headers": {"Authorization": "Bearer planted-header", "X-Custom": "planted-custom-header"},
        "oauth": {"issuer": "http://127.0.0.1:9", "client_id": "toolyard", "client_secret": "planted-client-secret"},
        "connect_s": 1.0,
    }
    local = {
        "command": "false",
        "args": ["--token=planted-token", "--api-key", "planted-key", "-e", "TOKEN=planted-t"],
        "env": {"HARMLESS": "planted-variable"},
    }
    asked = [
        ("POST", "/servers", {"name": "remote", "config": remote}),
        ("POST", "/servers", {"name": "local", "config": local}),
        ("PUT", "/servers/remote", {"config": {**remote, "headers": {"Authorization": ["planted-listed-header"]}}}),
        ("PUT", "/servers/local", {"config": {**local, "env": {"HARMLESS": {"planted-key": "planted-value"}}}}),
        ("POST", "/servers/remote/start", None),
        ("POST", "/servers/local/start", None),
        ("POST", "/servers/remote/login", {"redirect_uri": "http://127.0.0.1:9/?code=planted-redirect"}),
        ("POST", "/servers/remote/login/answer", {"state": "planted-state", "code": "planted-code"}),
        ("POST", "/servers/local/tools/call", {"tool_name": "x", "arguments": {"api_key": "planted-call-argument"}}),
    ]
    asked += [
        ("POST", "/servers/test", {"name": "tried", "config": remote}),
        ("POST", "/servers/test", {"name": "tried", "config": local}),
        ("POST", "/servers/import", {"mcpServers": {"pasted": {"url": remote["url"], "headers": remote["headers"]}}}),
        ("POST", "/servers/import", {"mcpServers": {"wrong": {"url": ["planted-listed-url"]}}}),
    ]
    asked += [
        ("POST", "/servers", {"name": "gone", "config": {**remote, "headers": {"X-Gone": "planted-removed-header"}}}),
        ("POST", "/servers/gone/stop", None),
        ("POST", "/servers/gone/accept", {"tools": ["nothing"]}),
        ("POST", "/servers/gone/reject", {"hashes": ["nothing"]}),
        ("DELETE", "/servers/gone/login", None),
        ("DELETE", "/servers/gone", None),
        ("DELETE", "/servers/gone/names", None),
    ]
    answers = [await http.ask(method, path, body, x_api_key=ADMIN) for method, path, body in asked]
    assert [status for status, _, _ in answers[:2]] == [201, 201], answers[0][1]
    assert [status for status, _, _ in answers[9:13]] == [200, 200, 200, 422], answers[9:13]
    assert [status for status, _, _ in answers[13:15]] == [201, 200] and answers[-2][0] == 200
    return [repr(answer) for answer in answers]


async def set_providers(http: SocketClient) -> list[str]:
    """Set providers that cannot be reached, with credentials in each place that takes one; return the answers."""
    url = "http://127.0.0.1:9/v1"
    value = {"base_url": url, "api_key": "planted-api-key", "headers": {"X-Custom": "planted-provider-header"}}
    other = {**value, "api_key": "planted-other-key", "headers": {"Authorization": "Bearer planted-bearer"}}
    asked: list[tuple[str, str, object]] = [
        ("PUT", "/settings/providers/planned", {"value": value}),
        ("PUT", "/settings/providers/planned", {"value": other}),
        ("PUT", "/settings/general/model", {"value": "planned:any"}),
        ("PUT", "/settings/providers/openai", {"value": {"api_key": ["planted-listed-key"]}}),
        ("PUT", "/settings/providers/openai", {"value": {"api_key": "planted-two\nlines"}}),
        ("PUT", "/settings/providers/other", {"value": {"base_url": "http://planted-user:planted-pw@127.0.0.1:9"}}),
        ("PUT", "/settings/providers/other", {"value": {"base_url": f"{url}?token=planted-parameter"}}),
        ("PUT", "/settings/general/models", {"value": {"planted-name": "planted-value"}}),
        ("PUT", "/settings/tool/fail_to_pay", {"value": {"approval": ["planted-approval"]}}),
        ("PUT", "/settings/tool/fail_to_pay", {"value": {"timeout_s": 20}}),
        ("PUT", "/settings/general/limits", {"value": {"run_seconds": "planted-seconds"}}),
        ("PUT", "/settings/general/limits", {"value": {"run_seconds": 300}}),
        ("PUT", "/settings/tenants/acme", {"value": {"prompt": ["planted-prompt"], "tools": {"planted-tool": 1}}}),
        ("PUT", "/settings/divisions/food", {"value": {"limits": {"run_tokens": "planted-tokens"}}}),
        ("PUT", "/settings/general/redact", {"value": {"own": {"x": ["planted-pattern"]}}}),
        ("PUT", "/settings/general/web_search", {"value": {"allowed_domains": ["https://u:planted-domain@x"]}}),
        ("PUT", "/settings/general/web_search", {"value": {"user_location": {"country": "planted-country"}}}),
        ("PUT", "/settings/general/trust", {"value": {"by_role": {"staff": "planted-decision"}}}),
        ("PUT", "/settings/budgets/team", {"value": {"amount": "planted-amount", "window": "day"}}),
        ("PUT", "/settings/prices/planned:any", {"value": {"input": "planted-price", "output": 1}}),
        ("PUT", "/settings/model_access/planned:*", {"value": {"roles": {"planted-role": 1}}}),
        ("PUT", "/settings/model_options/planned:any", {"value": {"thinking": ["planted-thinking"]}}),
        ("PUT", "/settings/providers/removed", {"value": {**value, "headers": {"X-Key": "planted-removed"}}}),
        ("DELETE", "/settings/providers/removed", None),
        (
            "POST",
            "/settings/import",
            {
                "settings": [{"kind": "providers", "name": "imported", "value": value}],
                "servers": {"imported": {"url": url, "headers": {"X-Key": "planted-import"}}},
            },
        ),
        ("POST", "/settings/import", {"settings": [{"kind": "providers", "name": "x", "value": ["planted-import"]}]}),
        ("POST", "/settings/import", {"servers": {"wrong": {"url": url, "headers": {"X-Key": ["planted-import"]}}}}),
        ("DELETE", "/people/sessions?user=nobody&tenant=", None),
        ("DELETE", "/connections/remote", None),
        ("POST", "/providers/planned/test", {"model": "any"}),
        ("POST", "/providers/planned/test", {"value": {**value, "api_key": "planted-tried-key"}, "model": "any"}),
    ]
    answers = [await http.ask(method, path, body, x_api_key=ADMIN) for method, path, body in asked]
    assert [status for status, _, _ in answers[:2]] == [200, 200], answers[0][1]
    imports = [answer for (_, path, _), answer in zip(asked, answers, strict=True) if path == "/settings/import"]
    assert [status for status, _, _ in imports] == [200, 422, 422], imports
    return [repr(answer) for answer in answers]


async def test_planted_credentials_are_found_nowhere(lines: list[str]) -> None:
    script = [call("fail_to_pay", password="planted-argument", authorization="planted-argument-2"), say("It failed.")]
    exporter = InMemorySpanExporter()
    spans = Spans(SimpleSpanProcessor(exporter))
    store = MemoryStore()
    options: dict[str, Any] = {"keep_requests": True, "add_servers": "all", "observers": [spans.observe]}
    options |= {"opened_store": store, "secret": "a secret of at least thirty-two characters"}
    async with (
        build_yard(script, tools=[fail_to_pay], keys=KEYS, **options) as yard,
        connect_client(yard) as client,
    ):
        http = RecordingClient(client)
        said = [*await send_wrong_credentials(http), *await add_servers(http), *await set_providers(http)]
        created = [
            await http.ask("POST", "/keys", {"name": name, "user": "new"}, x_api_key=ADMIN) for name in ("one", "two")
        ]
        rotated = await http.ask("POST", "/keys/one/rotate", {"overlap_s": 60}, x_api_key=ADMIN)
        assert (await http.ask("DELETE", "/keys/two", x_api_key=ADMIN))[0] == 200
        _, session, headers = await http.ask("POST", "/session", {"key": ADMIN}, origin=http.url)
        status, _, about = await http.ask("POST", "/ai/respond", {"prompt": "Pay"}, x_api_key=ADMIN)
        assert status == 200
        said.append(repr(session))
        trace = f"/traces/{about['x-correlation-id']}"
        _, traced, _ = await http.ask("GET", trace, x_api_key=OPERATOR)
        run: Json = traced["runs"]
        recorded = f"/conversations/{run[0]['conversation']}/runs/{run[0]['run_id']}"
        for path in (*READ_PATHS, trace, recorded, f"{recorded}/turns/1"):
            for key in (ADMIN, OPERATOR, "una"):
                status, body, answered = await http.ask("GET", path, x_api_key=key)
                assert status < 500, (path, status, body)
                said.append(f"{path} {body!r} {answered!r}")
        said.append(await SocketClient(http.session, http.url, {"x-api-key": ADMIN}).get_text("/metrics"))
        assert not await http.list_unasked()
        for kind in (SERVERS, SETTINGS):
            records = await store.list_records(kind)
            assert records
            said.append(f"{kind} {records!r}")
    made = [str(body["secret"]) for _, body, _ in (*created, rotated)] + [
        headers["set-cookie"].partition(";")[0].partition("=")[2]
    ]
    await spans.close()
    exported = [span.to_json() for span in exporter.get_finished_spans()]
    text = "\n".join([*lines, *said, *exported])
    assert lines and exported and all(len(secret) > 30 for secret in made)
    assert not list_planted(text)
    assert not [secret for secret in made if secret in text]
