"""A real server in a thread of its own, whose model plays scenes and stops where a test wants to look."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from typing import TypeVar

from msgspec.structs import replace

from surfaces.http_server import serve_yard
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.conversation.commands import AddMessage, Open
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import Call, Item, ModelText, Result, TextPart, Usage, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.engine.access.authentication import LOCAL_ADMIN
from toolyard.engine.service.titles import TITLE_PROMPT
from toolyard.testing import Scripted, Turn, say

HOLD = "\u200b"
"""A piece of text at which the model stops until the test says to go on. It is not seen."""
Scenes = Mapping[str, Sequence[Turn]]
TIMEOUT_S = 60.0
T = TypeVar("T")


class Site:
    """The address of the server, and what a test may do behind its back."""

    def __init__(self, scenes: Scenes, loop: asyncio.AbstractEventLoop, pace_s: float = 0.0) -> None:
        self.url = ""
        self.yard: Yard
        self._pace_s = pace_s
        self.scenes = scenes
        self.titles: dict[str, str] = {}
        """The titles that the model writes, by the user's first message. It writes none for other conversations."""
        self.requests: list[ModelRequest] = []
        """The requests for answers that the model got, without those for titles."""
        self._loop = loop
        self._may_go_on = asyncio.Semaphore(0)
        self.stopped = asyncio.Event()

    def resume(self) -> None:
        """Release one `hold`."""
        self._loop.call_soon_threadsafe(self._may_go_on.release)

    async def hold(self) -> None:
        await self._may_go_on.acquire()

    def create_long_conversation(self, messages: int, calls: int = 0) -> str:
        """A conversation with so many messages, by turns of the user and the model, whose first ones call a tool."""

        def write(number: int) -> Iterator[tuple[Item, ...]]:
            id, text = f"item_{number}", f"message number {number}"
            if number % 2 == 0:
                yield (UserMessage(id=id, at=0, parts=(TextPart(text=text),)),)
                return
            answer, call_id = ModelText(id=id, at=0, text=text), f"call_{number}"
            if number // 2 >= calls:
                yield (answer,)
                return
            yield answer, Call(id=call_id, at=0, tool="weigh", arguments={"item": number})
            content = f'{{"item": {number}}}'
            yield (Result(id=f"{call_id}.result", at=0, call_id=call_id, tool="weigh", outcome="ok", content=content),)

        return self.create_conversation("Long", *(items for number in range(messages) for items in write(number)))

    def create_conversation(self, title: str, *messages: Item | tuple[Item, ...]) -> str:
        """A conversation with these messages, each of one or several items."""

        async def fill() -> str:
            service, by = self.yard.service, LOCAL_ADMIN
            conversation = service.clock.new_id("conversation")
            await service.conversations.submit(conversation, Open(by=by, settings=Settings(title=title)))
            for message in messages:
                at = service.clock.now()
                items = message if isinstance(message, tuple) else (message,)
                await service.conversations.submit(
                    conversation, AddMessage(by=by, items=tuple(replace(item, at=at) for item in items))
                )
            return conversation

        return self.run(fill())

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the server's event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self.stopped.set)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        return self._stream(request)

    async def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        script = write_title(self.titles, request) if is_title_request(request) else None
        self.requests += [] if script else [request]
        async with aclosing(
            Scripted(lambda request: script or choose_turn(self.scenes, request)).stream(request)
        ) as events:
            async for event in events:
                if isinstance(event, TextAppended) and event.text == HOLD:
                    await self.hold()
                elif self._pace_s and isinstance(event, TextAppended):
                    await asyncio.sleep(self._pace_s)  # as a model speaks: not all at once
                yield event

    async def close(self) -> None:
        pass


def choose_turn(scenes: Scenes, request: ModelRequest) -> Turn:
    """The turn that comes next in the scene that the user's last message names."""
    if is_title_request(request):
        return say("")
    history = list(request.history)
    last = max(number for number, item in enumerate(history) if isinstance(item, UserMessage))
    message, since = history[last], history[last + 1 :]
    assert isinstance(message, UserMessage)
    turns = scenes.get(message.text, (say(f"You said: {message.text}"),))
    turns_done = sum(
        isinstance(item, Call) and (number == 0 or not isinstance(since[number - 1], Call))
        for number, item in enumerate(since)
    )
    return turns[min(turns_done, len(turns) - 1)]


def is_title_request(request: ModelRequest) -> bool:
    """Whether a model is asked for the title of a conversation, not for an answer."""
    return request.system == TITLE_PROMPT


def write_title(titles: Mapping[str, str], request: ModelRequest) -> Turn:
    """The title of the conversation that a request quotes; empty if it is to keep its first words."""
    (message,) = (item for item in request.history if isinstance(item, UserMessage))
    title = next((title for text, title in titles.items() if message.text.startswith(f"User:\n{text}\n")), "")
    # Only its input is counted, which has no price in tests of costs, so that these count answers only.
    return replace(say(title), usage=Usage(input_tokens=1))


@contextmanager
def start_site(scenes: Scenes | None = None, *, pace_s: float = 0.0, **wiring: object) -> Generator[Site]:
    """A server on a free port until the end of the block."""
    ready: Future[Site] = Future()

    async def serve() -> None:
        new_site = Site(scenes or {}, asyncio.get_running_loop(), pace_s)
        async with Yard.from_wiring(Wiring(**{"model": new_site, **wiring})) as yard, serve_yard(yard) as url:  # pyright: ignore[reportArgumentType]
            new_site.url, new_site.yard = url, yard
            ready.set_result(new_site)
            await new_site.stopped.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    thread = threading.Thread(target=run, name="site", daemon=True)
    thread.start()
    running = ready.result(TIMEOUT_S)
    try:
        yield running
    finally:
        running.stop()
        thread.join(TIMEOUT_S)
