"""The page that a browser comes back to, and who else comes by."""

import asyncio

import pytest

from support import TEST_TIMEOUT_S
from toolyard.cli import sign_in_callback
from toolyard.cli.sign_in_callback import CallbackListener, listen_for_callback


async def visit(page: CallbackListener, query: str) -> bytes:
    """All that a visitor is told, until the page hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(page.address.rpartition(":")[2].partition("/")[0]))
    writer.write(f"GET /callback?{query} HTTP/1.1\r\n\r\n".encode())
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_a_visitor_who_comes_too_early_does_not_spoil_it_for_the_right_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S), listen_for_callback(0) as page:
        with monkeypatch.context() as patch:
            patch.setattr(sign_in_callback, "READ_S", 0.1)
            assert await visit(page, "state=right&code=early") == b""
        answer = asyncio.create_task(page.wait_for_answer("right"))
        assert (await visit(page, "state=wrong&code=1")).startswith(b"HTTP/1.1 400")
        assert (await visit(page, "state=right&code=2")).startswith(b"HTTP/1.1 200")
        assert await answer == {"state": "right", "code": "2"}
