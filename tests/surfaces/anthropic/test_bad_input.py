"""What cannot be answered gets an error in Anthropic's shape that says what to change, and never a 500."""

import copy
import random
from collections.abc import Iterator

import pytest

from surfaces.api_client import Json, build_yard
from surfaces.http_server import connect_client
from toolyard.testing import Scripted, say

PATH = "/v1/messages"
TEXT: Json = {"type": "text", "text": "Hello"}
ASKED: Json = {"role": "user", "content": "x"}
QUESTION: Json = {"model": "default", "max_tokens": 100, "messages": [ASKED]}
CALL: Json = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
PICTURE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
MARK: Json = {"type": "ephemeral"}
SEARCH: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
HIT: Json = {"type": "web_search_result"}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [HIT]}
TOOL: Json = {"name": "f", "input_schema": {"type": "object"}}


def with_messages(*messages: Json) -> Json:
    return {**QUESTION, "messages": list(messages)}


def with_blocks(*blocks: Json) -> Json:
    return with_messages({"role": "user", "content": list(blocks)})


def answer(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({**QUESTION, "model": "claude-99"}, 404, "'claude-99' is not one of"),
        ({**QUESTION, "model": "preset:none"}, 404, "there is no preset 'none'"),
        ({**QUESTION, "max_tokens": None}, 400, "max_tokens"),
        ({"model": "default", "messages": [ASKED]}, 400, "missing required field `max_tokens`"),
        ({**QUESTION, "max_tokens": 0}, 400, "max_tokens: Expected `int` >= 1"),
        ({**QUESTION, "max_tokens": 10_000_001}, 400, "max_tokens: Expected `int` <= 10000000"),
        (
            {**QUESTION, "mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]},
            400,
            "mcp_servers: would run",
        ),
        ({**QUESTION, "container": "container_1"}, 400, "container: would run code"),
        ({**QUESTION, "inference_geo": "eu"}, 400, "inference_geo: cannot be chosen here"),
        ({**QUESTION, "no_such_field": 1}, 400, "unknown field `no_such_field`"),
        (with_messages(), 400, "messages"),
        (with_messages({"role": "user", "content": 7}), 400, "messages.0.content: must be a text or a list"),
        (with_messages({"role": "user", "content": " "}), 400, "messages.0.content: has no text"),
        (with_messages({"role": "robot", "content": "x"}), 400, "messages.0.role: must be user, assistant or system"),
        (with_blocks(*[TEXT] * 2_001), 400, "messages.0.content: has more than 2,000 blocks"),
        (
            with_messages(ASKED, answer(CALL), {"role": "user", "content": [{**RESULT, "content": [TEXT] * 2_000}]}),
            400,
            "messages.2.content: has more than 2,000 blocks",
        ),
        (with_blocks(7), 400, "messages.0.content.0: must be a block"),
        (with_blocks({"type": "container_upload", "file_id": "f"}), 400, "messages.0.content.0: a block of the type"),
        (with_blocks({"type": "image", "source": {"type": "file", "file_id": "f"}}), 400, "there is no file store"),
        (
            with_blocks({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "§"}}),
            400,
            "messages.0.content.0.source.data: must be base64",
        ),
        (
            with_blocks({"type": "image", "source": {"type": "url", "url": "file:///x"}}),
            400,
            "must be an address of https: or http:",
        ),
        (
            with_blocks({"type": "document", "source": {"type": "url", "url": "https://[x/y.pdf"}}, TEXT),
            400,
            "must be an address of https: or http:",
        ),
        (with_blocks({**TEXT, "cache_control": {"type": "forever"}}), 400, "messages.0.content.0.cache_control"),
        (
            with_blocks({**TEXT, "cache_control": {"type": "ephemeral", "scope": "x"}}),
            400,
            "messages.0.content.0.cache_control: must be",
        ),
        (with_blocks({**TEXT, "cache_control": {"type": "ephemeral", "ttl": []}}), 400, "content.0.cache_control"),
        ({**QUESTION, "cache_control": {"type": "forever"}}, 400, "cache_control.type"),
        (
            with_messages({"role": "system", "content": [TEXT, {"type": "image"}]}, ASKED),
            400,
            "messages.0.content.1.text: must be a text",
        ),
        (
            with_blocks({"type": "document", "source": {"type": "content", "content": [TEXT, PICTURE]}}),
            400,
            "messages.0.content.0.source.content.1: must be a text",
        ),
        (
            with_messages(ASKED, answer(CALL), {"role": "user", "content": [{**RESULT, "is_error": "yes"}]}),
            400,
            "messages.2.content.0.is_error: must be true or false",
        ),
        (with_blocks(RESULT), 400, "answers no call before it"),
        (
            with_messages(ASKED, answer(CALL), {"role": "user", "content": [RESULT, RESULT]}),
            400,
            "messages.2.content.1.tool_use_id: answers no call before it, or one that has its result already",
        ),
        (
            with_messages(
                ASKED,
                answer(CALL),
                {"role": "user", "content": [RESULT]},
                answer(TEXT),
                {"role": "user", "content": [RESULT]},
            ),
            400,
            "messages.4.content.0.tool_use_id",
        ),
        (with_messages(ASKED, answer(CALL), ASKED), 400, "toolu_1 before it have no result"),
        (with_messages(ASKED, answer(CALL)), 400, "toolu_1 have no result"),
        (with_messages(ASKED, answer({"type": "thinking", "thinking": "x"}), ASKED), 400, "signature: must be a text"),
        (with_messages(ASKED, answer({**CALL, "type": "server_tool_use"}), ASKED), 400, "is no tool of the provider"),
        (
            with_messages(ASKED, answer({"type": "web_search_tool_result", "tool_use_id": "x", "content": []}), ASKED),
            400,
            "messages.1.content.0: answers no server_tool_use",
        ),
        (
            with_messages(
                ASKED,
                answer(SEARCH, {**FOUND, "content": [{**HIT, "cache_control": MARK}]}),
                ASKED,
            ),
            400,
            "messages.1.content.1.content: may have no cache_control inside",
        ),
        (
            with_messages(ASKED, answer({**TEXT, "citations": [{"cited_text": "x", "cache_control": MARK}]}), ASKED),
            400,
            "messages.1.content.0.citations: may have no cache_control inside",
        ),
        (
            with_messages(ASKED, answer(SEARCH, {**FOUND, "type": "code_execution_tool_result"}), ASKED),
            400,
            "messages.1.content.1: answers no server_tool_use",
        ),
        (with_messages(ASKED, answer(SEARCH, SEARCH, FOUND), ASKED), 400, "content.1.id: another call has this id"),
        *(
            (with_messages(ASKED, answer({**SEARCH, "caller": caller}, FOUND), ASKED), 400, "content.0.caller")
            for caller in ("direct", {"type": "me"}, {"type": "direct", "more": 1}, {"type": "direct", "tool_id": 7})
        ),
        ({**QUESTION, "system": [{"type": "image"}]}, 400, "system.0: must be a block of text"),
        ({**QUESTION, "tools": [{"name": "f"}]}, 400, "tools.0.input_schema: is missing"),
        ({**QUESTION, "tools": [{**TOOL, "name": ""}]}, 400, "tools.0: has no name"),
        ({**QUESTION, "tools": [{"type": "code_execution_20250825", "name": "c"}]}, 400, "tools.0.type"),
        ({**QUESTION, "tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, 400, "tools.0.type"),
        *(
            ({**QUESTION, "tools": [{"type": kind, "name": "c"}]}, 400, f"tools.0.type: {kind!r} cannot be used here")
            for kind in ("bash_", "bash_x", "bash_20250124x", "text_editor_code_execution_20250825", "web_search_x")
        ),
        ({**QUESTION, "tools": [{**TOOL, "max_uses": 1}]}, 400, "tools.0.max_uses: is unknown"),
        (
            {**QUESTION, "tools": [{**TOOL, "allowed_callers": ["code_execution_20250825"]}]},
            400,
            'tools.0.allowed_callers: must be ["direct"]',
        ),
        (
            {**QUESTION, "tools": [{"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a"]}]},
            400,
            "tools.0.allowed_domains: is set in this server's configuration",
        ),
        ({**QUESTION, "tool_choice": {"type": "x"}}, 400, "tool_choice.type: must be auto"),
        ({**QUESTION, "tool_choice": {"type": "tool"}}, 400, "tool_choice.name"),
        ({**QUESTION, "tool_choice": {"type": "tool", "name": "nothing"}}, 400, "nothing"),
        ({**QUESTION, "temperature": 2}, 400, "temperature"),
        ({**QUESTION, "stop_sequences": [""]}, 400, "stop_sequences: must hold texts"),
        ({**QUESTION, "thinking": {"type": "enabled", "budget_tokens": 1_024}}, 400, "thinking.budget_tokens"),
        ({**QUESTION, "thinking": {"type": "deep"}}, 400, "thinking.type"),
        ({**QUESTION, "thinking": {"type": "adaptive", "depth": 3}}, 400, "unknown field `depth`"),
        ({**QUESTION, "thinking": {"type": "adaptive", "display": "all"}}, 400, "thinking.display"),
        ({**QUESTION, "tool_choice": {"type": "auto", "only": "f"}}, 400, "unknown field `only`"),
        (
            {**QUESTION, "tool_choice": {"type": "auto", "disable_parallel_tool_use": "yes"}},
            400,
            "tool_choice.disable_parallel_tool_use",
        ),
        ({**QUESTION, "output_config": {"effort": "huge"}}, 400, "output_config.effort"),
        ({**QUESTION, "output_config": {"format": {"type": "yaml"}}}, 400, "output_config.format"),
        (
            {**QUESTION, "output_config": {"format": {"type": "json_schema", "schema": {"type": "array"}}}},
            400,
            "output_config.format: must be a JSON Schema",
        ),
        ({**QUESTION, "service_tier": "fast"}, 400, "service_tier: must be one of auto, standard_only"),
        ({**QUESTION, "toolyard": {"server_tools": "some"}}, 400, "toolyard.server_tools"),
        (b'{"messages": [', 400, ""),
        (b"\xff", 400, ""),
    ],
)
async def test_a_bad_request_says_what_to_change(body: object, status: int, words: str) -> None:
    async with build_yard([], allowed_models=frozenset({"default"})) as yard, connect_client(yard) as client:
        answered, content, headers = await client.ask("POST", PATH, body)
    error: Json = content["error"]
    assert answered == status, content
    assert error["type"] == ("not_found_error" if status == 404 else "invalid_request_error")
    assert words in str(error["message"]), error
    assert set(content) == {"type", "error", "request_id"} and headers["request-id"] == content["request_id"]


async def test_a_wrong_header_is_named() -> None:
    async with build_yard([], allowed_models=frozenset({"default"})) as yard, connect_client(yard) as client:
        for path in (PATH, f"{PATH}/count_tokens"):
            body = {name: value for name, value in QUESTION.items() if path == PATH or name != "max_tokens"}
            status, content, _ = await client.ask("POST", path, body, x_toolyard_server_tools="all, nothing")
            error: Json = content["error"]
            assert (status, error["message"]) == (400, "x-toolyard-server-tools: there is no tool 'all'")


WHOLE: Json = {
    "model": "default",
    "max_tokens": 5_000,
    "system": [{**TEXT, "cache_control": {"type": "ephemeral"}}],
    "tools": [{**TOOL, "strict": True}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 2_000},
    "stop_sequences": ["END"],
    "temperature": 1,
    "metadata": {"user_id": "u"},
    "output_config": {"effort": "low"},
    "toolyard": {"server_tools": "none"},
    "messages": [
        {
            "role": "user",
            "content": [
                TEXT,
                PICTURE,
                {
                    "type": "document",
                    "title": "T",
                    "citations": {"enabled": True},
                    "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                },
            ],
        },
        answer(
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            {**TEXT, "citations": [{"type": "char_location", "cited_text": "x"}]},
            {**SEARCH, "caller": {"type": "direct"}},
            FOUND,
            {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "g", "server_name": "s", "input": {}},
            {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": [TEXT]},
            CALL,
        ),
        {"role": "user", "content": [{**RESULT, "content": [TEXT], "is_error": True}, TEXT]},
    ],
}
ODD_VALUES: list[Json] = [
    None,
    "",
    "x",
    "\u0000",
    -1,
    2**70,
    1.5,
    True,
    [],
    {},
    [None],
    {"type": "x"},
    {"": {}},
    [[[[]]]],
    "x" * 5_000,
]


def list_places(value: Json, place: tuple[Json, ...] = ()) -> Iterator[tuple[Json, ...]]:
    """Yield where each value of a body is."""
    keys: list[Json] = []
    if isinstance(value, dict | list):
        keys += value if isinstance(value, dict) else range(len(value))  # pyright: ignore[reportUnknownArgumentType]
    for key in keys:
        yield (*place, key)
        yield from list_places(value[key], (*place, key))


def change(body: Json, place: tuple[Json, ...], value: Json) -> Json:
    """Return the body with another value at a place."""
    changed = copy.deepcopy(body)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


async def test_300_odd_requests_are_answered_or_refused_in_anthropics_shape() -> None:
    places, chance = list(list_places(WHOLE)), random.Random(35)
    statuses: dict[int, int] = {}
    model = Scripted(lambda _: say("fine"))
    async with (
        build_yard(model, allowed_models=frozenset({"default"}), requests_per_minute=100_000) as yard,
        connect_client(yard) as client,
    ):
        assert (await client.ask("POST", PATH, WHOLE))[0] == 200
        for number in range(300):
            body = change(WHOLE, chance.choice(places), chance.choice(ODD_VALUES))
            path = PATH if number % 4 else f"{PATH}/count_tokens"
            if number % 4 == 0:
                body = {key: value for key, value in body.items() if key in ("model", "messages", "system", "tools")}
            status, content, _ = await client.ask("POST", path, body)
            statuses[status] = statuses.get(status, 0) + 1
            assert status in (200, 400, 404), (status, content, body)
            if status != 200:
                assert set(content) == {"type", "error", "request_id"}, content
    assert statuses[400] > 100 and statuses[200] > 20, statuses
