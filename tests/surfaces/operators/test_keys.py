"""`/keys`: administrators only, each within their tenant, and never down to none."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from support import TEST_TIMEOUT_S
from surfaces.served import Client, connect_client
from toolyard import Scripted, Yard
from toolyard.app import Wiring
from toolyard.core.store import Key
from toolyard.engine.authentication import hash_key


def key(name: str, *roles: str, tenant: str = "") -> Key:
    return Key(name=name, hash=hash_key(name), user=name, roles=frozenset(roles), tenant=tenant)


@asynccontextmanager
async def open_client_with_keys(*keys: Key) -> AsyncGenerator[Client, None]:
    wiring = Wiring(model=Scripted([]), keys=keys)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard, connect_client(yard) as http:
        yield http


async def test_the_first_key_is_made_by_whoever_is_local_and_then_asked_for() -> None:
    async with open_client_with_keys() as one:
        status, made, _ = await one.ask("POST", "/keys", {"name": "me", "user": "ann", "roles": ["admin"]})
        assert status == 201 and str(made["secret"]).startswith("ty_")
        assert (await one.ask("GET", "/keys"))[0] == 401
        status, found, _ = await one.ask("GET", "/keys", x_api_key=str(made["secret"]))
        assert status == 200 and found["count"] == 1
        assert "hash" not in str(found) and str(made["secret"]) not in str(found)


async def test_keys_are_the_business_of_administrators() -> None:
    async with open_client_with_keys(key("guest", "operator", "approver"), key("boss", "admin")) as one:
        for method, path, body in (
            ("GET", "/keys", None),
            ("POST", "/keys", {"name": "x", "user": "x"}),
            ("DELETE", "/keys/boss", None),
        ):
            status, told, _ = await one.ask(method, path, body, x_api_key="guest")
            assert (status, told["error_type"]) == (403, "permission_denied")
            assert (await one.ask(method, path, body))[0] == 401


async def test_an_administrator_of_a_tenant_has_no_say_in_another() -> None:
    async with open_client_with_keys(key("boss", "admin"), key("theirs", "admin", tenant="theirs")) as one:
        _, found, _ = await one.ask("GET", "/keys", x_api_key="theirs")
        assert [shown["name"] for shown in cast(list[dict[str, str]], found["keys"])] == ["theirs"]
        new = {"name": "new", "user": "ann"}
        assert (await one.ask("POST", "/keys", {**new, "tenant": "acme"}, x_api_key="theirs"))[0] == 403
        for more, word in (({"roles": ["admin", "operator"]}, "'operator'"), ({"trusted": True}, "trusted")):
            status, told, _ = await one.ask("POST", "/keys", {**new, **more}, x_api_key="theirs")
            assert status == 403 and word in str(told["error"])
        _, made, _ = await one.ask("POST", "/keys", {**new, "roles": ["admin"]}, x_api_key="theirs")
        shown = cast(dict[str, object], made["key"])
        assert shown["tenant"] == "theirs" and cast(float, shown["created_at"]) > 1_700_000_000
        assert (await one.ask("DELETE", "/keys/boss", x_api_key="theirs"))[0] == 404
        assert (await one.ask("DELETE", "/keys/new", x_api_key="boss"))[0] == 200


async def test_the_last_key_and_those_of_the_file_stay() -> None:
    async with open_client_with_keys(key("boss", "admin")) as one:
        status, told, _ = await one.ask("DELETE", "/keys/boss", x_api_key="boss")
        assert status == 409 and "the last key" in str(told["error"])
        assert (await one.ask("POST", "/keys", {"name": "two", "user": "ann"}, x_api_key="boss"))[0] == 201
        status, told, _ = await one.ask("DELETE", "/keys/boss", x_api_key="boss")
        assert status == 409 and "configuration file" in str(told["error"])
        assert (await one.ask("POST", "/keys", {"name": "two", "user": "bob"}, x_api_key="boss"))[0] == 409


async def test_the_last_key_of_an_administrator_stays() -> None:
    async with open_client_with_keys() as one:

        async def made(name: str, *roles: str, tenant: str = "", by: str = "") -> str:
            body = {"name": name, "user": name, "roles": roles, "tenant": tenant}
            status, told, _ = await one.ask("POST", "/keys", body, **({"x_api_key": by} if by else {}))
            assert status == 201
            return str(told["secret"])

        boss = await made("boss", "admin")
        await made("guest", by=boss)
        theirs = await made("theirs", "admin", tenant="theirs", by=boss)
        status, told, _ = await one.ask("DELETE", "/keys/boss", x_api_key=boss)
        assert status == 409 and "lock everybody out" in str(told["error"])
        assert (await one.ask("DELETE", "/keys/theirs", x_api_key=theirs))[0] == 200, "the server has an administrator"
        await made("second", "admin", by=boss)
        assert (await one.ask("DELETE", "/keys/boss", x_api_key=boss))[0] == 200


async def test_a_key_without_a_proper_name_is_not_made() -> None:
    async with open_client_with_keys() as one:
        for name, user in (("", "ann"), ("a/b", "ann"), ("a\nb", "ann"), ("x" * 200, "ann"), ("me", " ")):
            assert (await one.ask("POST", "/keys", {"name": name, "user": user}))[0] == 422
        assert (await one.ask("POST", "/keys", {"name": "me"}))[0] == 422
        assert (await one.ask("POST", "/keys", {"name": "me", "user": "ann", "hash": "x"}))[0] == 422
        assert (await one.ask("GET", "/keys"))[1]["count"] == 0
