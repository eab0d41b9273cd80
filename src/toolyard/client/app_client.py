"""A conversation for an application: it sends the user's messages, yields events, and runs the application's tools.

A stream that breaks is resumed after the last event. A message or a result whose answer is lost is posted again with
the same Idempotency-Key, so that it takes effect once. A call runs once, however often the server hands it out.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from types import TracebackType
from typing import Self

import msgspec
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
from toolyard.client.http import ConnectionLost, RequestRejected, ServerClient
from toolyard.client.local_tools import LocalTools
from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Misconfigured, RateLimited, Refused, RunFailed, install_command
from toolyard.core.utf8 import replace_surrogates
from toolyard.venues.function import FunctionVenue

PATH = "/chat/v1/conversation"
BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""How long to wait before each attempt to reach the server again."""
MAX_RATE_WAIT_S = 120.0
POLL_S = 0.5
"""The delay between two requests for the state of a run, where no stream reports it."""
MAX_OTHER_RUNS = 100
"""How many runs of other clients may end before ours does."""

Body = Mapping[str, object]


class _Post(Struct, frozen=True):
    """A request of the conversation, encoded once: a repetition has the same bytes and key, so it takes effect once."""

    content: msgspec.Raw
    has_message: bool
    has_results: bool
    headers: Mapping[str, str]


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
        """Empty before the first message. Another client with the same id continues the conversation."""
        self.system_prompt = system_prompt
        self.context = dict(context or {})
        """The application's context, which is sent to the model with each message."""
        self._http = ServerClient(url, key, headers or {})
        self._tools = LocalTools((FunctionVenue(tools),), Caller(user=user), lambda: self.context)
        self._servers = dict(servers or {})
        self._exit_stack = AsyncExitStack()
        self._cursor = ""
        self._run_id = ""
        self._is_active = False
        self._stopped = asyncio.Event()
        """Set when the current request is stopped by this client. Each request has its own event."""

    async def __aenter__(self) -> Self:
        self._exit_stack.push_async_callback(self._http.close)
        self._exit_stack.push_async_callback(self._tools.close)
        if self._servers:
            try:
                from toolyard.client.mcp_servers import open_servers
            except ImportError as error:
                raise Misconfigured(f"MCP servers need more packages: {install_command('mcp')} ({error})") from None
            self._tools.add(await open_servers(self._servers, self._tools.list_names(), self._exit_stack))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit_stack.aclose()

    async def send(
        self, text: str, *, images: Sequence[str] = (), interrupt: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Send a message and yield all events up to the answer, which is the last one.

        `images` are URLs; a `data:` URL carries the image itself. `interrupt` stops what still runs in the conversation
        instead of waiting for it.
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
        """Send a message and return the model's answer. Raise RunFailed if there is none."""
        final: Final | None = None
        async with aclosing(self.send(text)) as events:
            async for event in events:
                final = event if isinstance(event, Final) else final
        if final is None or final.stop_reason == "failed":
            raise RunFailed(final.detail if final else "the request was left before its end")
        return final.text

    async def follow(self) -> AsyncGenerator[Event, None]:
        """Yield the events of what runs or waits in the conversation, perhaps begun on another device, to its end."""
        async with aclosing(self._drive(self._build_resume_body())) as events:
            async for event in events:
                yield event

    async def stop(self) -> None:
        """Stop the current request, here and on the server; without one, stop what runs in the conversation.

        The request ends as cancelled. A request that waits in the queue does not stop the run before it, and a message
        that was not sent yet is not sent any more.
        """
        self._stopped.set()
        try:
            if self.conversation_id and (self._run_id or not self._is_active):
                await self._cancel()
        finally:
            self._tools.stop()

    async def _cancel(self) -> None:
        """Cancel the run on the server, with retries."""
        # An event that is never set: a stop must not shorten the retries of a cancellation.
        path, retry = f"/conversations/{self.conversation_id}/cancel", _RetryDelay(asyncio.Event())
        while True:
            try:
                await self._http.request("POST", path, dict[str, object], {"run_id": self._run_id})
            except Refused:  # the run has just ended by itself
                return
            except (RateLimited, ConnectionLost) as error:
                await retry.wait(error)
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
        """Post the request, run the tool calls that it hands out, and post their results, until the run has ended."""
        others = set[str]()
        while True:
            answer: ResponseEnd | None = None
            async with aclosing(self._stream_answer(body)) as objects:
                async for item in objects:
                    if isinstance(item, PendingToolCalls | RunBlocked | Final):
                        answer = item
                    elif not isinstance(item, StreamStarted | StreamDone):
                        yield item
            if answer and self._stopped.is_set() and answer.run_id != self._run_id:
                self._tools.end_request()
                yield self._build_cancelled()  # our run was stopped; the answer is of another client's run
                return
            if isinstance(answer, Final):
                self._check_repeated(answer, others)
                yield answer
                if answer.run_id == self._run_id:
                    self._tools.end_request()
                    return
            results = await self._collect_results(answer)
            if results == []:
                received = False
                async with aclosing(self._follow_others()) as events:
                    async for event in events:
                        received = True
                        yield event
                await asyncio.sleep(0 if received else POLL_S)
            body = {**self._build_resume_body(), "toolResults": results} if results else self._build_resume_body()

    def _check_repeated(self, final: Final, others: set[str]) -> None:
        """Record the end of another client's run. Raise RunFailed if ours must have ended before.

        A run in front of ours ends once. If the server reports the same end again, that run is the conversation's last
        one, so ours is over and somebody else has taken its answer.
        """
        if final.run_id in others or len(others) == MAX_OTHER_RUNS:
            self._tools.end_request()
            raise RunFailed(f"somebody else has ended run {self._run_id} and gone on: the conversation has its answer")
        others.add(final.run_id)

    async def _collect_results(self, answer: ResponseEnd | None) -> Sequence[object] | None:
        """Return the results to post next; empty if somebody else has to act first, None to only ask for the state."""
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
        """Yield the objects of one answer up to its `done`, over as many connections as that takes."""
        post, retry = _build_post(body), _RetryDelay(self._stopped)
        may_be_taken = False
        while True:
            # A message that the server may have taken is posted once more, to learn which run has to be cancelled.
            can_leave = post.has_message and not may_be_taken
            if can_leave and self._stopped.is_set():
                yield self._build_cancelled()
                return
            began = False
            try:
                async with aclosing(self._send_post(post)) as objects:
                    async for item in objects:
                        began = True
                        if isinstance(item, StreamStarted) and self._stopped.is_set():
                            await self._cancel()  # only now is the id of the run known that has to be cancelled
                        retry.reset()
                        yield item
                return
            except (Refused, RequestRejected, Invalid) as error:
                if not post.has_results or not self._tools.shrink_batch(error):
                    raise
                # The server hands out the calls again that still wait for a result.
                post = _build_post(self._build_resume_body())
            except RateLimited as error:
                if not can_leave or not self._stopped.is_set():
                    await retry.wait(error)
            except ConnectionLost as error:
                may_be_taken = True
                await retry.wait(error)
                post = _build_post(self._build_resume_body()) if began else post

    async def _send_post(self, post: _Post) -> AsyncGenerator[StreamObject, None]:
        """Yield the objects of one connection. Raise ConnectionLost if it ends before its `done`."""
        stream = self._http.stream_events("POST", PATH, post.content, after=self._cursor, headers=post.headers)
        async with aclosing(stream) as events:
            async for event_id, raw in events:
                self._cursor = event_id or self._cursor
                item = parse_object(raw)
                if item is not None:
                    self._note_start(item)
                    yield item
                if isinstance(item, StreamDone):
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

    async def _follow_others(self) -> AsyncGenerator[Event, None]:
        """Yield the next event of the conversation, which tells that a decision was made or another device answered."""
        path = f"/conversations/{self.conversation_id}/events"
        async with aclosing(self._http.stream_events("GET", path, after=self._cursor)) as events:
            with suppress(ConnectionLost, RateLimited):
                async for event_id, raw in events:
                    item = parse_object(raw)
                    self._cursor = event_id or self._cursor
                    if isinstance(item, StreamDone) or item is None:
                        continue
                    if not isinstance(item, PendingToolCalls | RunBlocked | StreamStarted):
                        yield item
                        return

    def _build_resume_body(self) -> Body:
        return {"conversationId": self.conversation_id}


def _build_post(body: Body) -> _Post:
    has_message, has_results = "messages" in body, "toolResults" in body
    key = {"idempotency-key": secrets.token_hex(16)} if has_message or has_results else {}
    return _Post(
        content=msgspec.Raw(msgspec.json.encode(body)),
        has_message=has_message,
        has_results=has_results,
        headers={"x-correlation-id": secrets.token_hex(16), **key},
    )


class _RetryDelay:
    """Waits before the next attempt. Setting `stopped` ends the wait; the error is raised after the last attempt."""

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
    valid_text = replace_surrogates(text)
    if not images:
        return valid_text
    return [{"type": "text", "text": valid_text}, *({"type": "image", "url": url} for url in images)]
