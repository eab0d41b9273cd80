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
from toolyard.venues.mcp.outcomes import Answer, Json, Supervised

MOST_WAITING = 1000
MAX_REMEMBERED = 20_000
ToolKey = tuple[str, str]
"""A server, and the name of a tool there."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A call on its way, and what it waits for."""

    call_id: str
    link: Supervised
    """The connection it is made over: questions of other connections are not its."""
    tool: ToolKey = ("", "")
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[Answer] | None" = None
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

    async def settled(self) -> Answer | None:
        """The answer of the server; None if it has asked something first."""
        assert self.task is not None
        await self.news.wait()
        self.news.clear()
        return self.task.result() if self.task.done() else None

    def answer(self, reply: Json) -> None:
        assert self.reply is not None
        self.question = None
        if not self.reply.done():
            self.reply.set_result(reply)


class Questions:
    def __init__(self) -> None:
        self._running: set[Ticket] = set()
        self._waiting: dict[str, Ticket] = {}
        self._turns: WeakKeyDictionary[object, asyncio.Lock] = WeakKeyDictionary()
        self._ambiguous: WeakSet[object] = WeakSet()
        self._asks: dict[ToolKey, bool] = {}
        """Whether a tool has ever asked, as far as it has been called."""

    def begin(self, ticket: Ticket) -> None:
        self._running.add(ticket)

    def end(self, ticket: Ticket) -> None:
        self._running.discard(ticket)

    def turn(self, link: object, *, alone: bool = False) -> AbstractAsyncContextManager[object]:
        """Return what lets calls run one at a time where a question could be that of several; else nothing to wait for.

        That is so on a connection that has asked when several calls could be meant, and while a question is open.
        """
        lock = self._turns.setdefault(link, asyncio.Lock())
        needed = alone or link in self._ambiguous or self.has_open(link) or lock.locked()
        return lock if needed else nullcontext()

    def is_quiet(self, tool: ToolKey) -> bool:
        """Return whether a tool is known to answer without asking."""
        return self._asks.get(tool) is False

    def completed(self, ticket: Ticket) -> None:
        """Note that a call was answered; if its tool has never asked, it is taken for one that does not."""
        if len(self._asks) >= MAX_REMEMBERED:
            self._asks.clear()
        self._asks.setdefault(ticket.tool, False)

    def has_open(self, link: object) -> bool:
        """Return whether a call over this connection waits with a question that could have been another call's."""
        tickets = (ticket for ticket in self._waiting.values() if ticket.link is link and ticket.unattributed)
        return any(ticket.is_running for ticket in tickets)

    def waiting(self, token: str) -> Ticket | None:
        return self._waiting.get(token)

    async def asked(self, link: object, question: Json, owner: object) -> Json:
        """A server asks. Raises LookupError if it cannot be told whom."""
        ticket = owner if isinstance(owner, Ticket) else self._only(link)
        ticket.unattributed, self._asks[ticket.tool] = owner is None, True
        if (known := ticket.prepared.get(digest(question))) is not None:
            return known
        if ticket.reply is not None and not ticket.reply.done():
            raise LookupError("a question of this call waits for its answer already; ask again later")
        ticket.question = question
        ticket.reply = asyncio.get_running_loop().create_future()
        ticket.news.set()
        return await ticket.reply

    def _only(self, link: object) -> Ticket:
        """The only call that it could be, of those that run and those that wait for an answer."""
        known = (*self._running, *self._waiting.values())
        meant = [ticket for ticket in known if ticket.link is link and ticket.is_running]
        if len(meant) == 1:
            return meant[0]
        self._ambiguous.add(link)
        self._asks.update((ticket.tool, True) for ticket in meant)
        raise LookupError("it cannot be told which of several calls this question belongs to; ask again")

    def park(self, ticket: Ticket, within_s: float) -> str:
        """Keep a call that waits for an answer; the token leads back to it, in this process."""
        assert ticket.question is not None
        self.end(ticket)
        token = f"{ticket.call_id}:{digest(ticket.question)}"
        if len(self._waiting) >= MOST_WAITING:
            self.drop(next(iter(self._waiting)))
        self._waiting[token] = ticket
        ticket.timer = asyncio.get_running_loop().call_later(within_s, self.drop, token)
        return token

    def resume(self, token: str) -> Ticket | None:
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

    def ended(self, call_id: str) -> None:
        """A call has got its result in another way: it was stopped, or nobody answered in time."""
        for token in [token for token, ticket in self._waiting.items() if ticket.call_id == call_id]:
            self.drop(token)


def digest(question: Json) -> str:
    encoded = msgspec.json.encode(question, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def replied(answer: Json) -> Json:
    """Our answer as MCP has it: to a form, or to whatever else was asked, as the client behind us gave it."""
    content = answer.get("content")
    given = cast(Json, content).get(INPUT_RESPONSES) if isinstance(content, dict) else None
    if isinstance(given, dict):
        return next(
            (cast(Json, one) for one in cast(Json, given).values() if isinstance(one, dict)), {"action": "cancel"}
        )
    action = {"accepted": "accept", "declined": "decline"}.get(str(answer.get("reply")), "cancel")
    return {"action": action, "content": answer.get("content") or {}} if action == "accept" else {"action": action}
