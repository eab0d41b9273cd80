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
from toolyard.core.ports import CallerTools, Context, Failure, Pending, ToolHooks, Value
from toolyard.core.results import to_problem
from toolyard.core.tools import Tool
from toolyard.venues.mcp.calls.content import build_schema_failure, limit_details, parse_call_result
from toolyard.venues.mcp.calls.elicitation import Elicitations, PendingRequest, build_reply, hash_question
from toolyard.venues.mcp.calls.multi_round import MAX_TOKEN_CHARS, InputRound, decode_token, parse_round
from toolyard.venues.mcp.calls.push_errors import find_push_error
from toolyard.venues.mcp.manager import McpManager
from toolyard.venues.mcp.outcomes import (
    FORBIDDEN,
    SHARED,
    ErrorReply,
    Json,
    McpConnection,
    NoReply,
    ResultReply,
    ServerReply,
)

MAX_ROUNDS = 10
PAUSE_S = 0.1
DEADLINE_MARGIN_S = 0.05
"""A call that is cancelled this near to its deadline was cancelled by it."""
_ERROR_TYPES = {-32602: "validation_error", -32601: "not_found", -32001: "timeout", FORBIDDEN: "permission_denied"}


MAX_ASKING_SESSIONS = 8
"""Of one kind and caller: each but the last waits with a question that its server has asked."""
MAX_ERROR_CHARS = 2000
ASK_AGAIN = (
    "(The tool asks its user in a way that only the older protocol revision has. It may have done something before it "
    "wanted to ask: find out. From now on it is called in the older revision, where it can ask.)"
)


class McpVenue:
    def __init__(self, manager: McpManager) -> None:
        self._manager = manager
        self._elicitations = Elicitations()
        manager.on_elicitation = self._elicitations.elicit

    def tools(self) -> Sequence[Tool]:
        return self._manager.tools()

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks()

    def caller_tools(self, caller: Caller) -> tuple[CallerTools, ...]:
        return self._manager.caller_tools(caller)

    def knows_tool(self, tool: Tool, caller: Caller) -> bool:
        return self._manager.knows_tool(tool, caller)

    def can_dispatch(self, tool: Tool, caller: Caller) -> bool:
        return self._manager.can_dispatch(tool, caller)

    def unavailable_tools(self, caller: Caller) -> Sequence[Tool]:
        return self._manager.unavailable_tools(caller)

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Pending:
        try:
            asking = _CallRunner(self._manager, self._elicitations, call, tool, context)
        except (NotFound, Refused) as error:
            return Failure(problem=to_problem(error, "unavailable"))
        if context.answer is None:
            return await asking.begin()
        return await asking.resume(context.resume_token, context.answer)

    def observe(self, entry: Entry) -> None:
        """A call that waits here may end elsewhere: it was stopped, or nobody answered."""
        if isinstance(entry.event, CallEnded):
            self._elicitations.drop_call(entry.event.result.call_id)

    async def close(self) -> None:
        await self._manager.close()


class _CallRunner:
    """One call on its way, through all that its server asks before it answers."""

    def __init__(
        self, manager: McpManager, elicitations: Elicitations, call: Call, tool: Tool, context: Context
    ) -> None:
        """Raises NotFound or Refused."""
        self._manager = manager
        self._elicitations = elicitations
        self._shared_connection = manager.get_connection(tool.server, context.caller)
        self._server = manager.get_server(tool.server)
        self._tool = tool
        self._key = (tool.server, tool.remote)
        self._context = context
        self._prepared: dict[str, Json] = {}
        """Answers that are known, by their questions: a server that was started anew asks them again."""
        self._params: Json = {"name": tool.remote, "arguments": call.arguments, "_meta": build_meta(context)}

    async def begin(self) -> Value | Failure | Pending:
        try:
            async with self._acquire_session() as link:
                ticket = PendingRequest(self._context.call_id, link, self._key, prepared=self._prepared)
                self._elicitations.begin(ticket)
                self._send(ticket, self._params)
                return await self._await_reply(ticket)
        except Refused as error:
            return Failure(problem=to_problem(error, "unavailable"))

    @asynccontextmanager
    async def _acquire_session(self) -> AsyncGenerator[McpConnection]:
        """Yield a session for this call. Raise Refused if there are too many.

        While a question of another call is open, a call that may ask gets a session of its own. A tool that has
        answered without asking stays where its server's state is.
        """
        caller, further, quiet = (
            self._context.caller,
            self._server.extra_sessions,
            self._elicitations.is_quiet(self._key),
        )
        kind = await further.choose(caller, self._context.mcp_client, self._tool.remote)
        for number in range(MAX_ASKING_SESSIONS):
            link = further.get(caller, replace(kind, number=number))
            async with self._elicitations.get_turn_lock(link, alone=number > 0):
                if quiet or not self._elicitations.has_open_question(
                    link
                ):  # asked in turn: the call before may have left one
                    yield link
                    return
        raise Refused(
            f"{MAX_ASKING_SESSIONS} calls of the server {self._tool.server!r} wait for their users' answers; "
            "try again once one of them is answered"
        )

    async def resume(self, token: str, answer: Json) -> Value | Failure | Pending:
        if (asked := decode_token(token)) is not None:
            return await self._continue_round(asked, answer)
        reply, waiting = build_reply(answer), self._elicitations.find_waiting(token)
        async with self._elicitations.get_turn_lock(waiting.connection if waiting else self._shared_connection):
            ticket = self._elicitations.resume(token)
            if ticket is not None:
                if wrong := self._validate_reply(ticket.question or {}, reply):
                    return self._park(ticket, wrong)
                ticket.answer(reply)
                return await self._await_reply(ticket)
        if self._tool.repeatable:
            self._prepared[token.rpartition(":")[2]] = reply
            return await self.begin()
        return _build_unavailable(self._tool, "it was started anew while the answer was waited for", read=True)

    async def _continue_round(self, pending_round: InputRound, answer: Json) -> Value | Failure | Pending:
        given = cast(Json, answer.get("content") or {}).get(INPUT_RESPONSES)
        if isinstance(given, dict):
            return await self._handle_round(pending_round.with_responses(cast(Json, given)))
        reply = build_reply(answer)
        if wrong := self._validate_reply(pending_round.question, reply):
            return self._build_pending({**pending_round.question, "problem": wrong}, pending_round.token)
        self._prepared[hash_question(pending_round.question)] = reply
        return await self._handle_round(pending_round)

    async def _send_round(self, answered_round: InputRound) -> Value | Failure | Pending:
        ticket = PendingRequest(self._context.call_id, self._shared_connection, self._key)
        self._send(ticket, {**self._params, **answered_round.params})
        return await self._await_reply(ticket, answered_round.number)

    def _send(self, ticket: PendingRequest, params: Json) -> None:
        report = self._context.progress

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            report(progress, total, message or "")

        capabilities = self._server.extra_sessions.get_capabilities(self._context.mcp_client)
        asking = ticket.connection.ask(
            "tools/call",
            params,
            progress=report_progress,
            owner=ticket,
            preflight=self._check_call,
            capabilities=capabilities,
        )
        task = self._manager.spawn(asking)
        task.add_done_callback(lambda _: ticket.update_event.set())
        ticket.task = task

    def _check_call(self) -> ErrorReply | NoReply | None:
        """Before a caller's own session is open, what others get was offered: it may be another for this caller."""
        return self._server.check_call(self._tool, self._context.caller)

    async def _await_reply(self, ticket: PendingRequest, number: int = 0) -> Value | Failure | Pending:
        """Until the server has answered, or asked."""
        assert ticket.task is not None
        try:
            answer = await ticket.wait_for_outcome()
        except asyncio.CancelledError:
            if self._manager.now() >= self._context.deadline - DEADLINE_MARGIN_S:
                ticket.connection.report_timeout()
            ticket.task.cancel()
            await asyncio.wait([ticket.task])
            raise
        finally:
            self._elicitations.end(ticket)
        if answer is None:
            return self._park(ticket)
        self._elicitations.record_completion(ticket)
        return await self._handle_reply(answer, number)

    async def _handle_reply(self, answer: ServerReply, number: int) -> Value | Failure | Pending:
        if (error_text := find_push_error(answer)) and (failure := await self._repeat_in_old_era(error_text)):
            return failure
        match answer:
            case ResultReply(raw=raw):
                asked = parse_round(raw, number + 1)
                return self._check_output(raw) if asked is None else await self._handle_round(asked)
            case ErrorReply(data={"reason": "invalid_request_state"}) if self._tool.repeatable and number:
                return await self.begin()  # a server that was started anew does not remember that it asked
            case ErrorReply(code=code, message=message, data=data):
                return Failure(
                    problem=to_problem(message, _ERROR_TYPES.get(code, "execution_error"), _build_details(code, data))
                )
            case NoReply(why=why, read=read):
                return _build_unavailable(self._tool, why, read=read)

    async def _repeat_in_old_era(self, error_text: str) -> Value | Failure | Pending | None:
        """Remember that the tool asks by a request of its own, and call it again where that does no harm.

        Nobody knows what the tool did before it wanted to ask, so only one that may be repeated is called again.
        Return None if the server speaks no other era.
        """
        await self._server.remember_push(self._tool.remote)
        kind = await self._server.extra_sessions.choose(
            self._context.caller, self._context.mcp_client, self._tool.remote
        )
        if kind == SHARED:
            return None
        if self._tool.repeatable:
            return await self.begin()
        return Failure(problem=to_problem(f"{error_text[:MAX_ERROR_CHARS]} {ASK_AGAIN}", "execution_error"))

    def _check_output(self, raw: Json) -> Value | Failure:
        """A result that is not what its tool promised is told as that, with all that came: the tool has run."""
        came = parse_call_result(raw)
        promised = self._server.get_definition(self._tool.remote, self._context.caller).get("outputSchema")
        if isinstance(came, Failure) or not isinstance(promised, dict):
            return came
        lacks = "it has no structuredContent" if "structuredContent" not in raw else ""
        wrong = lacks or self._manager.validate(cast(Json, promised), raw["structuredContent"])
        return came if not wrong else build_schema_failure(came, wrong)

    async def _handle_round(self, asked: InputRound) -> Value | Failure | Pending:
        forbidden = asked.find_forbidden(self._server.extra_sessions.get_claims(self._context.mcp_client))
        if forbidden or asked.number > MAX_ROUNDS:
            said = f"the server asks for {forbidden or 'more and more'}, which it does not get here"
            return Failure(problem=Problem(error=said, error_type="execution_error"))
        while asked.pending is not None and (known := self._prepared.get(hash_question(asked.question))) is not None:
            asked = asked.with_reply(known)
        if asked.pending is None:
            if not asked.requests:
                await asyncio.sleep(PAUSE_S)  # it only wants to be asked again
            return await self._send_round(asked)
        if len(asked.token) > MAX_TOKEN_CHARS:
            said = "the server asks a question that is too long to be kept"
            return Failure(problem=Problem(error=said, error_type="too_large"))
        return self._build_pending(asked.question, asked.token)

    def _park(self, ticket: PendingRequest, mismatch: str = "") -> Pending:
        question = ticket.question or {}
        token = self._elicitations.park(ticket, self._tool.approval_s)
        return self._build_pending({**question, "problem": mismatch} if mismatch else question, token)

    def _build_pending(self, question: Json, token: str) -> Pending:
        return Pending(kind="question", question={"server": self._tool.server, **question}, resume_token=token)

    def _validate_reply(self, question: Json, reply: Json) -> str:
        """What is wrong with an answer, if it is one to a form."""
        schema = question.get("requestedSchema")
        if reply.get("action") != "accept" or not isinstance(schema, dict):
            return ""
        return self._manager.validate(cast(Json, schema), reply.get("content"))


def build_meta(context: Context) -> Json:
    """Under which trace this runs, what to tell a repeated request by, and for which division it is."""
    digits = hashlib.blake2b(context.correlation_id.encode(), digest_size=16).hexdigest()
    trace = context.correlation_id if _is_trace(context.correlation_id) else digits
    span = hashlib.blake2b(context.idempotency_key.encode(), digest_size=8).hexdigest()
    known: Json = {"traceparent": f"00-{trace}-{span}-01", "toolyard/idempotency-key": context.idempotency_key}
    division = context.caller.division
    return {**known, "toolyard/division": division} if division else known


def _is_trace(text: str) -> bool:
    return len(text) == 32 and not text.strip("0123456789abcdef") and bool(text.strip("0"))


def _build_details(code: int, data: object) -> Json:
    return limit_details({"code": code} if data is None else {"code": code, "data": data})


def _build_unavailable(tool: Tool, why: str, *, read: bool) -> Failure:
    """A call that was lost: whether it took effect is told as far as it is known."""
    if not read or tool.repeatable:
        said = f"the server {tool.server!r} is not available: {why}"
        return Failure(problem=Problem(error=said[:4000], error_type="unavailable"), retryable=True)
    said = (
        f"the server {tool.server!r} went away while this call was running ({why}); it may or may not have taken "
        "effect. Find out before asking for it again."
    )
    return Failure(problem=Problem(error=said[:4000], error_type="unknown_outcome"))
