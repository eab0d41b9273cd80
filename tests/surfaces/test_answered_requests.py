"""What an answered request leaves behind: nothing that waits for the garbage collector, whose work stops all others."""

import gc
import json
import weakref
from collections.abc import Generator

import pytest

from support import wait_until
from surfaces.in_process_client import InProcessExchange
from toolyard import Yard
from toolyard.testing import Scripted, say

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def collect_no_garbage() -> Generator[None]:
    gc.disable()
    yield
    gc.enable()


async def answer(yard: Yard, path: str, body: object) -> tuple[bytes, weakref.ref[InProcessExchange]]:
    """Send a request, and return the last piece of the answer with a reference to what the request arrived with."""
    headers = {"host": "127.0.0.1", "content-type": "application/json"}
    exchange = InProcessExchange("POST", path, headers, json.dumps(body).encode())
    await yard.asgi()(exchange.scope, exchange.receive, exchange.send)
    pieces = [exchange.messages.get_nowait().get("body") for _ in range(exchange.messages.qsize())]
    return next(piece for piece in reversed(pieces) if isinstance(piece, bytes) and piece), weakref.ref(exchange)


@pytest.mark.parametrize(
    ("path", "body", "end"),
    [
        ("/ai/respond", {"prompt": "hi"}, b'"type":"done"'),
        ("/v1/chat/completions", {"model": "default", "messages": MESSAGES, "stream": True}, b"data: [DONE]"),
        ("/v1/chat/completions", {"model": "default", "messages": MESSAGES}, b'"finish_reason":"stop"'),
    ],
    ids=["respond", "streamed completion", "completion"],
)
async def test_answered_request_is_freed_at_once(path: str, body: object, end: bytes) -> None:
    async with Yard(model=Scripted([say("Hello.")])) as yard:
        last, request = await answer(yard, path, body)
        assert end in last
        await wait_until(lambda: request() is None)
