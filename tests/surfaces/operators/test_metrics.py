"""Who reads the metrics, and that they are there."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from support import collect_events
from surfaces.http_server import connect_client
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.testing import Scripted, say


def make_key(name: str, *roles: str, tenant: str = "") -> Key:
    return Key(name=name, hash=hash_key(name), user=name, tenant=tenant, roles=frozenset(roles))


KEYS = [
    make_key("ann"),
    make_key("op", "operator"),
    make_key("root", "admin"),
    make_key("boss", "approver"),
    make_key("their-op", "operator", tenant="t"),
    make_key("their-root", "admin", "operator", tenant="t"),
]


async def scrape_metrics(
    yard: Yard, headers: dict[str, str], first: Callable[[], Awaitable[object]] | None = None
) -> tuple[int, str, str]:
    """Return the answer of a server that has done something `first`. It counts from its first request on."""
    async with connect_client(yard) as http, aiohttp.ClientSession() as session:
        async with session.get(f"{http.url}/readyz"):
            pass
        if first is not None:
            await first()
        async with session.get(f"{http.url}/metrics", headers=headers) as answer:
            return answer.status, answer.headers["content-type"], await answer.text()


async def test_without_a_key_the_local_caller_reads_them_as_prometheus_wants_them() -> None:
    async with asyncio.timeout(30), Yard(model=Scripted([say("hi")])) as yard:
        status, kind, text = await scrape_metrics(yard, {}, first=lambda: collect_events(yard.run("hello")))
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert 'toolyard_runs_total{ending="done"} 1\n' in text
        assert "toolyard_runs_waiting 0\n" in text


@pytest.mark.parametrize(
    ("who", "status"),
    [("op", 200), ("root", 200), ("ann", 403), ("boss", 403), ("their-op", 403), ("their-root", 403), ("nobody", 401),
     ("", 401)],
)  # fmt: skip
async def test_with_keys_only_operators_and_administrators_without_a_tenant_read_them(who: str, status: int) -> None:
    async with asyncio.timeout(30), Yard.from_wiring(Wiring(model=Scripted([]), keys=KEYS)) as yard:
        actual_status, _, _ = await scrape_metrics(yard, {"x-api-key": who} if who else {})
        assert actual_status == status
