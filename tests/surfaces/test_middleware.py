"""Who is authenticated, as which caller, and the error for everybody else."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.http_server import SocketClient, connect_client
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.testing import Scripted, say

KEYS = [
    Key(name="ann", hash=hash_key("ann-secret"), user="ann", tenant="t"),
    Key(
        name="shop",
        hash=hash_key("shop-secret"),
        user="shop",
        tenant="t",
        roles=frozenset({"admin"}),
        divisions=frozenset({"clothing", "food"}),
        trusted=True,
    ),
]


@asynccontextmanager
async def open_client(**options: object) -> AsyncGenerator[SocketClient, None]:
    wiring = Wiring(model=Scripted(lambda request: say("ok")), **options)  # pyright: ignore[reportArgumentType]
    async with asyncio.timeout(30), Yard.from_wiring(wiring) as yard, connect_client(yard) as http:
        yield http


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({}, 401, "unauthenticated"),
        ({"authorization": "Bearer wrong"}, 401, "unauthenticated"),
        ({"authorization": "Basic YW5uOg=="}, 401, "unauthenticated"),
        ({"x_api_key": "wrong"}, 401, "unauthenticated"),
        ({"authorization": "Bearer ann-secret"}, 200, None),
        ({"x_api_key": "ann-secret"}, 200, None),
        ({"x_api_key": "ann-secret", "x_user": "bob"}, 403, "permission_denied"),
        ({"x_api_key": "ann-secret", "x_roles": "admin"}, 403, "permission_denied"),
        ({"x_api_key": "ann-secret", "x_division": "food"}, 403, "permission_denied"),
        ({"x_api_key": "shop-secret", "x_user": "bob", "x_division": "food"}, 200, None),
        ({"x_api_key": "shop-secret", "x_user": "bob", "x_division": "garden"}, 403, "permission_denied"),
        ({"x_api_key": "shop-secret", "x_user": "bob", "x_roles": "admin, clerk"}, 200, None),
        ({"x_api_key": "shop-secret", "x_user": "bob", "x_roles": "operator"}, 403, "permission_denied"),
        ({"x_api_key": "shop-secret", "x_roles": "clerk,approver"}, 403, "permission_denied"),
    ],
)
async def test_a_key_lets_in_as_its_caller_and_only_a_trusted_one_speaks_for_others(
    headers: dict[str, str], status: int, kind: str | None
) -> None:
    async with open_client(keys=KEYS) as http:
        actual_status, body, _ = await http.ask("GET", "/ai/tools/health", **headers)
        assert (actual_status, body.get("error_type")) == (status, kind)


async def test_an_end_user_does_not_inherit_the_roles_of_the_backend_that_names_them() -> None:
    async with open_client(keys=KEYS) as http:
        received = [
            event
            async for _, event in http.stream(
                "POST", "/ai/respond", {"prompt": "x"}, x_api_key="shop-secret", x_user="bob"
            )
        ]
        conversation = received[-1]["conversation_id"]
        body = {"prompt": "y", "conversation_id": conversation}
        assert (await http.ask("POST", "/ai/respond", body, x_api_key="shop-secret"))[0] == 404
        again = [
            event async for _, event in http.stream("POST", "/ai/respond", body, x_api_key="shop-secret", x_user="bob")
        ]
        assert again[-1]["ending"] == "done"


@pytest.mark.parametrize("role", ["admin", "operator", "approver"])
async def test_a_trusted_key_gives_nobody_a_role_with_a_meaning_here_that_it_lacks(role: str) -> None:
    command = {"name": "sh", "config": {"command": "/bin/sh", "args": ["-c", "exit"]}}
    async with open_client(keys=[Key(name="backend", hash=hash_key("backend"), user="backend", trusted=True)]) as http:
        status, body, _ = await http.ask("POST", "/servers", command, x_api_key="backend", x_roles=role)
        assert status == 403 and repr(role) in str(body["error"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content_type": "text/plain"}, 422),
        ({"content_type": "application/x-www-form-urlencoded"}, 422),
    ],
)
async def test_without_a_key_no_web_site_can_drive_the_server(headers: dict[str, str], status: int) -> None:
    async with open_client() as http:
        sent = {"content_type": "application/json", **headers}
        actual_status, _, _ = await http.ask("POST", "/ai/respond", {"prompt": 1 if status == 200 else "x"}, **sent)
        assert actual_status == (422 if status == 200 else status)


async def test_a_page_that_is_listed_may_ask_and_another_may_not() -> None:
    async with open_client(keys=KEYS, cors_origins=frozenset({"https://app.example"})) as http:
        ask = {"access_control_request_method": "POST"}
        status, _, headers = await http.ask("OPTIONS", "/ai/respond", origin="https://app.example", **ask)
        assert status == 204 and headers["access-control-allow-origin"] == "https://app.example"
        status, _, headers = await http.ask("OPTIONS", "/ai/respond", origin="https://evil.example", **ask)
        assert status == 403 and "access-control-allow-origin" not in headers


@pytest.mark.proves("003.correlation-made")
async def test_a_correlation_id_is_taken_made_or_derived_and_always_returned() -> None:
    async with open_client() as http:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        for sent, expected in (
            ({"x_correlation_id": "abc-123"}, "abc-123"),
            ({"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}, trace),
        ):
            _, _, headers = await http.ask("GET", "/healthz", **sent)
            assert headers["x-correlation-id"] == expected
        generated_ids: set[str] = set()
        for bad in ("", "x" * 500, "a b", "ä"):
            _, _, headers = await http.ask("GET", "/healthz", x_correlation_id=bad)
            assert headers["x-correlation-id"].startswith("trace_")
            generated_ids.add(headers["x-correlation-id"])
        assert len(generated_ids) == 4, "each request has its own"
        status, body, headers = await http.ask("GET", "/nowhere", x_correlation_id="abc-123")
        assert status == 404 and body["correlation_id"] == headers["x-correlation-id"] == "abc-123"
        received = [
            event async for _, event in http.stream("POST", "/ai/respond", {"prompt": "x"}, x_correlation_id="abc-9")
        ]
        assert received[-1]["correlation_id"] == "abc-9"


@pytest.mark.proves("000.limit-30-a-minute")
async def test_the_thirty_first_request_of_a_minute_is_told_when_to_come_again() -> None:
    async with open_client(requests_per_minute=30) as http:
        for _ in range(30):
            assert [event async for _, event in http.stream("POST", "/ai/respond", {"prompt": "x"})][-1][
                "ending"
            ] == "done"
        status, body, headers = await http.ask("POST", "/ai/respond", {"prompt": "x"})
        for _ in range(30):  # on a slow machine some were given back meanwhile: one each two seconds
            if status != 200:
                break
            status, body, headers = await http.ask("POST", "/ai/respond", {"prompt": "x"})
        assert (status, body["error_type"]) == (429, "rate_limited") and 1 <= int(headers["retry-after"]) <= 2
        assert (await http.ask("GET", "/ai/tools/health"))[0] == 200


@pytest.mark.parametrize(
    ("raw", "status", "kind"),
    [
        (b"{bad", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"", 422, "validation_error"),
        (b"[]", 422, "validation_error"),
        (b'{"prompt":1}', 422, "validation_error"),
        (b'{"prompt":"x","tool_choice":"nope"}', 422, "validation_error"),
        (b'{"prompt":"x","model":"http://evil/v1#m"}', 422, "validation_error"),
        (b'{"prompt":"' + b"x" * 9_000_000 + b'"}', 413, "too_large"),
        (b'{"prompt":' + b"[" * 100_000, 400, "invalid_json"),
    ],
)
async def test_a_bad_body_is_told_what_is_wrong_with_it(raw: bytes, status: int, kind: str) -> None:
    async with open_client(allowed_models=frozenset({"given"})) as http:
        actual_status, body, _ = await http.ask("POST", "/ai/respond", raw)
        assert (actual_status, body["error_type"], body["ok"]) == (status, kind, False)
        assert body["error"] and "Traceback" not in str(body)
        assert status != 413 or "8,388,608 bytes" in str(body["error"])
        assert (await http.ask("GET", "/healthz"))[0] == 200


async def test_a_server_that_is_about_to_stop_begins_nothing_new_and_says_so() -> None:
    async with Yard(model=Scripted([])) as yard, connect_client(yard) as http:
        await yard.service.close(0)
        status, body, _ = await http.ask("POST", "/ai/respond", {"prompt": "x"})
        assert (status, body["error_type"]) == (503, "unavailable")


async def test_the_api_page_loads_nothing_from_anywhere() -> None:
    async with Yard(model=Scripted([])) as yard, connect_client(yard) as http:
        page = await http.get_text("/docs")
        assert "/ai/respond" in page and "src=" not in page and "http" not in page.replace("httpx", "")


async def test_replicas_name_themselves_in_every_response_and_a_single_server_does_not() -> None:
    database = MemoryDatabase()
    async with (
        open_client(opened_store=SharedMemoryStore(database), keys=KEYS) as first,
        open_client(opened_store=SharedMemoryStore(database), keys=KEYS) as second,
        open_client() as single,
    ):
        for path in ("/healthz", "/tools", "/nowhere"):
            names = {(await http.ask("GET", path))[2].get("x-toolyard-replica") for http in (first, second)}
            assert None not in names and len(names) == 2
            assert "x-toolyard-replica" not in (await single.ask("GET", path))[2]
