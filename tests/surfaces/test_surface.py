"""A surface is one entry of a list: it declares its routes, its public paths and the shape of its errors."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import aiohttp
import pytest
from litestar import get, post
from litestar.params import JSONBody

from surfaces.http_server import SocketClient, serve_app
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.errors import Refused
from toolyard.core.ports import Servers
from toolyard.core.settings.limits import SessionLimits
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.engine.access.sessions import Sessions
from toolyard.stores.memory import MemoryStore
from toolyard.surfaces.app import SURFACES, asgi
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.surface import Backend, ErrorAnswer, ErrorBody, Surface
from toolyard.testing import Scripted, say

KEY = Key(name="ann", hash=hash_key("ann-secret"), user="ann")


def shape_error(status: int, body: ErrorBody, headers: dict[str, str]) -> ErrorAnswer:
    shaped = {"error": {"message": body.error, "type": body.error_type, "code": status}}
    return ErrorAnswer(status=status, body=shaped, headers=headers)


@get("/other/about", sync_to_thread=False)
def about(request: HttpRequest) -> dict[str, str]:
    return {"model": request.backend.service.models.default}


@post("/other/things", sync_to_thread=False)
def make_thing(data: JSONBody[dict[str, int]]) -> None:
    raise Refused("there is such a thing")


OTHER = Surface(
    routes=(about, make_thing),
    public_paths=frozenset({"/other/about"}),
    error_paths=frozenset({"/other/*"}),
    encode_error=shape_error,
    response_headers=("x-other-id",),
)


@asynccontextmanager
async def open_client() -> AsyncGenerator[SocketClient, None]:
    wiring = Wiring(model=Scripted(lambda request: say("ok")), keys=[KEY])
    async with asyncio.timeout(30), Yard.from_wiring(wiring) as yard:
        await yard.access.load()
        origins = frozenset({"https://shop.example"})
        store, servers = MemoryStore(), cast(Servers, yard.servers)
        count_failure = yard.service.failed_sign_ins.count
        sessions = Sessions(store, yard.access, yard.service.clock, SessionLimits(), count_failure)
        backend = Backend(service=yard.service, access=yard.access, sessions=sessions, servers=servers, records=store)
        app = asgi(backend, origins, surfaces=(*SURFACES, OTHER))
        async with serve_app(app) as url, aiohttp.ClientSession() as session:
            yield SocketClient(session, url, {})


@pytest.mark.parametrize(
    ("method", "path", "body", "key", "status", "kind"),
    [
        ("GET", "/other/things", None, "", 401, "unauthenticated"),
        ("GET", "/other/nothing", None, "ann-secret", 404, "not_found"),
        ("DELETE", "/other/things", None, "ann-secret", 405, "method_not_allowed"),
        ("POST", "/other/things", b"{", "ann-secret", 400, "invalid_json"),
        ("POST", "/other/things", {"a": "text"}, "ann-secret", 422, "validation_error"),
        ("POST", "/other/things", {"a": 1}, "ann-secret", 409, "conflict"),
    ],
)
async def test_errors_have_the_shape_of_the_surface_that_answers(
    method: str, path: str, body: object, key: str, status: int, kind: str
) -> None:
    async with open_client() as http:
        actual_status, answer, _ = await http.ask(method, path, body, x_api_key=key)
        error = answer["error"]
        assert isinstance(error, dict) and answer.keys() == {"error"}
        assert (actual_status, error["type"], error["code"]) == (status, kind, status)


async def test_other_paths_keep_the_usual_shape() -> None:
    async with open_client() as http:
        for path, status in (("/tools", 401), ("/otherwise", 401), ("/healthz", 200)):
            actual_status, answer, _ = await http.ask("GET", path)
            assert actual_status == status and not isinstance(answer.get("error"), dict)


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        ("authorization,content-type,x-stainless-lang", "authorization,content-type,x-stainless-lang"),
        ("x-one, x-two", "x-one, x-two"),
        ("", None),
        ("x-one; x-two", None),
        (",".join(["x"] * 101), None),
    ],
)
async def test_a_page_of_an_allowed_origin_may_send_every_header(names: str, allowed: str | None) -> None:
    async with open_client() as http:
        asked = {"access_control_request_method": "POST", "access_control_request_headers": names}
        _, _, headers = await http.ask("OPTIONS", "/other/about", origin="https://shop.example", **asked)
        assert headers.get("access-control-allow-headers") == allowed
        _, _, headers = await http.ask("OPTIONS", "/other/about", origin="https://evil.example", **asked)
        assert "access-control-allow-headers" not in headers


async def test_a_surface_declares_its_public_paths_and_its_headers() -> None:
    async with open_client() as http:
        status, answer, _ = await http.ask("GET", "/other/about")
        assert (status, answer) == (200, {"model": "given"})
        _, _, headers = await http.ask("GET", "/other/about", origin="https://shop.example")
        assert {"x-other-id", "mcp-session-id"} <= set(headers["access-control-expose-headers"].split(", "))
