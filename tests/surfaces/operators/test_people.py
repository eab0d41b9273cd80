"""`/people`: administrators see who is signed in, and end sessions of their tenant's people."""

import base64

from surfaces.api_client import ApiClient, build_key, open_api_client
from toolyard import Caller

KEYS = [
    build_key("root", "admin", tenant=""),
    build_key("ada", "admin"),
    build_key("ann", "staff"),
    build_key("eve", "admin", tenant="elsewhere"),
]
HOST, ORIGIN = "tools.example", "https://tools.example"


CLAIMS = base64.urlsafe_b64encode(b'{"exp": 9999999999}').decode().rstrip("=")
TOKEN = f"head.{CLAIMS}.signature"


def verify(token: str) -> Caller:
    return Caller(user="guest", roles=frozenset({"guest"}), tenant="t")


async def sign_in(http: ApiClient, key: str) -> dict[str, str]:
    """Sign in with a key, and return the headers of requests in the session."""
    status, _, headers = await http.send_request("POST", "/session", {"key": key}, host=HOST, origin=ORIGIN)
    assert status == 200
    return {"host": HOST, "cookie": headers["set-cookie"].partition(";")[0]}


async def test_administrators_see_who_is_signed_in_and_where_their_roles_come_from() -> None:
    async with open_api_client(way="socket", keys=KEYS, verify=verify) as http:
        root, ada, ann = (http.with_key(name) for name in ("root", "ada", "ann"))
        assert (await root.get("/people"))["people"] == []
        await sign_in(http, "ann")
        await sign_in(http, "ann")
        await sign_in(http, TOKEN)
        await sign_in(http, "eve")
        people = (await root.get("/people"))["people"]
        rows = [(row["user"], row["roles"], row["source"], row["key"], row["sessions"]) for row in people]
        assert sorted(rows) == [
            ("ann", ["staff"], "key", "ann@t", 2),
            ("eve", ["admin"], "key", "eve@elsewhere", 1),
            ("guest", ["guest"], "token", "", 1),
        ]
        assert all(row["signed_in_at"] <= row["last_used_at"] for row in people)
        assert sorted(row["user"] for row in (await ada.get("/people"))["people"]) == ["ann", "guest"]
        await ann.get("/people", expect=403)


async def test_the_sessions_of_a_person_are_ended_by_administrators_of_their_tenant() -> None:
    async with open_api_client(way="socket", keys=KEYS) as http:
        root, ada, eve = (http.with_key(name) for name in ("root", "ada", "eve"))
        cookie, own = await sign_in(http, "ann"), await sign_in(http, "root")
        assert (await http.send_request("GET", "/me", **cookie))[0] == 200
        await eve.delete("/people/sessions?user=ann", expect=404)
        await eve.delete("/people/sessions?user=ann&tenant=t", expect=403)
        await http.with_key("ann").delete("/people/sessions?user=ann", expect=403)
        assert (await ada.delete("/people/sessions?user=ann"))["ended"] == 1
        assert (await http.send_request("GET", "/me", **cookie))[0] == 401
        assert (await http.send_request("GET", "/me", **own))[0] == 200
        await ada.delete("/people/sessions?user=ann", expect=404)
        assert (await root.delete("/people/sessions?user=root"))["ended"] == 1
        entries = (await root.get("/audit?action=session.end&outcome=allowed"))["entries"]
        assert [(row["actor"], row["target"], row["tenant"]) for row in entries] == [
            ("root", "root", ""),
            ("ada", "ann", "t"),
        ]


async def test_the_last_administrator_cannot_revoke_their_own_key() -> None:
    async with open_api_client() as http:
        first = (await http.post("/keys", {"name": "only", "user": "ada", "roles": ["admin"]}, expect=201))["secret"]
        only = http.with_key(first)
        await only.post("/keys", {"name": "app", "user": "app"}, expect=201)
        assert "last one" in (await only.delete("/keys/only", expect=409))["error"]
        assert (await only.get("/me"))["user"] == "ada"
