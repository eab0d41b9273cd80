"""Questions of servers in the old era, where the call's request stays open until the answer comes.

A server of the old era does not name the call that its question belongs to, unless it is reached over HTTP. So calls
that may ask take turns on a session: those of a tool that has asked before, or that was never answered. A call that
waits for its user's answer may ask again: until it goes on, calls that may ask take another session.

A question that several calls may have asked all the same waits until all but one are answered. It is refused if that
cannot be awaited, because it could be put to the wrong user.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, WeakSet

import msgspec

from toolyard.core.json_types import Json, is_object
from toolyard.core.tools.mcp_servers import INPUT_RESPONSES
from toolyard.venues.mcp.outcomes import McpConnection, NoReply, ServerReply

MAX_WAITING = 1000
MAX_REMEMBERED = 20_000
MAX_QUESTION_BYTES = 4 * 1024 * 1024
"""A question is kept in the log of its conversation. A request for sampling is one, too, and may have images."""
UNCLEAR = "it cannot be told which of several calls this question belongs to; ask again"
ToolKey = tuple[str, str]
"""The id of a server, and the name of a tool on it."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A call that was sent to a server, and its open question if there is one."""

    call_id: str
    connection: McpConnection
    """The connection that the call was sent over: only questions of this connection can belong to it."""
    tool: ToolKey = ("", "")
    update_event: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[ServerReply] | None" = None
    question: Json | None = None
    reply: "asyncio.Future[Json] | None" = None
    unattributed: bool = False
    """Whether the server did not name the call that the question belongs to."""
    prepared: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Answers to questions that were asked before a restart, by the hashes of the questions."""
    timer: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self.task is None or not self.task.done()

    @property
    def has_open_question(self) -> bool:
        return self.reply is not None and not self.reply.done()

    @property
    def was_answered(self) -> bool:
        """Whether the server has answered the call, so that no later question can belong to it."""
        task = self.task
        return task is not None and task.done() and not task.cancelled() and not isinstance(task.result(), NoReply)

    async def wait_for_outcome(self) -> ServerReply | None:
        """Return the answer of the server, or None if it has asked a question first."""
        assert self.task is not None
        await self.update_event.wait()
        self.update_event.clear()
        return self.task.result() if self.task.done() else None

    def answer(self, reply: Json) -> None:
        assert self.reply is not None
        self.question = None
        if not self.reply.done():
            self.reply.set_result(reply)


class Elicitations:
    def __init__(self) -> None:
        self._running: set[PendingRequest] = set()
        self._waiting: dict[str, PendingRequest] = {}
        self._turn_locks: WeakKeyDictionary[object, asyncio.Lock] = WeakKeyDictionary()
        self._attributing: set[str] = set()
        """The servers whose last question named its call, so that their calls need no turns."""
        self._unclear: WeakSet[object] = WeakSet()
        """The connections on which a question waits until it is clear which call it belongs to."""
        self._asks: dict[ToolKey, bool] = {}
        """Whether a tool has ever asked; tools that were not called are missing."""

    def begin(self, ticket: PendingRequest) -> None:
        self._running.add(ticket)

    def end(self, ticket: PendingRequest) -> None:
        self._running.discard(ticket)

    @asynccontextmanager
    async def take_turn(self, connection: object, tool: ToolKey, max_wait_s: float) -> AsyncGenerator[None]:
        """Wait until no other call that may ask runs on the connection, and let none begin during the block.

        A tool that has answered without asking needs no turn. Nobody waits for longer than `max_wait_s`, because a
        call may be slow and never ask.
        """
        lock = self._turn_locks.setdefault(connection, asyncio.Lock())
        is_held = False
        try:
            if self._needs_turn(tool):
                is_held = await _acquire(lock, max_wait_s)
            if is_held and not self._needs_turn(tool):  # the call before has shown that it needs none
                lock.release()
                is_held = False
            yield
        finally:
            if is_held:
                lock.release()

    def _needs_turn(self, tool: ToolKey) -> bool:
        return not self.is_quiet(tool) and tool[0] not in self._attributing

    def is_quiet(self, tool: ToolKey) -> bool:
        """Return whether a tool has answered before and never asked."""
        return self._asks.get(tool) is False

    def record_completion(self, ticket: PendingRequest) -> None:
        """Record that a call was answered; a tool that has never asked counts as quiet from now on."""
        if len(self._asks) >= MAX_REMEMBERED:
            self._asks.clear()
        self._asks.setdefault(ticket.tool, False)

    def has_open_question(self, connection: object) -> bool:
        """Return whether a call over this connection waits with a question that named no call."""
        tickets = (
            ticket for ticket in self._waiting.values() if ticket.connection is connection and ticket.unattributed
        )
        return any(ticket.is_running for ticket in tickets)

    def find_waiting(self, token: str) -> PendingRequest | None:
        return self._waiting.get(token)

    async def elicit(self, connection: object, question: Json, owner: object) -> Json:
        """Wait for the answer to a server's question, and return it.

        Raise LookupError if it is not certain which call asks, or if the question is too long.
        """
        if len(msgspec.json.encode(question)) > MAX_QUESTION_BYTES:
            raise LookupError(f"the question is longer than {MAX_QUESTION_BYTES:,} bytes")
        if isinstance(owner, PendingRequest):
            ticket = owner
            self._attributing.add(ticket.tool[0])
        else:
            ticket = await self._find_asking_request(connection)
        ticket.unattributed, self._asks[ticket.tool] = owner is None, True
        if (prepared_reply := ticket.prepared.get(hash_question(question))) is not None:
            return prepared_reply
        if ticket.has_open_question:
            raise LookupError("a question of this call waits for its answer already; ask again later")
        ticket.question = question
        ticket.reply = asyncio.get_running_loop().create_future()
        ticket.update_event.set()
        return await ticket.reply

    async def _find_asking_request(self, connection: object) -> PendingRequest:
        """Return the only call on this connection that can have asked; wait until all others are answered.

        Raise LookupError if there is no such call, or if waiting does not help: another call waits for its user, or
        for its own question to become clear, or it has ended without an answer and may be the one that asked.
        """
        tickets = (*self._running, *self._waiting.values())
        candidates = [ticket for ticket in tickets if ticket.connection is connection and ticket.is_running]
        self._attributing.difference_update(ticket.tool[0] for ticket in candidates)
        remaining = candidates
        if len(candidates) > 1:
            remaining = await self._narrow_down(connection, candidates)
        if len(remaining) != 1:
            self._asks.update((ticket.tool, True) for ticket in candidates)
            raise LookupError(UNCLEAR)
        return remaining[0]

    async def _narrow_down(self, connection: object, candidates: list[PendingRequest]) -> list[PendingRequest]:
        """Return the only one of several calls that can have asked, or nothing."""
        if connection in self._unclear or any(ticket.has_open_question for ticket in candidates):
            return []
        self._unclear.add(connection)
        try:
            return await _await_answers(candidates)
        finally:
            self._unclear.discard(connection)

    def park(self, ticket: PendingRequest, within_s: float) -> str:
        """Keep a call that waits for an answer, and return the token by which this process finds it again."""
        assert ticket.question is not None
        self.end(ticket)
        token = f"{ticket.call_id}:{hash_question(ticket.question)}"
        if len(self._waiting) >= MAX_WAITING:
            self.drop(next(iter(self._waiting)))
        self._waiting[token] = ticket
        ticket.timer = asyncio.get_running_loop().call_later(within_s, self.drop, token)
        return token

    def resume(self, token: str) -> PendingRequest | None:
        ticket = self._waiting.pop(token, None)
        if ticket is None or ticket.task is None or ticket.task.done():
            return None
        if ticket.timer is not None:
            ticket.timer.cancel()
        self.begin(ticket)
        return ticket

    def drop(self, token: str) -> None:
        """Cancel a call that nobody waits for any more; the cancellation is sent to the server."""
        ticket = self._waiting.pop(token, None)
        if ticket is not None and ticket.task is not None:
            ticket.task.cancel()
            if ticket.timer is not None:
                ticket.timer.cancel()

    def drop_call(self, call_id: str) -> None:
        """Drop the questions of a call that has ended otherwise: it was stopped, or nobody answered in time."""
        for token in [token for token, ticket in self._waiting.items() if ticket.call_id == call_id]:
            self.drop(token)


async def _acquire(lock: asyncio.Lock, max_wait_s: float) -> bool:
    try:
        async with asyncio.timeout(max_wait_s):
            return await lock.acquire()
    except TimeoutError:
        return False


async def _await_answers(candidates: list[PendingRequest]) -> list[PendingRequest]:
    """Wait until all calls but one are answered, and return the rest; none if a call ended without an answer."""
    # Calls that begin later are no candidates: the question was there before.
    while len(candidates) > 1:
        await asyncio.wait([ticket.task for ticket in candidates if ticket.task], return_when=asyncio.FIRST_COMPLETED)
        if not all(ticket.is_running or ticket.was_answered for ticket in candidates):
            return []
        candidates = [ticket for ticket in candidates if ticket.is_running]
    return candidates


def hash_question(question: Json) -> str:
    encoded = msgspec.json.encode(question, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def build_reply(answer: Json) -> Json:
    """Return an answer in the shape of MCP: that of a form, or the raw response of the calling MCP client."""
    content = answer.get("content")
    responses = content.get(INPUT_RESPONSES) if is_object(content) else None
    if is_object(responses):
        # A question of the old era is a single request, so there is only one response to take.
        return next(
            (response for response in responses.values() if is_object(response)),
            {"action": "cancel"},
        )
    action = {"accepted": "accept", "declined": "decline"}.get(str(answer.get("reply")), "cancel")
    return {"action": action, "content": answer.get("content") or {}} if action == "accept" else {"action": action}
