"""What is switched in the house: asked first, posted to Home Assistant, or recorded where there is none."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from examples.at_home import open_household, rows
from support import collect_events, get_problem, get_result, wait_for_event
from tcp_servers import serve_web_app
from toolyard import Result, Yard
from toolyard.core.conversation.events import RunSuspended


@asynccontextmanager
async def home_assistant(bodies: list[object], status: int = 200) -> AsyncGenerator[str, None]:
    async def serve(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer ha-secret" or request.content_type != "application/json":
            return web.Response(status=401)
        bodies.append((request.path, await request.json()))
        return web.json_response([{"entity_id": "light.kitchen", "state": "on"}], status=status)

    app = web.Application()
    app.router.add_post("/api/services/{domain}/{service}", serve)
    async with serve_web_app(app) as url:
        yield f"{url}/"


async def switch_light(yard: Yard, **data: object) -> Result:
    """A service call that waits for its approval and is approved."""
    arguments = {"domain": "light", "service": "turn_on", "entity_id": "light.kitchen", "data": data}
    run = yard.call("ha_service_call", arguments)
    waiting, _ = await wait_for_event(run, RunSuspended)
    await yard.approve(run.conversation, waiting.waiting_for[0])
    return get_result(await collect_events(run))


async def test_a_service_call_is_approved_and_then_posted_to_home_assistant(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[object] = []
    async with open_household() as yard:
        async with home_assistant(bodies) as url:
            monkeypatch.setenv("HA_URL", url)
            monkeypatch.setenv("HA_TOKEN", "ha-secret")
            done = json.loads((await switch_light(yard, brightness=40, entity_id="lock.door")).content)
        assert (done["ok"], done["sent"], done["changed"]) == (True, True, ["light.kitchen"])
    assert bodies == [("/api/services/light/turn_on", {"brightness": 40, "entity_id": "light.kitchen"})]


@pytest.mark.parametrize(
    ("status", "token", "error_type"),
    [
        (400, "ha-secret", "validation_error"),
        (302, "ha-secret", "unavailable"),
        (200, "wrong", "permission_denied"),
        (200, "", "unavailable"),
    ],
)
async def test_what_home_assistant_refuses_is_told_with_its_type(
    status: int, token: str, error_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_household() as yard, home_assistant([], status) as url:
        monkeypatch.setenv("HA_URL", url)
        monkeypatch.setenv("HA_TOKEN", token)
        assert get_problem(await switch_light(yard)) == ("error", error_type)


async def test_without_a_home_assistant_the_call_is_recorded_and_said_to_be_no_more(book: Path) -> None:
    async with open_household() as yard:
        done = json.loads((await switch_light(yard)).content)
        assert (done["id"], done["sent"]) == ("service-call-1", False) and "Nothing was switched" in done["note"]
    assert rows(book, "SELECT service, entity_id FROM service_calls") == [("light.turn_on", "light.kitchen")]
