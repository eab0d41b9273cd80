"""A conversation as an application has it: what the user says goes in, events come out, its tools run here.

A connection that breaks is taken up from the last event; a call is run once, however often it is told.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from importlib import import_module
from types import TracebackType
from typing import Self
from urllib.parse import quote

from msgspec import Struct

from toolyard.client.events import Answer, Done, Event, Final, Said, Started, Told, ToolCalls, Waiting, read
from toolyard.client.http import Link, Lost, Unfit
from toolyard.client.local_tools import LocalTools
from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Misconfigured, NotFound, RateLimited, Refused, RunFailed, install_command
from toolyard.core.results import plain
from toolyard.venues.function import FunctionVenue

PATH = "/chat/v1/conversation"
BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""How long to wait before each attempt to find the server again."""
MOST_RATE_WAIT_S = 120.0
LOOK_S = 0.5
"""Between two looks at what becomes of a request, where nobody tells."""
MOST_OTHERS = 100
"""How many requests of others may end before ours does."""

Body = Mapping[str, object]


class _Trace(Struct):
    conversation: str
    run_id: str


class _Traces(Struct):
    runs: list[_Trace] = []


class AppClient:
    """One conversation with a server. Use it as `async with AppClient(url, key, tools=[…]) as app:`."""

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        tools: Iterable[object] = (),
        servers: Mapping[str, object] | None = None,
        system_prompt: str = "",
        context: Mapping[str, object] | None = None,
        conversation_id: str = "",
        headers: Mapping[str, str] | None = None,
        user: str = "app",
    ) -> None:
        self.conversation_id = conversation_id
        """Empty before the first message; give it to another client to go on there."""
        self.system_prompt = system_prompt
        self.context = dict(context or {})
        """What the model is told of the application besides, with each message."""
        self._link = Link(url, key, headers or {})
        self._tools = LocalTools((FunctionVenue(tools),), Caller(user=user), lambda: self.context)
        self._servers = dict(servers or {})
        self._open = AsyncExitStack()
        self._place = ""
        self._run_id = ""
        self._under_way = False
        self._stopped = asyncio.Event()
        """Whether the request that is under way was stopped here. Each has its own."""

    async def __aenter__(self) -> Self:
        self._open.push_async_callback(self._link.close)
        self._open.push_async_callback(self._tools.close)
        if self._servers:
            try:
                mcp = import_module("toolyard.client.mcp_servers")
            except ImportError as error:
                raise Misconfigured(f"MCP servers need more packages: {install_command('mcp')} ({error})") from None
            self._tools.add(await mcp.opened(self._servers, self._tools.names(), self._open))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def send(
        self, text: str, *, images: Sequence[str] = (), interrupt: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Say something; everything that happens until the answer, which is the last event.

        `images` are addresses; one that begins with `data:` carries the image. `interrupt` stops what still runs in
        the conversation instead of waiting for it.
        """
        body: dict[str, object] = {
            "messages": [{"role": "user", "content": _content(text, images)}],
            "tools": self._tools.definitions(),
            "systemPrompt": self.system_prompt,
            "context": self.context,
            "interrupt": interrupt,
        }
        body |= {"conversationId": self.conversation_id} if self.conversation_id else {"keep": True}
        async with aclosing(self._driven(body)) as events:
            async for event in events:
                yield event

    async def ask(self, text: str) -> str:
        """Say something; the model's answer. Raises RunFailed if there is none."""
        final: Final | None = None
        async with aclosing(self.send(text)) as events:
            async for event in events:
                final = event if isinstance(event, Final) else final
        if final is None or final.stop_reason == "failed":
            raise RunFailed(final.detail if final else "the request was left before its end")
        return final.text

    async def follow(self) -> AsyncGenerator[Event, None]:
        """Take up what runs or waits in the conversation, perhaps begun on another device, to its end."""
        async with aclosing(self._driven(self._resume())) as events:
            async for event in events:
                yield event

    async def stop(self) -> None:
        """Stop the request that is under way, here and on the server, or what runs there if none is.

        It then ends as cancelled. One that stands in line leaves the one in front alone; one not yet sent never is.
        """
        self._stopped.set()
        try:
            if self.conversation_id and (self._run_id or not self._under_way):
                await self._cancel()
        finally:
            self._tools.stop()

    async def _cancel(self) -> None:
        """Have the server stop it. It may have ended by itself in this very moment."""
        path, patience = f"/conversations/{self.conversation_id}/cancel", _Patience(asyncio.Event())
        while True:
            try:
                await self._link.ask("POST", path, dict[str, object], {"run_id": self._run_id})
            except Refused:
                return
            except (RateLimited, Lost) as error:
                await patience.wait(error)
            else:
                return

    async def _driven(self, body: Body) -> AsyncGenerator[Event, None]:
        self._run_id, self._under_way, self._stopped = "", True, asyncio.Event()
        try:
            async with aclosing(self._exchanged(body)) as events:
                async for event in events:
                    yield event
        finally:
            self._under_way = False

    async def _exchanged(self, body: Body) -> AsyncGenerator[Event, None]:
        """Post, run what is handed out, post the results, until the request has ended."""
        others = set[str]()
        while True:
            answer: Answer | None = None
            async with aclosing(self._answered(body)) as told:
                async for one in told:
                    if isinstance(one, ToolCalls | Waiting | Final):
                        answer = one
                    elif not isinstance(one, Started | Done):
                        yield one
            if answer and self._stopped.is_set() and answer.run_id != self._run_id:
                self._tools.over()
                yield self._unanswered()  # it was stopped, and somebody else's is in front now
                return
            if isinstance(answer, Final):
                self._check(answer, others)
                yield answer
                if answer.run_id == self._run_id:
                    self._tools.over()
                    return
            results = await self._results(answer)
            if results == []:
                heard = False
                async with aclosing(self._news()) as events:
                    async for event in events:
                        heard = True
                        yield event
                await asyncio.sleep(0 if heard else LOOK_S)
            body = {**self._resume(), "toolResults": results} if results else self._resume()

    def _check(self, final: Final, others: set[str]) -> None:
        """Those before ours end once each. One that is told again is the conversation's last: ours ended before it."""
        if final.run_id in others or len(others) == MOST_OTHERS:
            self._tools.over()
            raise RunFailed(f"somebody else has ended run {self._run_id} and gone on: the conversation has its answer")
        others.add(final.run_id)

    async def _results(self, answer: Answer | None) -> Sequence[object] | None:
        """What to post next; an empty list if somebody else has to do something first, None to ask how it went on."""
        match answer:
            case ToolCalls() if not self._stopped.is_set():
                return await self._tools.results(answer)
            case ToolCalls():
                await asyncio.sleep(LOOK_S)
                return None
            case Waiting():
                return []
            case _:
                return None

    async def _answered(self, body: Body) -> AsyncGenerator[Told, None]:
        """What the server tells until its `done`, over as many connections as that takes."""
        correlation_id, patience = secrets.token_hex(16), _Patience(self._stopped)
        while True:
            if "messages" in body and self._stopped.is_set():
                yield self._unanswered()
                return
            began = False
            try:
                async with aclosing(self._posted(body, correlation_id)) as told:
                    async for one in told:
                        began = True
                        if isinstance(one, Started) and self._stopped.is_set():
                            await self._cancel()  # the server could not be told before it had the message
                        patience.renew()
                        yield one
                return
            except (Refused, Unfit, Invalid) as error:
                if "toolResults" not in body or not self._tools.give_way(error):
                    raise
                body = self._resume()  # what still waits is handed out again
            except RateLimited as error:
                if "messages" not in body or not self._stopped.is_set():
                    await patience.wait(error)
            except Lost as error:
                await patience.wait(error)
                body = self._resume() if began else await self._again(body, correlation_id, patience)

    async def _posted(self, body: Body, correlation_id: str) -> AsyncGenerator[Told, None]:
        """What comes over one connection. Raises Lost if it ends before its `done`."""
        headers = {"x-correlation-id": correlation_id} | ({"last-event-id": self._place} if self._place else {})
        async with aclosing(self._link.events("POST", PATH, body, headers)) as events:
            async for place, raw in events:
                self._place = place or self._place
                one = read(raw)
                if one is not None:
                    self._note(one)
                    yield one
                if isinstance(one, Done):
                    return
        raise Lost("the server has ended the stream")

    def _unanswered(self) -> Final:
        return Final(conversation_id=self.conversation_id, run_id=self._run_id, message=Said(), stop_reason="cancelled")

    def _note(self, one: Told) -> None:
        if isinstance(one, Started):
            self.conversation_id = one.conversation_id
            self._run_id = self._run_id or one.run_id

    async def _again(self, body: Body, correlation_id: str, patience: "_Patience") -> Body:
        """No answer came: what to post now. A message is sent again only if the server says that it never took it."""
        while "messages" in body:
            try:
                found = await self._link.ask("GET", f"/traces/{quote(correlation_id)}", _Traces)
            except NotFound:
                break
            except (RateLimited, Lost) as error:
                await patience.wait(error)
                continue
            if not found.runs:
                break
            self._run_id, self.conversation_id = found.runs[-1].run_id, found.runs[-1].conversation
            self._place = self._place or "0"
            return self._resume()
        return body

    async def _news(self) -> AsyncGenerator[Event, None]:
        """Everything until the run goes on: a decision was made, or another device has answered."""
        path = f"/conversations/{self.conversation_id}/events"
        async with aclosing(self._link.events("GET", path, None, {"last-event-id": self._place})) as events:
            with suppress(Lost, RateLimited):
                async for place, raw in events:
                    one = read(raw)
                    self._place = place or self._place
                    if isinstance(one, Done) or one is None:
                        continue
                    if not isinstance(one, ToolCalls | Waiting | Started):
                        yield one
                        return

    def _resume(self) -> Body:
        return {"conversationId": self.conversation_id}


class _Patience:
    """How long to wait before the next attempt; a stop wakes it up. Raises the error again when it is used up."""

    def __init__(self, stopped: asyncio.Event) -> None:
        self._stopped = stopped
        self._tries = 0
        self._rate_waits_s = 0.0

    def renew(self) -> None:
        self._tries = 0

    async def wait(self, error: RateLimited | Lost) -> None:
        if isinstance(error, RateLimited):
            self._rate_waits_s += error.retry_after_s
            if self._rate_waits_s > MOST_RATE_WAIT_S:
                raise error
            await self._pause(error.retry_after_s)
            return
        if self._tries == len(BACKOFF_S):
            raise error
        await self._pause(BACKOFF_S[self._tries])
        self._tries += 1

    async def _pause(self, delay_s: float) -> None:
        if self._stopped.is_set():
            await asyncio.sleep(delay_s)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stopped.wait()


def _content(text: str, images: Sequence[str]) -> object:
    words = plain(text)
    if not images:
        return words
    return [{"type": "text", "text": words}, *({"type": "image", "url": url} for url in images)]
