"""The language of the sentences that no model says: set for all, a division, a conversation or a request."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from surfaces.api_client import ApiClient, Json, build_key, open_api_client
from toolyard import tool
from toolyard.core.errors import Misconfigured
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.texts import get_text
from toolyard.server.config import load
from toolyard.server.wiring import build_wiring
from toolyard.testing import call, fail, say

ZH = "抱歉，处理超时，请简化您的请求或重试。"
TURNS = Limits(turns_per_request=1)


@tool
def again() -> str:
    """Say again."""
    return "again"


def load_languages(tmp_path: Path, text: str) -> Json:
    """Return what the configuration says of languages, as a wiring takes it."""
    path = tmp_path / "toolyard.toml"
    path.write_text(text)
    wiring = build_wiring(load(path, {}, {"store": "memory:"}), tmp_path)
    names = ("language", "texts", "division_settings", "tenant_settings")
    return {name: getattr(wiring, name) for name in names}


async def read_stop_text(http: ApiClient, where: str = "", accept: str = "", **fields: object) -> str:
    """Return what a chat that takes too many turns is told."""
    path = where or await http.create_conversation()
    headers = {"accept_language": accept} if accept else {}
    _, answer, _ = await http.send_request("POST", f"{path}/chat", {"content": "go", **fields}, **headers)
    assert answer["status"] == "limit", answer
    return answer["assistant_message"]["content"]


@asynccontextmanager
async def open_limited_client(**more: object) -> AsyncGenerator[ApiClient, None]:
    async with open_api_client(lambda _: call("again"), tools=[again], limits=TURNS, **more) as http:  # pyright: ignore[reportArgumentType]
        yield http


async def test_the_configurations_language_comes_before_the_browsers(tmp_path: Path) -> None:
    async with open_limited_client(**load_languages(tmp_path, 'language = "zh"')) as http:
        assert await read_stop_text(http) == ZH
        assert await read_stop_text(http, accept="de") == ZH


async def test_where_nothing_is_set_the_browsers_language_counts() -> None:
    async with open_limited_client() as http:
        assert await read_stop_text(http, accept="zh-CN,en;q=0.5") == ZH
        assert await read_stop_text(http) == get_text("limit", "en")


async def test_a_request_a_conversation_and_a_division_each_come_before_what_is_wider(tmp_path: Path) -> None:
    text = 'language = "fr"\n[divisions.shop]\nlanguage = "de"'
    keys = [build_key("ann"), build_key("bob", divisions=frozenset({"shop"}))]
    async with open_limited_client(keys=keys, **load_languages(tmp_path, text)) as http:
        ann, bob = http.with_key("ann"), http.with_key("bob")
        assert await read_stop_text(ann) == get_text("limit", "fr")
        assert await read_stop_text(bob) == get_text("limit", "de")
        path = await ann.create_conversation(language="es")
        assert (await ann.get(path))["conversation"]["language"] == "es"
        assert await read_stop_text(ann, path) == get_text("limit", "es")
        assert await read_stop_text(ann, path, language="ja") == get_text("limit", "ja")
        await ann.put(path, {"language": "pt-BR"})
        assert await read_stop_text(ann, path, accept="zh") == get_text("limit", "pt")
        await ann.put(path, {"language": ""})
        assert await read_stop_text(ann, path) == get_text("limit", "fr")


async def test_a_tenants_language_holds_in_its_divisions(tmp_path: Path) -> None:
    text = '[tenants.t]\nlanguage = "zh"\n[tenants.t.divisions.shop]\n[tenants.t.divisions.bar]\nlanguage = "de"'
    keys = [build_key("ann", divisions=frozenset({"shop"})), build_key("bob", divisions=frozenset({"bar"}))]
    async with open_limited_client(keys=keys, **load_languages(tmp_path, text)) as http:
        assert await read_stop_text(http.with_key("ann")) == ZH
        assert await read_stop_text(http.with_key("bob")) == get_text("limit", "de")


async def test_respond_and_the_apps_endpoint_take_a_language(tmp_path: Path) -> None:
    async with open_limited_client() as http:
        events = [event async for _, event in http.stream_post("/ai/respond", {"prompt": "go", "language": "zh"})]
        assert ZH in [event.get("content") for event in events]
        body = {"messages": [{"role": "user", "content": "go"}], "language": "zh"}
        _, answer, _ = await http.send_request("POST", "/chat/v1/conversation", body)
        assert (answer["message"]["content"], answer["stopReason"]) == (ZH, "max_tool_turns")


async def test_the_texts_themselves_can_be_set(tmp_path: Path) -> None:
    text = """
    [texts.zh]
    max_tool_turns = "太多步骤"
    [texts.zh-TW]
    max_tool_turns = "太多步驟"
    [texts.sv]
    limit = "För många steg."
    """
    async with open_limited_client(**load_languages(tmp_path, text)) as http:
        assert await read_stop_text(http, language="zh-TW") == "太多步驟"
        assert await read_stop_text(http, language="zh") == "太多步骤"
        assert await read_stop_text(http, language="sv") == "För många steg."
        assert await read_stop_text(http, language="de") == get_text("limit", "de")


async def test_a_failure_is_told_in_the_language_that_is_set(tmp_path: Path) -> None:
    async def ask(http: ApiClient, **fields: object) -> Json:
        body = {"messages": [{"role": "user", "content": "go"}], **fields}
        _, answer, _ = await http.send_request("POST", "/chat/v1/conversation", body, accept_language="fr")
        return answer

    text = 'language = "zh"\n[texts.zh]\nfailed = "出错了"'
    async with open_api_client(lambda _: fail("no", "unavailable"), **load_languages(tmp_path, text)) as http:
        answer = await ask(http)
        assert (answer["stopReason"], answer["message"]["content"]) == ("failed", "出错了")
        again = await ask(http, language="en")
        assert again["message"]["content"] == get_text("failed", "en")
        _, resumed, _ = await http.send_request(
            "POST", "/chat/v1/conversation", {"conversationId": answer["conversationId"]}, accept_language="fr"
        )
        assert resumed["message"]["content"] == "出错了"


@pytest.mark.parametrize("language", ["x", "not a language", "../en", "zh\n", "1234"])
async def test_what_is_no_language_is_refused_in_words(language: str) -> None:
    async with open_api_client(lambda _: say("ok")) as http:
        path = await http.create_conversation()
        for method, where, body in (
            ("POST", f"{path}/chat", {"content": "go"}),
            ("POST", "/ai/respond", {"prompt": "go"}),
            ("POST", "/chat/v1/conversation", {"messages": [{"role": "user", "content": "go"}]}),
            ("POST", "/conversations", {"title": "t"}),
            ("PUT", path, {}),
        ):
            status, reply, _ = await http.send_request(method, where, {**body, "language": language})
            assert status == 422, where
            assert "write a tag such as en, zh or pt-BR" in reply["error"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('language = "not one"', "language must be a language tag"),
        ('language = "sv"', "[texts.sv]"),
        ('[divisions.shop]\nlanguage = "sv"', "[texts.sv]"),
        ('[tenants.t]\nlanguage = "sv"', "[texts.sv]"),
        ('[texts.zh]\nmax_tool_turn = "x"', "did you mean max_tool_turns?"),
        ('[texts.zh]\nlimit = ""', "texts.zh.limit must be"),
        ('[texts."not one"]\nlimit = "x"', "the name must be a language tag"),
    ],
)
def test_a_configuration_that_cannot_be_says_what_to_do(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        load_languages(tmp_path, text)
    assert expected in str(raised.value)
