"""Runs calls on the servers that have their tools. It does not know how a server is reached.

A server that needs something of the user parks its call with a question; the answer takes the call up again.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound, Refused
from toolyard.core.events import CallEnded, Entry
from toolyard.core.items import Call, Problem
from toolyard.core.mcp_servers import INPUT_RESPONSES
from toolyard.core.ports import Context, Failure, Later, Own, Personal, Value
from toolyard.core.results import problem_of
from toolyard.core.tools import Tool
from toolyard.venues.mcp.calls.content import bounded, outcome, unpromised
from toolyard.venues.mcp.calls.elicitation import Questions, Ticket, digest, replied
from toolyard.venues.mcp.calls.multi_round import MOST_TOKEN, Round, from_token, needed
from toolyard.venues.mcp.calls.push_errors import push_failure
from toolyard.venues.mcp.manager import Fleet
from toolyard.venues.mcp.outcomes import FORBIDDEN, SHARED, Answer, Answered, Gone, Json, Rejected, Supervised

MOST_ROUNDS = 10
PAUSE_S = 0.1
CLOSE_S = 0.05
"""A call that is cancelled this near to its deadline was cancelled by it."""
_CODES = {-32602: "validation_error", -32601: "not_found", -32001: "timeout", FORBIDDEN: "permission_denied"}


MAX_ASKING_SESSIONS = 8
"""Of one kind and caller: each but the last waits with a question that its server has asked."""
MAX_ERROR_TEXT = 2000
ASK_AGAIN = (
    "(The tool asks its user in a way that only the older protocol revision has. It may have done something before it "
    "wanted to ask: find out. From now on it is called in the older revision, where it can ask.)"
)


class McpVenue:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._questions = Questions()
        fleet.elicited = self._questions.asked

    def tools(self) -> Sequence[Tool]:
        return self._fleet.tools()

    def own(self, tool: str) -> Own:
        return Own()

    def personal(self, caller: Caller) -> tuple[Personal, ...]:
        return self._fleet.personal(caller)

    def knows(self, tool: Tool, caller: Caller) -> bool:
        return self._fleet.knows(tool, caller)

    def dispatches(self, tool: Tool, caller: Caller) -> bool:
        return self._fleet.dispatches(tool, caller)

    def unavailable(self, caller: Caller) -> Sequence[Tool]:
        return self._fleet.unavailable(caller)

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Later:
        try:
            asking = _Asking(self._fleet, self._questions, call, tool, context)
        except (NotFound, Refused) as error:
            return Failure(problem=problem_of(error, "unavailable"))
        if context.answer is None:
            return await asking.begin()
        return await asking.resume(context.resume_token, context.answer)

    def observe(self, entry: Entry) -> None:
        """A call that waits here may end elsewhere: it was stopped, or nobody answered."""
        if isinstance(entry.event, CallEnded):
            self._questions.ended(entry.event.result.call_id)

    async def close(self) -> None:
        await self._fleet.close()


class _Asking:
    """One call on its way, through all that its server asks before it answers."""

    def __init__(self, fleet: Fleet, questions: Questions, call: Call, tool: Tool, context: Context) -> None:
        """Raises NotFound or Refused."""
        self._fleet = fleet
        self._questions = questions
        self._shared = fleet.link(tool.server, context.caller)
        self._server = fleet.server(tool.server)
        self._tool = tool
        self._key = (tool.server, tool.remote)
        self._context = context
        self._prepared: dict[str, Json] = {}
        """Answers that are known, by their questions: a server that was started anew asks them again."""
        self._params: Json = {"name": tool.remote, "arguments": call.arguments, "_meta": meta_of(context)}

    async def begin(self) -> Value | Failure | Later:
        try:
            async with self._session() as link:
                ticket = Ticket(self._context.call_id, link, self._key, prepared=self._prepared)
                self._questions.begin(ticket)
                self._send(ticket, self._params)
                return await self._followed(ticket)
        except Refused as error:
            return Failure(problem=problem_of(error, "unavailable"))

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[Supervised]:
        """Yield a session for this call. Raise Refused if there are too many.

        While a question of another call is open, a call that may ask gets a session of its own. A tool that has
        answered without asking stays where its server's state is.
        """
        caller, further, quiet = self._context.caller, self._server.further, self._questions.is_quiet(self._key)
        kind = await further.choose(caller, self._context.mcp_client, self._tool.remote)
        for number in range(MAX_ASKING_SESSIONS):
            link = further.get(caller, replace(kind, number=number))
            async with self._questions.turn(link, alone=number > 0):
                if quiet or not self._questions.has_open(link):  # asked in turn: the call before may have left one
                    yield link
                    return
        raise Refused(
            f"{MAX_ASKING_SESSIONS} calls of the server {self._tool.server!r} wait for their users' answers; "
            "try again once one of them is answered"
        )

    async def resume(self, token: str, answer: Json) -> Value | Failure | Later:
        if (asked := from_token(token)) is not None:
            return await self._next_round(asked, answer)
        reply, waiting = replied(answer), self._questions.waiting(token)
        async with self._questions.turn(waiting.link if waiting else self._shared):
            ticket = self._questions.resume(token)
            if ticket is not None:
                if wrong := self._unfit(ticket.question or {}, reply):
                    return self._parked(ticket, wrong)
                ticket.answer(reply)
                return await self._followed(ticket)
        if self._tool.repeatable:
            self._prepared[token.rpartition(":")[2]] = reply
            return await self.begin()
        return _gone(self._tool, "it was started anew while the answer was waited for", read=True)

    async def _next_round(self, asked: Round, answer: Json) -> Value | Failure | Later:
        given = cast(Json, answer.get("content") or {}).get(INPUT_RESPONSES)
        if isinstance(given, dict):
            return await self._asked(asked.given(cast(Json, given)))
        reply = replied(answer)
        if wrong := self._unfit(asked.question, reply):
            return self._later({**asked.question, "problem": wrong}, asked.token)
        self._prepared[digest(asked.question)] = reply
        return await self._asked(asked)

    async def _round(self, known: Round) -> Value | Failure | Later:
        ticket = Ticket(self._context.call_id, self._shared, self._key)
        self._send(ticket, {**self._params, **known.params})
        return await self._followed(ticket, known.number)

    def _send(self, ticket: Ticket, params: Json) -> None:
        report = self._context.progress

        async def progressed(progress: float, total: float | None, message: str | None) -> None:
            report(progress, total, message or "")

        capabilities = self._server.further.capabilities_of(self._context.mcp_client)
        asking = ticket.link.ask(
            "tools/call", params, progress=progressed, owner=ticket, barred=self._barred, capabilities=capabilities
        )
        task = self._fleet.spawn(asking)
        task.add_done_callback(lambda _: ticket.news.set())
        ticket.task = task

    def _barred(self) -> Rejected | Gone | None:
        """Before a caller's own session is open, what others get was offered: it may be another for this caller."""
        return self._server.barred(self._tool, self._context.caller)

    async def _followed(self, ticket: Ticket, number: int = 0) -> Value | Failure | Later:
        """Until the server has answered, or asked."""
        assert ticket.task is not None
        try:
            answer = await ticket.settled()
        except asyncio.CancelledError:
            if self._fleet.now() >= self._context.deadline - CLOSE_S:
                ticket.link.suspect()
            ticket.task.cancel()
            await asyncio.wait([ticket.task])
            raise
        finally:
            self._questions.end(ticket)
        if answer is None:
            return self._parked(ticket)
        self._questions.completed(ticket)
        return await self._came_to(answer, number)

    async def _came_to(self, answer: Answer, number: int) -> Value | Failure | Later:
        if (error_text := push_failure(answer)) and (failure := await self._repeat_in_old_era(error_text)):
            return failure
        match answer:
            case Answered(raw=raw):
                asked = needed(raw, number + 1)
                return self._checked(raw) if asked is None else await self._asked(asked)
            case Rejected(data={"reason": "invalid_request_state"}) if self._tool.repeatable and number:
                return await self.begin()  # a server that was started anew does not remember that it asked
            case Rejected(code=code, message=message, data=data):
                return Failure(problem=problem_of(message, _CODES.get(code, "execution_error"), _details(code, data)))
            case Gone(why=why, read=read):
                return _gone(self._tool, why, read=read)

    async def _repeat_in_old_era(self, error_text: str) -> Value | Failure | Later | None:
        """Remember that the tool asks by a request of its own, and call it again where that does no harm.

        Nobody knows what the tool did before it wanted to ask, so only one that may be repeated is called again.
        Return None if the server speaks no other era.
        """
        await self._server.note_push(self._tool.remote)
        kind = await self._server.further.choose(self._context.caller, self._context.mcp_client, self._tool.remote)
        if kind == SHARED:
            return None
        if self._tool.repeatable:
            return await self.begin()
        return Failure(problem=problem_of(f"{error_text[:MAX_ERROR_TEXT]} {ASK_AGAIN}", "execution_error"))

    def _checked(self, raw: Json) -> Value | Failure:
        """A result that is not what its tool promised is told as that, with all that came: the tool has run."""
        came = outcome(raw)
        promised = self._server.definition(self._tool.remote, self._context.caller).get("outputSchema")
        if isinstance(came, Failure) or not isinstance(promised, dict):
            return came
        lacks = "it has no structuredContent" if "structuredContent" not in raw else ""
        wrong = lacks or self._fleet.unfit(cast(Json, promised), raw["structuredContent"])
        return came if not wrong else unpromised(came, wrong)

    async def _asked(self, asked: Round) -> Value | Failure | Later:
        forbidden = asked.forbidden(self._server.further.claims(self._context.mcp_client))
        if forbidden or asked.number > MOST_ROUNDS:
            said = f"the server asks for {forbidden or 'more and more'}, which it does not get here"
            return Failure(problem=Problem(error=said, error_type="execution_error"))
        while asked.pending is not None and (known := self._prepared.get(digest(asked.question))) is not None:
            asked = asked.answered(known)
        if asked.pending is None:
            if not asked.requests:
                await asyncio.sleep(PAUSE_S)  # it only wants to be asked again
            return await self._round(asked)
        if len(asked.token) > MOST_TOKEN:
            said = "the server asks a question that is too long to be kept"
            return Failure(problem=Problem(error=said, error_type="too_large"))
        return self._later(asked.question, asked.token)

    def _parked(self, ticket: Ticket, wrong: str = "") -> Later:
        question = ticket.question or {}
        token = self._questions.park(ticket, self._tool.approval_s)
        return self._later({**question, "problem": wrong} if wrong else question, token)

    def _later(self, question: Json, token: str) -> Later:
        return Later(kind="question", question={"server": self._tool.server, **question}, resume_token=token)

    def _unfit(self, question: Json, reply: Json) -> str:
        """What is wrong with an answer, if it is one to a form."""
        schema = question.get("requestedSchema")
        if reply.get("action") != "accept" or not isinstance(schema, dict):
            return ""
        return self._fleet.unfit(cast(Json, schema), reply.get("content"))


def meta_of(context: Context) -> Json:
    """Under which trace this runs, what to tell a repeated request by, and for which division it is."""
    digits = hashlib.blake2b(context.correlation_id.encode(), digest_size=16).hexdigest()
    trace = context.correlation_id if _is_trace(context.correlation_id) else digits
    span = hashlib.blake2b(context.idempotency_key.encode(), digest_size=8).hexdigest()
    known: Json = {"traceparent": f"00-{trace}-{span}-01", "toolyard/idempotency-key": context.idempotency_key}
    division = context.caller.division
    return {**known, "toolyard/division": division} if division else known


def _is_trace(text: str) -> bool:
    return len(text) == 32 and not text.strip("0123456789abcdef") and bool(text.strip("0"))


def _details(code: int, data: object) -> Json:
    return bounded({"code": code} if data is None else {"code": code, "data": data})


def _gone(tool: Tool, why: str, *, read: bool) -> Failure:
    """A call that was lost: whether it took effect is told as far as it is known."""
    if not read or tool.repeatable:
        said = f"the server {tool.server!r} is not available: {why}"
        return Failure(problem=Problem(error=said[:4000], error_type="unavailable"), passing=True)
    said = (
        f"the server {tool.server!r} went away while this call was running ({why}); it may or may not have taken "
        "effect. Find out before asking for it again."
    )
    return Failure(problem=Problem(error=said[:4000], error_type="unknown_outcome"))
