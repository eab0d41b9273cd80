"""A streaming response that is sent by the task of its request, for speed.

Litestar's `Stream` opens a task group for every response; here one extra task waits for the client to disconnect.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import cast

from litestar import Litestar, Request
from litestar.background_tasks import BackgroundTask, BackgroundTasks
from litestar.datastructures import Cookie, State
from litestar.enums import MediaType
from litestar.response import Stream
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Send, TypeEncodersMap

from toolyard.engine.log.readers import Reader


class EventStream(Stream):
    """A `Stream` over an async generator of bytes, each of which is sent as one body message."""

    def to_asgi_response(
        self,
        app: Litestar | None,
        request: Request[object, object, State],
        *,
        background: BackgroundTask | BackgroundTasks | None = None,
        cookies: Iterable[Cookie] | None = None,
        encoded_headers: Iterable[tuple[bytes, bytes]] | None = None,
        headers: dict[str, str] | None = None,
        is_head_response: bool = False,
        media_type: MediaType | str | None = None,
        status_code: int | None = None,
        type_encoders: "TypeEncodersMap | None" = None,
    ) -> ASGIResponse:
        pieces = cast(AsyncGenerator[bytes, None], self.iterator)
        return _StreamingResponse(pieces, {**(headers or {}), **self.headers}, str(self.media_type), status_code or 200)


class _StreamingResponse(ASGIResponse):
    _should_set_content_length = False

    def __init__(
        self, pieces: AsyncGenerator[bytes, None], headers: dict[str, str], media_type: str, status_code: int
    ) -> None:
        super().__init__(headers=headers, media_type=media_type, status_code=status_code)
        self._pieces = pieces

    async def send_body(self, send: Send, receive: Receive) -> None:
        watcher = _DisconnectWatcher(receive)
        try:
            async with aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            if not watcher.caused_cancellation():
                raise  # the server is stopping, or the client has stalled: that cancellation is not ours to swallow
        finally:
            watcher.close()


def detach_on_disconnect(receive: Receive, reader: Reader) -> AbstractContextManager[None]:
    """Detach the reader when the client of a request disconnects within the block, which then ends by itself."""

    async def watch() -> None:
        await _wait_for_disconnect(receive)
        reader.detach()

    return run_beside(watch())


@contextmanager
def run_beside(watch: Coroutine[object, object, None]) -> Generator[None]:
    """Run a coroutine until the block ends."""
    task = asyncio.get_running_loop().create_task(watch)
    try:
        yield
    finally:
        task.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _DisconnectWatcher:
    """Cancels the task that created it when the client disconnects, so that nothing is rendered for nobody."""

    def __init__(self, receive: Receive) -> None:
        self._disconnected = False
        self._sending_task = asyncio.current_task()
        self._task = asyncio.get_running_loop().create_task(self._watch(receive))

    async def _watch(self, receive: Receive) -> None:
        await _wait_for_disconnect(receive)
        self._disconnected = True
        if self._sending_task is not None:
            self._sending_task.cancel()

    def caused_cancellation(self) -> bool:
        """Return whether the disconnect is the only reason why the task was cancelled.

        `uncancel` takes this watcher's request back and returns how many other requests to cancel remain.
        """
        return self._disconnected and self._sending_task is not None and not self._sending_task.uncancel()

    def close(self) -> None:
        self._task.cancel()
        # A cancelled task keeps its error, whose traceback leads back here: a cycle that would hold the whole request
        # until the garbage collector comes.
        del self._task
