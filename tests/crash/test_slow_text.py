"""A server that is killed or stopped in the middle of a model's text: the next one answers, and the stream goes on."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from forked_python import ForkedPython
from surfaces.api_client import Json
from surfaces.openai.sockets import open_talk

CHILD = Path(__file__).with_name("slow_child.py")
TEXT = "The tide comes in, and it goes out."
TIMEOUT_S = 60.0


@asynccontextmanager
async def start_server(folder: Path) -> AsyncGenerator[tuple[str, ForkedPython], None]:
    """Yield the address of a server, and its process."""
    words = [str(CHILD), str(folder / "yard.db"), str(folder / "gate")]
    with await asyncio.to_thread(ForkedPython, words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield (await asyncio.to_thread(process.stdout.readline)).strip(), process
        finally:
            process.kill()


async def read_until_text(connection: aiohttp.ClientWebSocketResponse) -> list[Json]:
    """Return the events up to the last one before the model stops."""
    events: list[Json] = []
    while not events or events[-1].get("delta") != "comes in, ":
        events.append(await connection.receive_json())
    return events


async def resume(url: str, response_id: str, after: int | None = None) -> list[Json]:
    """Return the events of a response after a number, or all of them."""
    start = "" if after is None else f"&starting_after={after}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/v1/responses/{response_id}?stream=true{start}") as response,
    ):
        assert response.status == 200, await response.text()
        lines = (await response.read()).split(b"\n")
    return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: {")]


def check_whole(events: list[Json]) -> None:
    """Check that the events that a client got before and after make up one stream with the whole text."""
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    assert events[-1]["type"] == "response.completed"
    begun = {event["item"]["id"] for event in events if event["type"] == "response.output_item.added"}
    ended = {event["item"]["id"] for event in events if event["type"] == "response.output_item.done"}
    assert begun == ended
    (message,) = [item for item in events[-1]["response"]["output"] if item["type"] == "message"]
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(event["delta"] for event in deltas if event["item_id"] == message["id"]) == TEXT
    assert message["content"][0]["text"] == TEXT


async def test_a_text_that_a_kill_has_cut_off_is_taken_up_after_the_restart(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with start_server(tmp_path) as (url, process), open_talk(url) as talk:
            await talk.socket.send_json({"type": "response.create", "model": "default", "input": "Hello"})
            seen = await read_until_text(talk.socket)
            process.kill()
            message = await talk.socket.receive()
            assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
        (tmp_path / "gate").touch()
        async with start_server(tmp_path) as (url, _):
            for index in range(len(seen)):
                later = await resume(url, seen[0]["response"]["id"], seen[index]["sequence_number"])
                check_whole([*seen[: index + 1], *later])


async def test_sigterm_closes_a_websocket_and_leaves_its_run_to_the_next_server(tmp_path: Path) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        async with start_server(tmp_path) as (url, process), open_talk(url) as busy, open_talk(url) as idle:
            await busy.socket.send_json({"type": "response.create", "model": "default", "input": "Hello"})
            seen = await read_until_text(busy.socket)
            process.send_signal(signal.SIGTERM)
            (error,) = await busy.read_events()
            assert error["type"] == "error" and error["code"] == "unavailable"
            for talk in (busy, idle):
                message = await talk.socket.receive()
                assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1012)
            assert await asyncio.to_thread(process.wait) == 0
        (tmp_path / "gate").touch()
        async with start_server(tmp_path) as (url, _):
            later = await resume(url, seen[0]["response"]["id"], seen[-1]["sequence_number"])
            check_whole([*seen, *later])
