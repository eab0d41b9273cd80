"""Credentials that were sent to a server in every way there is are found in nothing that it says or keeps."""

import logging
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support import LineCollector
from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import SocketClient, connect_client
from toolyard.engine.access.authentication import hash_key
from toolyard.observability.otel import Spans
from toolyard.testing import call, say

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
]  # fmt: skip


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
    answers = [await http.ask(method, path, body, x_api_key=ADMIN) for method, path, body in asked]
    assert [status for status, _, _ in answers[:2]] == [201, 201], answers[0][1]
    assert [status for status, _, _ in answers[-4:]] == [200, 200, 200, 422], answers[-4:]
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
        ("DELETE", "/people/sessions?user=nobody&tenant=", None),
        ("DELETE", "/connections/remote", None),
        ("POST", "/providers/planned/test", {"model": "any"}),
        ("POST", "/providers/planned/test", {"value": {**value, "api_key": "planted-tried-key"}, "model": "any"}),
    ]
    answers = [await http.ask(method, path, body, x_api_key=ADMIN) for method, path, body in asked]
    assert [status for status, _, _ in answers[:2]] == [200, 200], answers[0][1]
    return [repr(answer) for answer in answers]


async def test_planted_credentials_are_found_nowhere(lines: list[str]) -> None:
    script = [call("fail_to_pay", password="planted-argument", authorization="planted-argument-2"), say("It failed.")]
    exporter = InMemorySpanExporter()
    spans = Spans(SimpleSpanProcessor(exporter))
    options = {"keep_requests": True, "add_servers": "all", "observers": [spans.observe]}
    async with (
        build_yard(script, tools=[fail_to_pay], keys=KEYS, **options) as yard,
        connect_client(yard) as http,
    ):
        said = [*await send_wrong_credentials(http), *await add_servers(http), *await set_providers(http)]
        created = [
            await http.ask("POST", "/keys", {"name": name, "user": "new"}, x_api_key=ADMIN) for name in ("one", "two")
        ]
        _, session, headers = await http.ask("POST", "/session", {"key": ADMIN}, origin=http.url)
        status, _, about = await http.ask("POST", "/ai/respond", {"prompt": "Pay"}, x_api_key=ADMIN)
        assert status == 200
        said.append(repr(session))
        trace = f"/traces/{about['x-correlation-id']}"
        for path in (*READ_PATHS, trace):
            for key in (ADMIN, OPERATOR, "una"):
                status, body, answered = await http.ask("GET", path, x_api_key=key)
                assert status < 500, (path, status, body)
                said.append(f"{path} {body!r} {answered!r}")
        said.append(await SocketClient(http.session, http.url, {"x-api-key": ADMIN}).get_text("/metrics"))
    made = [str(body["secret"]) for _, body, _ in created] + [headers["set-cookie"].partition(";")[0].partition("=")[2]]
    await spans.close()
    exported = [span.to_json() for span in exporter.get_finished_spans()]
    text = "\n".join([*lines, *said, *exported])
    assert lines and exported and all(len(secret) > 30 for secret in made)
    assert not list_planted(text)
    assert not [secret for secret in made if secret in text]
