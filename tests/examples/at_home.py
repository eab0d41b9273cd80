"""What the household's tests share: a yard with its tools, and a look into its file."""

import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from examples.loading import tools_of
from support import collect_events, get_result, open_yard
from toolyard import Result, Yard


def rows(book: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(book)) as file:
        return file.execute(query).fetchall()


async def call_tool(yard: Yard, tool: str, **arguments: object) -> Result:
    return get_result(await collect_events(yard.call(tool, arguments)))


async def call_value(yard: Yard, tool: str, **arguments: object) -> dict[str, object]:
    call_result = await call_tool(yard, tool, **arguments)
    assert call_result.outcome == "ok", call_result
    return json.loads(call_result.content)


@asynccontextmanager
async def open_household() -> AsyncGenerator[Yard, None]:
    """Open a yard that has the household's tools."""
    async with open_yard([], tools_of("household")) as yard:
        yield yard
