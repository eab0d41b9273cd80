"""The lists of providers' models: fetched in the background, kept for five minutes, bounded, and without secrets."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from support import wait_until
from toolyard.core.settings.models.cards import Provider
from toolyard.models.model_lists import FRESH_S, MAX_ENTRIES, MAX_LIST_BYTES, RETRY_S, ModelLists
from toolyard.models.resolver import ModelSettings
from wire.strict_lists import StrictModelList, gemini_list, openai_list

KEY = "sk-secret-of-the-provider"
BEARER = {"Authorization": f"Bearer {KEY}"}


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def open_lists(
    *patterns: str, base_url: str, clock: ManualClock | None = None, key: str = KEY
) -> AsyncGenerator[ModelLists, None]:
    names = {pattern.partition(":")[0] for pattern in patterns}
    providers = {name: Provider(api_key=key, base_url=base_url) for name in names}
    settings = ModelSettings(providers=providers, environment={})
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        lists = ModelLists(patterns, settings, tasks, clock or ManualClock())
        yield lists
        await lists.close()


@pytest.mark.parametrize(
    ("pattern", "base_path", "server", "expected"),
    [
        (
            "openai:gpt-4o*",
            "/v1",
            StrictModelList("/v1/models", BEARER, openai_list("gpt-4o", "o9", "gpt-4o-x")),
            ["openai:gpt-4o", "openai:gpt-4o-x"],
        ),
        (
            "acme:*",
            "/api?version=2",
            StrictModelList("/api/models?version=2", BEARER, openai_list("a", "b/c", "../d")),
            ["acme:a", "acme:b/c"],
        ),
        (
            "anthropic:claude-*",
            "",
            StrictModelList(
                f"/v1/models?limit={MAX_ENTRIES}",
                {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
                openai_list("claude-x"),
            ),
            ["anthropic:claude-x"],
        ),
        (
            "gemini:gemini-*",
            "/v1beta",
            StrictModelList(
                f"/v1beta/models?pageSize={MAX_ENTRIES}",
                {"x-goog-api-key": KEY},
                gemini_list(gemini_x=["generateContent"], gemini_embedding=["embedContent"]),
            ),
            ["gemini:gemini-x"],
        ),
    ],
)
async def test_each_provider_is_asked_as_it_wants_and_only_what_matches_is_listed(
    pattern: str, base_path: str, server: StrictModelList, expected: list[str]
) -> None:
    async with server.serving() as address, open_lists(pattern, base_url=address + base_path) as lists:
        assert lists.names() == []
        await wait_until(lambda: bool(lists.names() or lists.problems()))
        assert (lists.names(), lists.problems(), server.refusals) == (expected, {}, [])


async def test_a_list_is_kept_for_five_minutes_and_fetched_once_for_many_readers() -> None:
    server, clock = StrictModelList("/models", BEARER, openai_list("a")), ManualClock()
    async with server.serving() as address, open_lists("acme:*", base_url=address, clock=clock) as lists:
        for _ in range(10):
            lists.names()
        await wait_until(lambda: lists.names() == ["acme:a"])
        clock.now = FRESH_S - 1
        assert lists.names() == ["acme:a"] and len(server.paths) == 1
        server.body = openai_list("b")
        clock.now = FRESH_S
        assert lists.names() == ["acme:a"], "the reader waited"
        await wait_until(lambda: lists.names() == ["acme:b"])
        assert len(server.paths) == 2


async def test_an_outage_keeps_the_last_list_is_logged_once_and_shows_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "toolyard.models")
    server, clock = StrictModelList("/models", BEARER, openai_list("a")), ManualClock()
    async with server.serving() as address, open_lists("acme:*", base_url=address, clock=clock) as lists:
        await wait_until(lambda: lists.names() == ["acme:a"])
        server.status = 503
        for attempt in range(3):
            clock.now += FRESH_S
            lists.names()
            await wait_until(lambda count=attempt + 2: len(server.paths) == count and bool(lists.problems()))
            await wait_until(lambda: bool(lists.problems()))
        assert lists.problems() == {"acme": "its list of models cannot be fetched (unavailable, 503)"}
        assert lists.names() == ["acme:a"]
        server.status = 200
        clock.now += RETRY_S
        lists.names()
        await wait_until(lambda: not lists.problems())
    (failed, recovered) = [record.getMessage() for record in caplog.records]
    assert "cannot be fetched: the provider answered 503" in failed and "again" in recovered
    assert KEY not in failed and "***" in failed


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "its list of models cannot be fetched (model_error)"),
        (b'{"data": [{"id": 5}]}', "its list of models cannot be fetched (model_error)"),
        (b" " * (MAX_LIST_BYTES + 1), "its list of models cannot be fetched (too_large)"),
    ],
)
async def test_what_is_no_list_is_a_problem_and_harms_nothing(body: bytes, reason: str) -> None:
    server = StrictModelList("/models", BEARER, body)
    async with server.serving() as address, open_lists("acme:*", base_url=address) as lists:
        lists.names()
        await wait_until(lambda: bool(lists.problems()))
        assert (lists.names(), lists.problems()) == ([], {"acme": reason})


async def test_a_long_list_is_cut() -> None:
    server = StrictModelList("/models", BEARER, openai_list(*(f"m{number}" for number in range(MAX_ENTRIES + 5))))
    async with server.serving() as address, open_lists("acme:*", base_url=address) as lists:
        await wait_until(lambda: bool(lists.names()))
        assert len(lists.names()) == MAX_ENTRIES


async def test_a_provider_without_its_key_is_not_asked() -> None:
    server = StrictModelList("/models", BEARER, openai_list("a"))
    async with server.serving() as address, open_lists("openai:*", base_url=address, key="") as lists:
        lists.names()
        await wait_until(lambda: bool(lists.problems()))
        assert lists.problems() == {"openai": "needs OPENAI_API_KEY"} and server.paths == []


async def test_closing_does_not_wait_for_a_slow_provider() -> None:
    server = StrictModelList("/models", BEARER, openai_list("a"))
    server.hold()
    async with server.serving() as address, open_lists("acme:*", base_url=address) as lists:
        lists.names()
        await wait_until(lambda: bool(server.paths))
        await lists.close()
