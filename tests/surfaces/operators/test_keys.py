"""`/keys`: administrators only, each within their tenant, and never down to none."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from msgspec.structs import replace

from support import TEST_TIMEOUT_S
from surfaces.http_server import SocketClient, connect_client
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.testing import Scripted


def make_key(name: str, *roles: str, tenant: str = "") -> Key:
    return Key(name=name, hash=hash_key(name), user=name, roles=frozenset(roles), tenant=tenant)


@asynccontextmanager
async def open_client_with_keys(*keys: Key) -> AsyncGenerator[SocketClient, None]:
    wiring = Wiring(model=Scripted([]), keys=keys)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard, connect_client(yard) as http:
        yield http


async def test_the_first_key_is_made_by_whoever_is_local_and_then_asked_for() -> None:
    async with open_client_with_keys() as http:
        for useless, field in (({}, "roles"), ({"roles": ["admin"], "tenant": "acme"}, "tenant")):
            status, reply, _ = await http.ask("POST", "/keys", {"name": "me", "user": "ann", **useless})
            assert (status, reply["details"]) == (422, {"field": field}), "nobody could make another key"
        status, created, _ = await http.ask("POST", "/keys", {"name": "me", "user": "ann", "roles": ["admin"]})
        assert status == 201 and str(created["secret"]).startswith("ty_")
        assert (await http.ask("GET", "/keys"))[0] == 401
        status, key_list, _ = await http.ask("GET", "/keys", x_api_key=str(created["secret"]))
        assert status == 200 and key_list["count"] == 1
        assert "hash" not in str(key_list) and str(created["secret"]) not in str(key_list)


@pytest.mark.parametrize("limits", [{"expires_at": 9e9}, {"not_before": 9e9}, {"origins": ["https://shop.example"]}])
async def test_the_first_key_locks_nobody_out_later(limits: dict[str, object]) -> None:
    first = {"name": "me", "user": "ann", "roles": ["admin"]}
    async with open_client_with_keys() as http:
        status, reply, _ = await http.ask("POST", "/keys", {**first, **limits})
        assert (status, reply["details"]) == (422, {"field": next(iter(limits))})
        assert (await http.ask("POST", "/keys", first))[0] == 201


async def test_whoever_changes_a_key_that_somebody_else_has_changed_is_told_and_changes_nothing() -> None:
    async with open_client_with_keys(make_key("boss", "admin")) as http:

        async def list_keys() -> dict[str, dict[str, object]]:
            _, listed, _ = await http.ask("GET", "/keys", x_api_key="boss")
            return {str(key["name"]): key for key in cast(list[dict[str, object]], listed["keys"])}

        assert (await http.ask("POST", "/keys", {"name": "app", "user": "ann"}, x_api_key="boss"))[0] == 201
        seen = (await list_keys())["app"]
        boss = {"x_api_key": "boss", "if_match": f'"{seen["version"]}"'}
        status, rotated, _ = await http.ask("POST", "/keys/app/rotate", {}, **boss)
        assert status == 200 and seen["version"]
        for method, path in (("POST", "/keys/app/rotate"), ("DELETE", "/keys/app")):
            status, reply, _ = await http.ask(method, path, {} if method == "POST" else None, **boss)
            newer = cast(dict[str, object], reply["details"])["current"]
            assert (status, reply["error_type"]) == (412, "outdated")
            assert cast(dict[str, object], newer)["version"] == cast(dict[str, object], rotated["key"])["version"]
        assert (await http.ask("GET", "/me", x_api_key=str(rotated["secret"])))[0] == 200
        now = (await list_keys())["app"]
        assert (await http.ask("DELETE", "/keys/app", **{**boss, "if_match": f'"{now["version"]}"'}))[0] == 200
        status, reply, _ = await http.ask("DELETE", "/keys/boss", x_api_key="boss", if_match='"of the file"')
        assert status == 412 and (await list_keys())["boss"]["version"] == ""


async def test_keys_are_the_business_of_administrators() -> None:
    async with open_client_with_keys(make_key("guest", "operator", "approver"), make_key("boss", "admin")) as http:
        for method, path, body in (
            ("GET", "/keys", None),
            ("POST", "/keys", {"name": "x", "user": "x"}),
            ("DELETE", "/keys/boss", None),
        ):
            status, reply, _ = await http.ask(method, path, body, x_api_key="guest")
            assert (status, reply["error_type"]) == (403, "permission_denied")
            assert (await http.ask(method, path, body))[0] == 401


async def test_an_administrator_of_a_tenant_has_no_say_in_another() -> None:
    async with open_client_with_keys(make_key("boss", "admin"), make_key("theirs", "admin", tenant="theirs")) as http:
        _, key_list, _ = await http.ask("GET", "/keys", x_api_key="theirs")
        assert [shown["name"] for shown in cast(list[dict[str, str]], key_list["keys"])] == ["theirs"]
        new = {"name": "new", "user": "ann"}
        assert (await http.ask("POST", "/keys", {**new, "tenant": "acme"}, x_api_key="theirs"))[0] == 403
        for more, word in (({"roles": ["admin", "operator"]}, "'operator'"), ({"trusted": True}, "trusted")):
            status, reply, _ = await http.ask("POST", "/keys", {**new, **more}, x_api_key="theirs")
            assert status == 403 and word in str(reply["error"])
        _, created, _ = await http.ask("POST", "/keys", {**new, "roles": ["admin"]}, x_api_key="theirs")
        shown = cast(dict[str, object], created["key"])
        assert shown["tenant"] == "theirs" and cast(float, shown["created_at"]) > 1_700_000_000
        assert (await http.ask("DELETE", "/keys/boss", x_api_key="theirs"))[0] == 404
        assert (await http.ask("DELETE", "/keys/new", x_api_key="boss"))[0] == 200


async def test_an_administrator_of_a_tenant_gets_no_secret_of_a_key_that_they_could_not_make() -> None:
    async with open_client_with_keys(make_key("boss", "admin"), make_key("theirs", "admin", tenant="theirs")) as http:
        for name, more in (("reader", {"roles": ["operator"]}), ("shop", {"trusted": True}), ("plain", {})):
            new = {"name": name, "user": name, "tenant": "theirs", **more}
            assert (await http.ask("POST", "/keys", new, x_api_key="boss"))[0] == 201
        for name, status in (("reader", 403), ("shop", 403), ("plain", 200)):
            assert (await http.ask("POST", f"/keys/{name}/rotate", {}, x_api_key="theirs"))[0] == status, name
            assert (await http.ask("POST", f"/keys/{name}/rotate", {}, x_api_key="boss"))[0] == 200, name


@pytest.mark.parametrize("kind", ["tools", "models"])
async def test_an_administrator_whose_key_is_limited_makes_and_rotates_no_wider_one(kind: str) -> None:
    limited = replace(make_key("page", "admin"), **{kind: frozenset({"look_*", "find"})})
    async with open_client_with_keys(make_key("boss", "admin"), limited) as http:
        for name, granted, status in (("all", [], 403), ("more", ["find", "pay"], 403), ("some", ["find"], 201)):
            new = {"name": name, "user": name, kind: granted}
            assert (await http.ask("POST", "/keys", new, x_api_key="page"))[0] == status, name
        assert (await http.ask("POST", "/keys", {"name": "all", "user": "all"}, x_api_key="boss"))[0] == 201
        assert (await http.ask("POST", "/keys/all/rotate", {}, x_api_key="page"))[0] == 403
        assert (await http.ask("POST", "/keys/some/rotate", {}, x_api_key="page"))[0] == 200


async def test_the_last_key_and_those_of_the_file_stay() -> None:
    async with open_client_with_keys(make_key("boss", "admin")) as http:
        status, reply, _ = await http.ask("DELETE", "/keys/boss", x_api_key="boss")
        assert status == 409 and "the last key" in str(reply["error"])
        assert (await http.ask("POST", "/keys", {"name": "two", "user": "ann"}, x_api_key="boss"))[0] == 201
        status, reply, _ = await http.ask("DELETE", "/keys/boss", x_api_key="boss")
        assert status == 409 and "configuration file" in str(reply["error"])
        assert (await http.ask("POST", "/keys", {"name": "two", "user": "bob"}, x_api_key="boss"))[0] == 409


async def test_the_last_key_of_an_administrator_stays() -> None:
    async with open_client_with_keys() as http:

        async def create_key(name: str, *roles: str, tenant: str = "", admin_key: str = "") -> str:
            body = {"name": name, "user": name, "roles": roles, "tenant": tenant}
            status, reply, _ = await http.ask("POST", "/keys", body, **({"x_api_key": admin_key} if admin_key else {}))
            assert status == 201
            return str(reply["secret"])

        boss = await create_key("boss", "admin")
        await create_key("guest", admin_key=boss)
        theirs = await create_key("theirs", "admin", tenant="theirs", admin_key=boss)
        status, reply, _ = await http.ask("DELETE", "/keys/boss", x_api_key=boss)
        assert status == 409 and "lock everybody out" in str(reply["error"])
        assert (await http.ask("DELETE", "/keys/theirs", x_api_key=theirs))[0] == 200, "the server has an administrator"
        await create_key("second", "admin", admin_key=boss)
        assert (await http.ask("DELETE", "/keys/boss", x_api_key=boss))[0] == 200


async def test_a_key_without_a_proper_name_is_not_made() -> None:
    async with open_client_with_keys() as http:
        for name, user in (("", "ann"), ("a/b", "ann"), ("a\nb", "ann"), ("x" * 200, "ann"), ("me", " ")):
            assert (await http.ask("POST", "/keys", {"name": name, "user": user}))[0] == 422
        assert (await http.ask("POST", "/keys", {"name": "me"}))[0] == 422
        assert (await http.ask("POST", "/keys", {"name": "me", "user": "ann", "hash": "x"}))[0] == 422
        assert (await http.ask("GET", "/keys"))[1]["count"] == 0
