"""Whatever is sent, the answer is the right 4xx in the one shape for errors, and the server goes on."""

import json
from urllib.parse import quote

import pytest

from surfaces.api_client import Json, both_ways, open_api_client
from toolyard import tool
from toolyard.testing import say


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


DEEP = b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BODIES: list[tuple[str, str, bytes, int]] = [
    # method, where in the conversation, what is sent, what is answered
    ("POST", "/chat", b"", 422),
    ("POST", "/chat", b"{", 400),
    ("POST", "/chat", b'{"content":"\xff"}', 400),
    ("POST", "/chat", b'{"content":"\\ud800"}', 400),
    ("POST", "/chat", b"null", 422),
    ("POST", "/chat", b"[]", 422),
    ("POST", "/chat", b'"content"', 422),
    ("POST", "/chat", b"{}", 422),
    ("POST", "/chat", b'{"content":""}', 422),
    ("POST", "/chat", b'{"content":null}', 422),
    ("POST", "/chat", b'{"content":["x"]}', 422),
    ("POST", "/chat", b'{"content":"x","tool_choice":"nope"}', 422),
    ("POST", "/chat", b'{"content":"' + b"x" * 1_000_001 + b'"}', 422),
    ("POST", "/chat", b'{"content":"' + b"x" * 9_000_000 + b'"}', 413),
    ("PUT", "", b'{"title":""}', 422),
    ("PUT", "", json.dumps({"title": "x" * 501}).encode(), 422),
    ("PUT", "", json.dumps({"system_prompt": "x" * 100_001}).encode(), 422),
    ("PUT", "", json.dumps({"description": "x" * 10_001}).encode(), 422),
    ("PUT", "", b'{"max_turns":0}', 422),
    ("PUT", "", b'{"max_turns":-1}', 422),
    ("PUT", "", b'{"max_turns":1.5}', 422),
    ("PUT", "", b'{"max_turns":1e400}', 400),
    ("PUT", "", b'{"max_turns":' + b"9" * 400 + b"}", 422),
    ("PUT", "", b'{"max_tokens":-1}', 422),
    ("PUT", "", b'{"max_messages":"seven"}', 422),
    ("PUT", "", b'{"max_messages":true}', 422),
    ("POST", "/messages", b'{"role":"user"}', 422),
    ("POST", "/messages", b'{"role":"tool","content":"x"}', 422),
    ("POST", "/context", b'{"descriptive_name":"","content":"x"}', 422),
    ("POST", "/context", b'{"content":"x"}', 422),
    ("POST", "/context", b'{"descriptive_name":"x","content":{}}', 422),
    ("POST", "/tools", b"{}", 422),
    ("POST", "/tools", b'{"server_id":"function","tool_name":7}', 422),
    ("POST", "/tools", b'{"server_id":"function","tool_name":"\\u0000"}', 404),
    ("DELETE", "/tools", b'{"server_id":"function"}', 422),
    ("POST", "/cancel", b"[]", 422),
    ("POST", "/calls/x/approve", b'{"arguments":[]}', 422),
    ("POST", "/calls/x/approve", b'{"remember":true}', 422),
    ("POST", "/calls/x/deny", b'{"reason":1}', 422),
    ("POST", "/calls/x/answer", b'{"reply":"maybe"}', 422),
    ("POST", "/calls/x/result", b"", 422),
    ("POST", "/calls/x/result", DEEP, 400),
]


@both_ways
@pytest.mark.parametrize(("method", "where", "raw", "expected"), BODIES)
async def test_a_bad_body_is_refused_in_words_and_the_next_request_works(
    way: str, method: str, where: str, raw: bytes, expected: int
) -> None:
    async with open_api_client([say("ok")], way=way, tools=[add]) as http:
        path = await http.create_conversation()
        status, reply, headers = await http.send_request(method, path + where, raw or None)
        assert status == expected, reply
        _check_error(reply, headers)
        assert (await http.post(f"{path}/chat", {"content": "x"}))["status"] == "done"


IDS = [
    "x" * 10_000,
    "\0",
    "a\0b",
    "../../etc/passwd",
    "a/b",
    "%",
    "💥" * 100,
    "' OR 1=1 --",
    "\r\nx-injected: 1",
    "..",
    "\ufeff",
    "null",
    "-1",
]


@both_ways
@pytest.mark.parametrize("name", IDS)
async def test_an_absurd_id_is_not_found_wherever_it_stands(way: str, name: str) -> None:
    async with open_api_client(way=way, tools=[add]) as http:
        path, absurd = await http.create_conversation(), quote(name, safe="")
        places: list[tuple[str, str, object]] = [
            ("GET", f"/conversations/{absurd}", None),
            ("PUT", f"/conversations/{absurd}", {"title": "x"}),
            ("DELETE", f"/conversations/{absurd}", None),
            ("POST", f"/conversations/{absurd}/chat", {"content": "x"}),
            ("GET", f"/conversations/{absurd}/events", None),
            ("GET", f"/conversations/{absurd}/messages", None),
            ("DELETE", f"{path}/messages/{absurd}", None),
            ("GET", f"{path}/context/{absurd}", None),
            ("DELETE", f"{path}/context/{absurd}", None),
            ("POST", f"{path}/calls/{absurd}/approve", None),
            ("POST", f"{path}/calls/{absurd}/deny", None),
            ("POST", f"{path}/calls/{absurd}/answer", {"content": {}}),
            ("POST", f"{path}/calls/{absurd}/result", {"result": 1}),
            ("GET", f"{path}/runs/{absurd}", None),
            ("GET", f"{path}/messages?after={absurd}", None),
            ("GET", f"{path}/events?after={absurd}", None),
            ("GET", f"/conversations?after={absurd}", None),
            ("DELETE", f"{path}/tools?server_id=function&tool_name={absurd}", None),
        ]
        for method, where, body in places:
            if way == "socket" and name == "..":
                continue  # a client resolves it before it is sent
            status, reply, headers = await http.send_request(method, where, body)
            assert status in (404, 405, 422), (method, where[:80], status, reply)
            _check_error(reply, headers)
            assert "x-injected" not in headers and len(reply["error"]) < 500
        await http.get(path)


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "limit=-1", "after=!!!", "after=W10", "after=WzEsMl0", "whose=everybody"],
)
async def test_a_bad_query_is_refused(query: str) -> None:
    async with open_api_client() as http:
        for path in ("/conversations?", "/conversations/search?q=x&"):
            status, reply, headers = await http.send_request("GET", path + query)
            assert status == 422, reply
            _check_error(reply, headers)


@both_ways
async def test_paths_and_methods_that_are_not_there_are_answered_in_the_same_shape(way: str) -> None:
    async with open_api_client(way=way) as http:
        path = await http.create_conversation()
        for method, where, expected in (
            ("PATCH", path, 405),
            ("PUT", f"{path}/chat", 405),
            ("GET", f"{path}/chat", 405),
            ("GET", f"{path}/nowhere", 404),
            ("POST", f"{path}/calls/x/forgive", 404),
            ("GET", "/conversations/search/x", 404),
        ):
            status, reply, headers = await http.send_request(method, where)
            assert status == expected, (method, where, reply)
            _check_error(reply, headers)


async def test_every_route_says_in_the_api_page_what_it_may_answer() -> None:
    async with open_api_client() as http:
        _, page, _ = await http.send_request("GET", "/openapi.json")
        routes = [
            (path, method, about)
            for path, methods in page["paths"].items()
            if path.startswith("/conversations")
            for method, about in methods.items()
        ]
        assert len(routes) == 39
        for path, method, about in routes:
            missing = {"401", "403", "404", "409", "422", "429", "503"} - set(about["responses"])
            assert not missing, (method, path, missing)
            assert about["description"], (method, path)
        chat = page["paths"]["/conversations/{conversation_id}/chat"]["post"]["responses"]
        assert {"200", "202", "502"} <= set(chat)


def _check_error(reply: Json, headers: dict[str, str]) -> None:
    assert set(reply) == {"ok", "success", "error", "error_type", "details", "correlation_id"}, reply
    assert (reply["ok"], reply["success"]) == (False, False) and reply["error"]
    assert "Traceback" not in json.dumps(reply)
    assert reply["correlation_id"] == headers["x-correlation-id"]
    assert headers["content-type"].startswith("application/json")
