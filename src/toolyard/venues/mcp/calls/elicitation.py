"""Calls that wait with a question of their server, in the old era: the request stays open until the answer comes.

Old servers do not say which call a question belongs to, unless they are reached over HTTP. If more than one could be
meant, nobody is asked, as it could be somebody else's; and from then on the calls of that session run one at a time. A
call that waits for its user's answer could be meant, too: until it goes on, calls that may ask take another session.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import cast
from weakref import WeakKeyDictionary, WeakSet

import msgspec

from toolyard.core.mcp_servers import INPUT_RESPONSES
from toolyard.venues.mcp.outcomes import Json, McpConnection, ServerReply

MAX_WAITING = 1000
MAX_REMEMBERED = 20_000
ToolKey = tuple[str, str]
"""A server, and the name of a tool there."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A call on its way, and what it waits for."""

    call_id: str
    connection: McpConnection
    """The connection it is made over: questions of other connections are not its."""
    tool: ToolKey = ("", "")
    update_event: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[ServerReply] | None" = None
    question: Json | None = None
    reply: "asyncio.Future[Json] | None" = None
    unattributed: bool = False
    """Its question came without a word on which call it belongs to."""
    prepared: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Answers to questions that were asked before a restart, by the questions' digests."""
    timer: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self.task is None or not self.task.done()

    async def wait_for_outcome(self) -> ServerReply | None:
        """The answer of the server; None if it has asked something first."""
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
        self._ambiguous: WeakSet[object] = WeakSet()
        self._asks: dict[ToolKey, bool] = {}
        """Whether a tool has ever asked, as far as it has been called."""

    def begin(self, ticket: PendingRequest) -> None:
        self._running.add(ticket)

    def end(self, ticket: PendingRequest) -> None:
        self._running.discard(ticket)

    def get_turn_lock(self, connection: object, *, alone: bool = False) -> AbstractAsyncContextManager[object]:
        """Return what lets calls run one at a time where a question could be that of several; else nothing to wait for.

        That is so on a connection that has asked when several calls could be meant, and while a question is open.
        """
        lock = self._turn_locks.setdefault(connection, asyncio.Lock())
        needed = alone or connection in self._ambiguous or self.has_open_question(connection) or lock.locked()
        return lock if needed else nullcontext()

    def is_quiet(self, tool: ToolKey) -> bool:
        """Return whether a tool is known to answer without asking."""
        return self._asks.get(tool) is False

    def record_completion(self, ticket: PendingRequest) -> None:
        """Note that a call was answered; if its tool has never asked, it is taken for one that does not."""
        if len(self._asks) >= MAX_REMEMBERED:
            self._asks.clear()
        self._asks.setdefault(ticket.tool, False)

    def has_open_question(self, connection: object) -> bool:
        """Return whether a call over this connection waits with a question that could have been another call's."""
        tickets = (
            ticket for ticket in self._waiting.values() if ticket.connection is connection and ticket.unattributed
        )
        return any(ticket.is_running for ticket in tickets)

    def find_waiting(self, token: str) -> PendingRequest | None:
        return self._waiting.get(token)

    async def elicit(self, connection: object, question: Json, owner: object) -> Json:
        """A server asks. Raises LookupError if it cannot be told whom."""
        ticket = owner if isinstance(owner, PendingRequest) else self._find_only_request(connection)
        ticket.unattributed, self._asks[ticket.tool] = owner is None, True
        if (known := ticket.prepared.get(hash_question(question))) is not None:
            return known
        if ticket.reply is not None and not ticket.reply.done():
            raise LookupError("a question of this call waits for its answer already; ask again later")
        ticket.question = question
        ticket.reply = asyncio.get_running_loop().create_future()
        ticket.update_event.set()
        return await ticket.reply

    def _find_only_request(self, connection: object) -> PendingRequest:
        """The only call that it could be, of those that run and those that wait for an answer."""
        known = (*self._running, *self._waiting.values())
        meant = [ticket for ticket in known if ticket.connection is connection and ticket.is_running]
        if len(meant) == 1:
            return meant[0]
        self._ambiguous.add(connection)
        self._asks.update((ticket.tool, True) for ticket in meant)
        raise LookupError("it cannot be told which of several calls this question belongs to; ask again")

    def park(self, ticket: PendingRequest, within_s: float) -> str:
        """Keep a call that waits for an answer; the token leads back to it, in this process."""
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
        """Nobody waits for it any more: the server is told."""
        ticket = self._waiting.pop(token, None)
        if ticket is not None and ticket.task is not None:
            ticket.task.cancel()
            if ticket.timer is not None:
                ticket.timer.cancel()

    def drop_call(self, call_id: str) -> None:
        """A call has got its result in another way: it was stopped, or nobody answered in time."""
        for token in [token for token, ticket in self._waiting.items() if ticket.call_id == call_id]:
            self.drop(token)


def hash_question(question: Json) -> str:
    encoded = msgspec.json.encode(question, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def build_reply(answer: Json) -> Json:
    """Our answer as MCP has it: to a form, or to whatever else was asked, as the client behind us gave it."""
    content = answer.get("content")
    given = cast(Json, content).get(INPUT_RESPONSES) if isinstance(content, dict) else None
    if isinstance(given, dict):
        return next(
            (cast(Json, one) for one in cast(Json, given).values() if isinstance(one, dict)), {"action": "cancel"}
        )
    action = {"accepted": "accept", "declined": "decline"}.get(str(answer.get("reply")), "cancel")
    return {"action": action, "content": answer.get("content") or {}} if action == "accept" else {"action": action}
