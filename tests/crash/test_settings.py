"""A server that is killed while it changes settings and servers: each change is there with its entry, or not at all."""

from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import asynccontextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from cli.process import request_json, start_server
from crash.stored_changes import check_changes
from postgres import create_database
from toolyard.core.json_types import Json

KILLED_AFTER = (1, 4, 9)
"""How many changes are answered before each kill; eight others are under way then."""
NOBODY_LISTENS = "http://127.0.0.1:9/mcp"
GROUP = ("a", "b", "c")


@asynccontextmanager
async def choose_store(kind: str, folder: Path) -> AsyncGenerator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'yard.db'}"
    else:
        async with create_database() as url:
            yield url


def iter_changes(attempt: int) -> Iterator[tuple[str, str, Json]]:
    """Yield the method, the path and the body of changes: entries that are set again, and servers in threes."""
    for number in range(40):
        yield "PUT", f"/settings/model_options/openai:gpt-{number % 4}", {"value": {"seed": attempt * 100 + number}}
        yield "DELETE", f"/settings/model_options/openai:gpt-{(number + 1) % 4}", {}
        group = {f"s{attempt}-{number}-{letter}": {"url": NOBODY_LISTENS} for letter in GROUP}
        yield "POST", "/servers/import", {"mcpServers": group}


def change_until_killed(folder: Path, store: str, attempt: int, answers: int) -> None:
    with (
        start_server(folder, "--store", store) as server,
        ThreadPoolExecutor(8) as clients,
        suppress(OSError, HTTPException),
    ):
        changes = [
            clients.submit(request_json, f"{server.url}{path}", body, method=method)
            for method, path, body in iter_changes(attempt)
        ]
        for answered, change in enumerate(as_completed(changes), 1):
            status, answer = change.result()
            # 503: on a busy machine the database may not have let go yet of what the last kill left.
            assert status in (200, 404, 409, 503), answer
            if answered == answers:
                server.process.kill()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_each_change_is_stored_with_its_entry_or_not_at_all(kind: str, tmp_path: Path) -> None:
    async with choose_store(kind, tmp_path) as url:
        for attempt, answers in enumerate(KILLED_AFTER):
            change_until_killed(tmp_path, url, attempt, answers)
        ids = await check_changes(url)
    assert ids and ids == {f"{id[:-1]}{letter}" for id in ids for letter in GROUP}
