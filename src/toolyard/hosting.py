"""What an ASGI application needs to be opened and closed by its host: the lifespan protocol, and a task for the rest.

A server sends the lifespan to the application that it serves. Frameworks do not pass it on to one that is mounted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from contextvars import Context

_log = logging.getLogger("toolyard")
Message = MutableMapping[str, object]
AsgiApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


class ContextTask:
    """A task that enters a context and leaves it at `close`, or when the event loop ends.

    A task group has to be left by the task that entered it, and no request lasts as long as its application.
    """

    def __init__(self, context: AbstractAsyncContextManager[object]) -> None:
        loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[None] = loop.create_future()
        self._closing = asyncio.Event()
        # In an empty context: the variables of the first request, such as its trace, are not those of later ones.
        # `asyncio.run` cancels the tasks that are left at its end and waits for them, so that this one leaves then.
        self._task = loop.create_task(self._hold(context), context=Context())

    @property
    def is_over(self) -> bool:
        return self._task.done()

    async def wait_entered(self) -> None:
        """Return once the context is entered. Raises what entering it raised."""
        await asyncio.shield(self._entered)  # whoever stops waiting does not stop the others

    async def close(self) -> None:
        """Leave the context. Raises what leaving it raised."""
        self._closing.set()
        await self._task

    async def _hold(self, context: AbstractAsyncContextManager[object]) -> None:
        try:
            async with context:
                self._entered.set_result(None)
                await self._closing.wait()
        except Exception as error:
            if not self._entered.done():
                self._entered.set_exception(error)
            elif self._closing.is_set():
                raise
            else:
                _log.exception("the yard was closed by an error; the next request opens it again")
        finally:
            self._entered.cancel()


async def serve_lifespan(
    start: Callable[[], Awaitable[ContextTask | None]],
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Serve the lifespan of a host: call `start`, and close what it has returned when the host ends."""
    await receive()
    try:
        held = await start()
    except Exception as error:
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    await send({"type": "lifespan.startup.complete"})
    await receive()
    try:
        if held is not None:
            await held.close()
    except Exception as error:
        await send({"type": "lifespan.shutdown.failed", "message": str(error)})
        return
    await send({"type": "lifespan.shutdown.complete"})
