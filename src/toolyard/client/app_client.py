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

from toolyard.client.events import (
    Event,
    Final,
    FinalMessage,
    PendingToolCalls,
    ResponseEnd,
    RunBlocked,
    StreamDone,
    StreamObject,
    StreamStarted,
    parse_object,
)
from toolyard.client.http import AppHttpClient, ConnectionLost, RequestRejected
from toolyard.client.local_tools import LocalTools
from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Misconfigured, NotFound, RateLimited, Refused, RunFailed, install_command
from toolyard.core.results import replace_surrogates
from toolyard.venues.function import FunctionVenue

PATH = "/chat/v1/conversation"
BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""How long to wait before each attempt to find the server again."""
MAX_RATE_WAIT_S = 120.0
POLL_S = 0.5
"""Between two looks at what becomes of a request, where nobody tells."""
MAX_OTHER_RUNS = 100
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
        self._http = AppHttpClient(url, key, headers or {})
        self._tools = LocalTools((FunctionVenue(tools),), Caller(user=user), lambda: self.context)
        self._servers = dict(servers or {})
        self._exit_stack = AsyncExitStack()
        self._cursor = ""
        self._run_id = ""
        self._is_active = False
        self._stopped = asyncio.Event()
        """Whether the request that is under way was stopped here. Each has its own."""

    async def __aenter__(self) -> Self:
        self._exit_stack.push_async_callback(self._http.close)
        self._exit_stack.push_async_callback(self._tools.close)
        if self._servers:
            try:
                mcp = import_module("toolyard.client.mcp_servers")
            except ImportError as error:
                raise Misconfigured(f"MCP servers need more packages: {install_command('mcp')} ({error})") from None
            self._tools.add(await mcp.open_servers(self._servers, self._tools.list_names(), self._exit_stack))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit_stack.aclose()

    async def send(
        self, text: str, *, images: Sequence[str] = (), interrupt: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Say something; everything that happens until the answer, which is the last event.

        `images` are addresses; one that begins with `data:` carries the image. `interrupt` stops what still runs in
        the conversation instead of waiting for it.
        """
        body: dict[str, object] = {
            "messages": [{"role": "user", "content": _build_content(text, images)}],
            "tools": self._tools.build_definitions(),
            "systemPrompt": self.system_prompt,
            "context": self.context,
            "interrupt": interrupt,
        }
        body |= {"conversationId": self.conversation_id} if self.conversation_id else {"keep": True}
        async with aclosing(self._drive(body)) as events:
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
        async with aclosing(self._drive(self._build_resume_body())) as events:
            async for event in events:
                yield event

    async def stop(self) -> None:
        """Stop the request that is under way, here and on the server, or what runs there if none is.

        It then ends as cancelled. One that stands in line leaves the one in front alone; one not yet sent never is.
        """
        self._stopped.set()
        try:
            if self.conversation_id and (self._run_id or not self._is_active):
                await self._cancel()
        finally:
            self._tools.stop()

    async def _cancel(self) -> None:
        """Have the server stop it. It may have ended by itself in this very moment."""
        path, patience = f"/conversations/{self.conversation_id}/cancel", _RetryDelay(asyncio.Event())
        while True:
            try:
                await self._http.request_json("POST", path, dict[str, object], {"run_id": self._run_id})
            except Refused:
                return
            except (RateLimited, ConnectionLost) as error:
                await patience.wait(error)
            else:
                return

    async def _drive(self, body: Body) -> AsyncGenerator[Event, None]:
        self._run_id, self._is_active, self._stopped = "", True, asyncio.Event()
        try:
            async with aclosing(self._exchange(body)) as events:
                async for event in events:
                    yield event
        finally:
            self._is_active = False

    async def _exchange(self, body: Body) -> AsyncGenerator[Event, None]:
        """Post, run what is handed out, post the results, until the request has ended."""
        others = set[str]()
        while True:
            answer: ResponseEnd | None = None
            async with aclosing(self._stream_answer(body)) as told:
                async for one in told:
                    if isinstance(one, PendingToolCalls | RunBlocked | Final):
                        answer = one
                    elif not isinstance(one, StreamStarted | StreamDone):
                        yield one
            if answer and self._stopped.is_set() and answer.run_id != self._run_id:
                self._tools.end_request()
                yield self._build_cancelled()  # it was stopped, and somebody else's is in front now
                return
            if isinstance(answer, Final):
                self._check_repeated(answer, others)
                yield answer
                if answer.run_id == self._run_id:
                    self._tools.end_request()
                    return
            results = await self._collect_results(answer)
            if results == []:
                heard = False
                async with aclosing(self._follow_others()) as events:
                    async for event in events:
                        heard = True
                        yield event
                await asyncio.sleep(0 if heard else POLL_S)
            body = {**self._build_resume_body(), "toolResults": results} if results else self._build_resume_body()

    def _check_repeated(self, final: Final, others: set[str]) -> None:
        """Those before ours end once each. One that is told again is the conversation's last: ours ended before it."""
        if final.run_id in others or len(others) == MAX_OTHER_RUNS:
            self._tools.end_request()
            raise RunFailed(f"somebody else has ended run {self._run_id} and gone on: the conversation has its answer")
        others.add(final.run_id)

    async def _collect_results(self, answer: ResponseEnd | None) -> Sequence[object] | None:
        """What to post next; an empty list if somebody else has to do something first, None to ask how it went on."""
        match answer:
            case PendingToolCalls() if not self._stopped.is_set():
                return await self._tools.run_calls(answer)
            case PendingToolCalls():
                await asyncio.sleep(POLL_S)
                return None
            case RunBlocked():
                return []
            case _:
                return None

    async def _stream_answer(self, body: Body) -> AsyncGenerator[StreamObject, None]:
        """What the server tells until its `done`, over as many connections as that takes."""
        correlation_id, patience = secrets.token_hex(16), _RetryDelay(self._stopped)
        while True:
            if "messages" in body and self._stopped.is_set():
                yield self._build_cancelled()
                return
            began = False
            try:
                async with aclosing(self._post(body, correlation_id)) as told:
                    async for one in told:
                        began = True
                        if isinstance(one, StreamStarted) and self._stopped.is_set():
                            await self._cancel()  # the server could not be told before it had the message
                        patience.reset()
                        yield one
                return
            except (Refused, RequestRejected, Invalid) as error:
                if "toolResults" not in body or not self._tools.shrink_batch(error):
                    raise
                body = self._build_resume_body()  # what still waits is handed out again
            except RateLimited as error:
                if "messages" not in body or not self._stopped.is_set():
                    await patience.wait(error)
            except ConnectionLost as error:
                await patience.wait(error)
                body = self._build_resume_body() if began else await self._recover_body(body, correlation_id, patience)

    async def _post(self, body: Body, correlation_id: str) -> AsyncGenerator[StreamObject, None]:
        """What comes over one connection. Raises Lost if it ends before its `done`."""
        headers = {"x-correlation-id": correlation_id} | ({"last-event-id": self._cursor} if self._cursor else {})
        async with aclosing(self._http.stream_events("POST", PATH, body, headers)) as events:
            async for place, raw in events:
                self._cursor = place or self._cursor
                one = parse_object(raw)
                if one is not None:
                    self._note_start(one)
                    yield one
                if isinstance(one, StreamDone):
                    return
        raise ConnectionLost("the server has ended the stream")

    def _build_cancelled(self) -> Final:
        return Final(
            conversation_id=self.conversation_id, run_id=self._run_id, message=FinalMessage(), stop_reason="cancelled"
        )

    def _note_start(self, event: StreamObject) -> None:
        if isinstance(event, StreamStarted):
            self.conversation_id = event.conversation_id
            self._run_id = self._run_id or event.run_id

    async def _recover_body(self, body: Body, correlation_id: str, retry: "_RetryDelay") -> Body:
        """No answer came: what to post now. A message is sent again only if the server says that it never took it."""
        while "messages" in body:
            try:
                found = await self._http.request_json("GET", f"/traces/{quote(correlation_id)}", _Traces)
            except NotFound:
                break
            except (RateLimited, ConnectionLost) as error:
                await retry.wait(error)
                continue
            if not found.runs:
                break
            self._run_id, self.conversation_id = found.runs[-1].run_id, found.runs[-1].conversation
            self._cursor = self._cursor or "0"
            return self._build_resume_body()
        return body

    async def _follow_others(self) -> AsyncGenerator[Event, None]:
        """Everything until the run goes on: a decision was made, or another device has answered."""
        path = f"/conversations/{self.conversation_id}/events"
        async with aclosing(self._http.stream_events("GET", path, None, {"last-event-id": self._cursor})) as events:
            with suppress(ConnectionLost, RateLimited):
                async for place, raw in events:
                    one = parse_object(raw)
                    self._cursor = place or self._cursor
                    if isinstance(one, StreamDone) or one is None:
                        continue
                    if not isinstance(one, PendingToolCalls | RunBlocked | StreamStarted):
                        yield one
                        return

    def _build_resume_body(self) -> Body:
        return {"conversationId": self.conversation_id}


class _RetryDelay:
    """How long to wait before the next attempt; a stop wakes it up. Raises the error again when it is used up."""

    def __init__(self, stopped: asyncio.Event) -> None:
        self._stopped = stopped
        self._tries = 0
        self._rate_waits_s = 0.0

    def reset(self) -> None:
        self._tries = 0

    async def wait(self, error: RateLimited | ConnectionLost) -> None:
        if isinstance(error, RateLimited):
            self._rate_waits_s += error.retry_after_s
            if self._rate_waits_s > MAX_RATE_WAIT_S:
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


def _build_content(text: str, images: Sequence[str]) -> object:
    words = replace_surrogates(text)
    if not images:
        return words
    return [{"type": "text", "text": words}, *({"type": "image", "url": url} for url in images)]
