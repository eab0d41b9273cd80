"""Clients for one conversation: in a yard of this process, or on a server. `Screen` shows it, and asks the user."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Literal, Protocol

import msgspec

from toolyard.client.http import ServerClient
from toolyard.codec import decode_entry
from toolyard.core.conversation.approvals import build_approval_view
from toolyard.core.conversation.events import Entry, Fleeting, Published, RunEnded
from toolyard.core.errors import Refused, Unavailable
from toolyard.core.items import Item, ModelText, Result, UserMessage
from toolyard.engine.run.run import Run
from toolyard.yard import LOCAL_CALLER, Yard

RETRY_DELAYS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How long to wait before each attempt to reconnect to the server."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user's decision about a call that waits for it."""

    call_id: str
    action: Literal["approve", "deny", "answer"]
    arguments: dict[str, object] | None = None
    reason: str = ""
    content: dict[str, object] = {}


class ChatClient(Protocol):
    """A conversation to which messages can be sent."""

    conversation: str
    """The conversation's id; empty before the first message."""

    def send(self, text: str) -> AsyncGenerator[Published, None]:
        """Send a message, and yield everything that happens until its run ends, across all waits."""
        ...

    async def decide(self, decision: Decision) -> None: ...

    async def list_refusals(self) -> Mapping[str, str]:
        """Return why the user may not decide, for each call that waits for an approval of others, by its id."""
        ...

    async def stop(self) -> None: ...

    async def list_messages(self) -> list[tuple[str, str]]:
        """Return the role and the text of each message so far."""
        ...


class LocalChatClient:
    def __init__(self, yard: Yard) -> None:
        self.conversation = ""
        self._yard = yard
        self._run: Run | None = None

    async def send(self, text: str) -> AsyncGenerator[Published, None]:
        self._run = self._yard.run(text, conversation=self.conversation)
        self.conversation = self._run.conversation
        async with aclosing(self._run.stream()) as published:
            async for item in published:
                yield item

    async def decide(self, decision: Decision) -> None:
        yard, call = self._yard, (self.conversation, decision.call_id)
        match decision.action:
            case "approve":
                await yard.approve(*call, arguments=decision.arguments)
            case "deny":
                await yard.deny(*call, decision.reason)
            case "answer":
                await yard.answer(*call, decision.content)

    async def list_refusals(self) -> Mapping[str, str]:
        state = await self._yard.service.conversations.view(self.conversation)
        views = {call_id: build_approval_view(state, call, LOCAL_CALLER) for call_id, call in state.calls.items()}
        return {call_id: view.refusal for call_id, view in views.items() if view is not None and view.refusal}

    async def stop(self) -> None:
        if self._run is not None:
            with suppress(Refused):  # the run may have ended by itself in the meantime
                await self._run.stop()

    async def list_messages(self) -> list[tuple[str, str]]:
        return [line for item in await self._yard.history(self.conversation) if (line := _to_line(item))]


class _CreatedConversation(msgspec.Struct):
    class ConversationRef(msgspec.Struct):
        id: str

    conversation: ConversationRef


class _MessageHistory(msgspec.Struct):
    class HistoryMessage(msgspec.Struct):
        role: str
        content: str | list[dict[str, object]] | None = None

    messages: list[HistoryMessage]


class _LiveRuns(msgspec.Struct):
    class LiveRun(msgspec.Struct):
        class LiveCall(msgspec.Struct):
            class CallApproval(msgspec.Struct):
                refusal: str = ""

            id: str
            approval: CallApproval | None = None

        conversation: str
        calls: list[LiveCall]

    runs: list[LiveRun]


class ServerChatClient:
    def __init__(self, server: ServerClient) -> None:
        self.conversation = ""
        self._server = server
        self._cursor = ""

    async def send(self, text: str) -> AsyncGenerator[Published, None]:
        if not self.conversation:
            created = await self._server.request("POST", "/conversations", _CreatedConversation, {"title": text[:60]})
            self.conversation, self._cursor = created.conversation.id, ""
        # The run's own stream is not read: the stream of the conversation can be resumed at the cursor.
        await self._server.start_run(f"/conversations/{self.conversation}/chat", {"content": text})
        async with aclosing(self._follow()) as items:
            async for item in items:
                yield item
                if isinstance(item, Entry) and isinstance(item.event, RunEnded):
                    return

    async def decide(self, decision: Decision) -> None:
        bodies = {"approve": {"arguments": decision.arguments}, "deny": {"reason": decision.reason}}
        fields = bodies.get(decision.action, {"content": decision.content})
        body = {name: value for name, value in fields.items() if value is not None}
        path = f"/conversations/{self.conversation}/calls/{decision.call_id}/{decision.action}"
        await self._server.request("POST", path, dict[str, object], body)

    async def list_refusals(self) -> Mapping[str, str]:
        open_runs = (await self._server.request("GET", "/live", _LiveRuns)).runs
        calls = [call for run in open_runs if run.conversation == self.conversation for call in run.calls]
        return {call.id: call.approval.refusal for call in calls if call.approval and call.approval.refusal}

    async def stop(self) -> None:
        with suppress(Refused):
            await self._server.request("POST", f"/conversations/{self.conversation}/cancel", dict[str, object], {})

    async def list_messages(self) -> list[tuple[str, str]]:
        history = await self._server.request("GET", f"/conversations/{self.conversation}/messages", _MessageHistory)
        return [
            (message.role, message.content)
            for message in history.messages
            if isinstance(message.content, str) and message.content
        ]

    async def _follow(self) -> AsyncGenerator[Published, None]:
        """Yield every entry after the cursor. If the server goes away, reconnect and continue without a gap."""
        path, retries = f"/conversations/{self.conversation}/events?format=entries", 0
        while True:
            try:
                async with aclosing(self._server.stream_events("GET", path, after=self._cursor)) as events:
                    async for event_id, body in events:
                        # Decode first: the last message of a server that shuts down is no entry, and must not move
                        # the cursor.
                        item = _decode_item(body)
                        retries, self._cursor = 0, event_id
                        yield item
                raise Unavailable(f"the server at {self._server.url} has ended the stream")
            except Unavailable:
                if retries == len(RETRY_DELAYS_S):
                    raise
                await asyncio.sleep(RETRY_DELAYS_S[retries])
                retries += 1


def _decode_item(body: bytes) -> Published:
    """Return the entry or event of a stream. Raise Unavailable for the message of a server that shuts down."""
    try:
        return decode_entry(body)
    except msgspec.DecodeError:
        pass
    try:
        return msgspec.json.decode(body, type=Fleeting)
    except msgspec.DecodeError:
        raise Unavailable("the server has ended the stream") from None


def _to_line(item: Item) -> tuple[str, str] | None:
    match item:
        case UserMessage():
            return "user", item.text
        case ModelText(text=text) if text:
            return "assistant", text
        case Result(tool=tool, content=content):
            return "tool", f"{tool}: {content}"
        case _:
            return None
