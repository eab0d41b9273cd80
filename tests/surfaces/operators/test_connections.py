"""`/connections`: people see what they have signed in to, without any token, and revoke it."""

from surfaces.api_client import ApiClient, build_key, open_api_client
from venues.mcp.auth.test_sign_ins import BACK, follow_sign_in
from venues.mcp.modern import SIGNED, over_http

KEYS = [build_key("boss", "admin", tenant=""), build_key("ann"), build_key("bob")]


async def sign_in(http: ApiClient, server: str) -> None:
    page = await http.post(f"/servers/{server}/login", {"redirect_uri": BACK})
    answer = await follow_sign_in(page["authorization_url"])
    await http.post(f"/servers/{server}/login/answer", {"state": answer.state, "code": answer.code})


async def list_ids(http: ApiClient) -> list[str]:
    return [connection["server_id"] for connection in (await http.get("/connections"))["connections"]]


async def test_each_person_sees_and_revokes_what_they_have_signed_in_to() -> None:
    async with over_http(SIGNED) as server:
        servers = {"shared": server.spec(display_name="Mail of all"), "own": server.spec(auth="caller")}
        async with open_api_client(servers=servers, keys=KEYS) as http:
            boss, ann, bob = (http.with_key(name) for name in ("boss", "ann", "bob"))
            await sign_in(ann, "own")
            await sign_in(boss, "shared")
            (own,) = (await ann.get("/connections"))["connections"]
            assert (own["server_id"], own["shared"], own["problem"]) == ("own", False, "")
            assert own["issuer"].startswith("http://127.0.0.1:") and own["expires_at"]
            (shared,) = (await boss.get("/connections"))["connections"]
            assert (shared["server_name"], shared["shared"]) == ("Mail of all", True)
            assert not [field for field in own if "token" in field]
            assert await list_ids(bob) == []
            await bob.delete("/connections/own", expect=404)
            await ann.delete("/connections/shared", expect=404)
            await ann.delete("/connections/own")
            assert await list_ids(ann) == [] and await list_ids(boss) == ["shared"]
            await ann.delete("/connections/own", expect=404)
            entries = (await boss.get("/audit?action=server.sign_out"))["entries"]
            assert [(entry["target"], entry["actor"]) for entry in entries] == [("own", "ann")]
