"""What the head of a request says about the rest of it: one host, and a body as it is."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import pytest

from surfaces.api_client import build_yard
from surfaces.http_server import serve_app
from surfaces.in_process_client import open_in_process_client
from toolyard.server.serving import build_uvicorn_config

LONE = ("\\ud800", "\\udc00", "\\ud83d x", "\\udc00\\ud800", "\\uD800" + "x" * 20)


@pytest.fixture(params=["toolyard's server", "uvicorn alone"])
async def url(request: pytest.FixtureRequest) -> AsyncGenerator[str]:
    async with build_yard([]) as yard:
        app = yard.asgi()
        config = build_uvicorn_config(app) if request.param == "toolyard's server" else None
        async with serve_app(app, config) as address:
            yield address


async def send(url: str, *lines: str, body: bytes = b"") -> tuple[int, dict[str, object], str]:
    """Return the status, the body and the head of the response to a request with these lines."""
    place = urlsplit(url)
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        head = "\r\n".join((*lines, f"Content-Length: {len(body)}", "Connection: close", "", ""))
        writer.write(head.encode() + body)
        answer = await reader.read()
        writer.close()
    response_head, _, content = answer.partition(b"\r\n\r\n")
    return int(answer.split()[1]), json.loads(content) if content else {}, response_head.decode()


@pytest.mark.parametrize("second", ["127.0.0.1", "evil.example"])
@pytest.mark.parametrize("path", ["/healthz", "/conversations", "/v1/models"])
async def test_two_hosts_are_refused(url: str, path: str, second: str) -> None:
    status, body, _ = await send(url, f"GET {path} HTTP/1.1", "Host: 127.0.0.1", f"HOST: {second}")
    assert status == 400 and "one Host header" in str(body)
    assert (await send(url, f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "X-Twice: 1", "X-Twice: 2"))[0] == 200


async def test_a_websocket_with_two_hosts_is_refused(url: str) -> None:
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    status, _, _ = await send(url, "GET /v1/responses HTTP/1.1", "Host: 127.0.0.1", "Host: 127.0.0.1", *upgrade)
    assert status in (400, 403, 426)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip"])
async def test_a_compressed_body_is_refused_with_what_to_send_instead(url: str, encoding: str) -> None:
    lines = ("POST /conversations HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
    content = b'{"title":"x"}'
    status, body, head = await send(url, *lines, f"Content-Encoding: {encoding}", body=gzip.compress(content))
    assert status == 415 and "without Content-Encoding" in str(body["error"])
    assert "accept-encoding: identity" in head.lower()
    assert (await send(url, *lines, "Content-Encoding: identity", body=content))[0] == 201


@pytest.mark.parametrize("text", LONE)
@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/ai/respond", '{"prompt":"%s"}'),
        ("/conversations", '{"title":"%s"}'),
        ("/v1/chat/completions", '{"model":"default","messages":[{"role":"user","content":"%s"}]}'),
        ("/ag-ui", '{"threadId":"%s"}'),
        ("/mcp", '{"jsonrpc":"2.0","id":1,"method":"%s"}'),
    ],
)
async def test_half_a_character_is_called_so(path: str, template: str, text: str) -> None:
    async with build_yard([]) as yard, open_in_process_client(yard) as client:
        status, body, _ = await client.ask("POST", path, (template % text).encode())
        assert status == 400 and "half a character" in str(body), body
        status, body, _ = await client.ask("POST", path, (template % text).encode()[:5])
        assert status == 400 and "half a character" not in str(body), body


async def test_a_whole_character_in_two_halves_is_taken() -> None:
    async with build_yard([]) as yard, open_in_process_client(yard) as client:
        status, body, _ = await client.ask("POST", "/conversations", b'{"title":"\\ud83d\\ude00"}')
        assert status == 201 and "\U0001f600" in str(body)
        assert (await client.ask("POST", "/conversations", rb'{"title":"\\ud83d"}'))[0] == 201


async def test_the_page_of_the_api_may_load_and_run_nothing() -> None:
    async with build_yard([]) as yard, serve_app(yard.asgi()) as url:
        place = urlsplit(url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(b"GET /docs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        head, _, page = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
    (policy,) = [line for line in head.splitlines() if line.lower().startswith("content-security-policy: ")]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert " style=" not in page and "<script" not in page
