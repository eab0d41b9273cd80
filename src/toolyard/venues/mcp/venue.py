"""Runs calls on the MCP servers that have the tools. `sessions` connects to a server.

When a server asks the user something, its call is parked with the question; the answer resumes the call.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import CallEnded, Entry
from toolyard.core.errors import NotFound, Refused
from toolyard.core.failed_results import to_problem
from toolyard.core.items import Call, Problem
from toolyard.core.json_types import Json, is_object
from toolyard.core.ports import CallerTools, Context, Failure, Pending, ToolHooks, Value
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import INPUT_RESPONSES, select_visible_error
from toolyard.venues.mcp.calls.content import build_schema_failure, limit_details, parse_call_result
from toolyard.venues.mcp.calls.elicitation import Elicitations, PendingRequest, build_reply, hash_question
from toolyard.venues.mcp.calls.multi_round import MAX_TOKEN_CHARS, InputRound, decode_token, parse_round
from toolyard.venues.mcp.manager import McpManager
from toolyard.venues.mcp.outcomes import FORBIDDEN, SHARED, ErrorReply, McpConnection, NoReply, ResultReply, ServerReply

MAX_ROUNDS = 10
PAUSE_S = 0.1
DEADLINE_MARGIN_S = 0.05
"""A call that is cancelled this close to its deadline counts as timed out; an earlier cancellation has other causes."""
_ERROR_TYPES = {-32602: "validation_error", -32601: "not_found", -32001: "timeout", FORBIDDEN: "permission_denied"}


MAX_ASKING_SESSIONS = 8
"""Sessions of one kind and caller. On all but the last a call waits for the answer to its server's question."""
MAX_TURN_SHARE = 0.1
"""The part of its time that a call waits at most for other calls of its session that may ask."""
MAX_ERROR_CHARS = 2000
ASK_AGAIN = (
    "(The tool asks its user in a way that only the older protocol revision has. It may have done something before it "
    "wanted to ask: find out. From now on it is called in the older revision, where it can ask.)"
)
_CANNOT_ASK = re.compile(r"no back-channel|server-initiated requests are not available", re.IGNORECASE)
"""The error texts of the official SDKs of Python and of Ruby. An error with another text is treated like any other."""


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

    @property
    def is_starting(self) -> bool:
        return self._manager.is_starting

    def starts_until(self, caller: Caller, tool: Tool | None, max_s: float) -> float:
        return self._manager.starts_until(caller, tool, max_s)

    def explain_absence(self, name: str, caller: Caller) -> Problem | None:
        return self._manager.explain_absence(name, caller)

    def list_outages(self, caller: Caller) -> Sequence[str]:
        return self._manager.list_outages(caller)

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Pending:
        try:
            runner = _CallRunner(self._manager, self._elicitations, call, tool, context)
        except (NotFound, Refused) as error:
            return Failure(problem=to_problem(error, "unavailable"))
        if context.answer is None:
            return await runner.begin()
        return await runner.resume(context.resume_token, context.answer)

    def forget_call(self, _: Entry, event: CallEnded) -> None:
        """Drop a call parked here that has ended elsewhere: it was stopped, or nobody answered in time."""
        self._elicitations.drop_call(event.result.call_id)

    async def close(self) -> None:
        await self._manager.close()


class _CallRunner:
    """Runs one call, through every question that its server asks before it answers."""

    def __init__(
        self, manager: McpManager, elicitations: Elicitations, call: Call, tool: Tool, context: Context
    ) -> None:
        """Raise NotFound or Refused if the server does not exist for this caller or is stopped."""
        self._manager = manager
        self._elicitations = elicitations
        self._shared_connection = manager.get_connection(tool.server, context.caller)
        self._server = manager.get_server(tool.server)
        self._tool = tool
        self._key = (tool.server, tool.remote)
        self._context = context
        self._prepared: dict[str, Json] = {}
        """Answers by the hash of their question: a server that was restarted meanwhile asks the same again."""
        self._params: Json = {"name": tool.remote, "arguments": call.arguments, "_meta": build_meta(context)}

    async def begin(self) -> Value | Failure | Pending:
        try:
            async with self._acquire_session() as connection:
                ticket = PendingRequest(self._context.call_id, connection, self._key, prepared=self._prepared)
                self._elicitations.begin(ticket)
                self._send(ticket, self._params)
                return await self._await_reply(ticket)
        except Refused as error:
            return Failure(problem=to_problem(error, "unavailable"))

    @asynccontextmanager
    async def _acquire_session(self) -> AsyncGenerator[McpConnection]:
        """Yield a session for this call. Raise Refused if there are too many.

        While a question of another call is open, a call that may ask gets another session. A tool that is known not
        to ask keeps the first one, because a server may hold state per session.
        """
        caller, extra_sessions, elicitations = self._context.caller, self._server.extra_sessions, self._elicitations
        kind = await extra_sessions.choose(caller, self._context.mcp_client, self._tool.remote)
        if await extra_sessions.get(caller, kind).get_era() == "modern":  # where no question interrupts a call
            yield extra_sessions.get(caller, kind)
            return
        for number in range(MAX_ASKING_SESSIONS):
            connection = extra_sessions.get(caller, replace(kind, number=number))
            async with elicitations.take_turn(connection, self._key, self._max_turn_wait_s):
                # Checked in turn: the call before may have left a question open.
                if elicitations.is_quiet(self._key) or not elicitations.has_open_question(connection):
                    yield connection
                    return
        raise Refused(
            f"{MAX_ASKING_SESSIONS} calls of the server {self._tool.server!r} wait for their users' answers; "
            "try again once one of them is answered"
        )

    @property
    def _max_turn_wait_s(self) -> float:
        return max(0.0, self._context.deadline - self._manager.now()) * MAX_TURN_SHARE

    async def resume(self, token: str, answer: Json) -> Value | Failure | Pending:
        # New era: the token holds all that is needed to send the call again. Old era: the request is still open in
        # this process, unless it was restarted; then only a repeatable call is sent again, with the answer prepared.
        if (pending_round := decode_token(token)) is not None:
            return await self._continue_round(pending_round, answer)
        reply, waiting = build_reply(answer), self._elicitations.find_waiting(token)
        connection = waiting.connection if waiting else self._shared_connection
        async with self._elicitations.take_turn(connection, self._key, self._max_turn_wait_s):
            ticket = self._elicitations.resume(token)
            if ticket is not None:
                if mismatch := self._validate_reply(ticket.question or {}, reply):
                    return self._park(ticket, mismatch)
                ticket.answer(reply)
                return await self._await_reply(ticket)
        if self._tool.repeatable:
            self._prepared[token.rpartition(":")[2]] = reply
            return await self.begin()
        return self._build_unavailable("it was restarted while the call waited for an answer", read=True)

    async def _continue_round(self, pending_round: InputRound, answer: Json) -> Value | Failure | Pending:
        responses = cast(Json, answer.get("content") or {}).get(INPUT_RESPONSES)
        if is_object(responses):
            return await self._handle_round(pending_round.with_responses(responses))
        reply = build_reply(answer)
        if mismatch := self._validate_reply(pending_round.question, reply):
            return self._build_pending({**pending_round.question, "problem": mismatch}, pending_round.token)
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
        request = ticket.connection.ask(
            "tools/call",
            params,
            progress=report_progress,
            owner=ticket,
            preflight=self._check_call,
            capabilities=capabilities,
        )
        # A task of the manager, not of this call: the request stays open while the call is parked with a question.
        task = self._manager.spawn(request)
        task.add_done_callback(lambda _: ticket.update_event.set())
        ticket.task = task

    def _check_call(self) -> ErrorReply | NoReply | None:
        """Check the call against this caller's listing, once the session is open; see `ManagedServer.check_call`."""
        return self._server.check_call(self._context.listed or self._tool, self._context.caller)

    async def _await_reply(self, ticket: PendingRequest, number: int = 0) -> Value | Failure | Pending:
        """Wait until the server has answered, or asked a question."""
        assert ticket.task is not None
        try:
            answer = await ticket.wait_for_outcome()
        except asyncio.CancelledError:
            # A deadline and a user's stop both arrive as a cancellation; only the first speaks against the server.
            if self._manager.now() >= self._context.deadline - DEADLINE_MARGIN_S:
                ticket.connection.report_timeout()
            ticket.task.cancel()
            await asyncio.wait([ticket.task])  # cancelling makes the SDK notify the server: wait until that is sent
            raise
        finally:
            self._elicitations.end(ticket)
        if answer is None:
            return self._park(ticket)
        self._elicitations.record_completion(ticket)
        return await self._handle_reply(answer, number)

    async def _handle_reply(self, answer: ServerReply, number: int) -> Value | Failure | Pending:
        if (error_text := _find_push_error(answer)) and (failure := await self._repeat_in_old_era(error_text)):
            return failure
        match answer:
            case ResultReply(raw=raw):
                next_round = parse_round(raw, number + 1)
                return self._check_output(raw) if next_round is None else await self._handle_round(next_round)
            case ErrorReply(data={"reason": "invalid_request_state"}) if self._tool.repeatable and number:
                return await self.begin()  # a server that was restarted does not remember that it asked
            case ErrorReply(code=code, message=message, data=data):
                return Failure(
                    problem=to_problem(message, _ERROR_TYPES.get(code, "execution_error"), _build_details(code, data))
                )
            case NoReply(why=why, read=read):
                return self._build_unavailable(why, read=read)

    async def _repeat_in_old_era(self, error_text: str) -> Value | Failure | Pending | None:
        """Record that the tool asks by a request of its own, and call it again in the old era if it is repeatable.

        The tool may have taken effect before it wanted to ask, so a call that is not repeatable fails with advice for
        the model. Return None if the server speaks no other era.
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
        """Check a result against the tool's `outputSchema`. A mismatch keeps the whole result: the tool has run."""
        outcome = parse_call_result(raw)
        schema = self._server.get_definition(self._tool.remote, self._context.caller).get("outputSchema")
        if isinstance(outcome, Failure) or not is_object(schema):
            return outcome
        missing = "it has no structuredContent" if "structuredContent" not in raw else ""
        mismatch = missing or self._manager.validate(schema, raw["structuredContent"])
        return outcome if not mismatch else build_schema_failure(outcome, mismatch)

    async def _handle_round(self, asked: InputRound) -> Value | Failure | Pending:
        forbidden = asked.find_forbidden(self._server.extra_sessions.get_claims(self._context.mcp_client))
        if forbidden or asked.number > MAX_ROUNDS:
            error_text = f"the server asks for {forbidden or 'more and more'}, which it does not get here"
            return Failure(problem=Problem(error=error_text, error_type="execution_error"))
        while asked.pending is not None and (reply := self._prepared.get(hash_question(asked.question))) is not None:
            asked = asked.with_reply(reply)
        if asked.pending is None:
            if not asked.requests:
                await asyncio.sleep(PAUSE_S)  # a round without questions: the server wants the call to be sent again
            return await self._send_round(asked)
        if len(asked.token) > MAX_TOKEN_CHARS:
            error_text = "the server asks a question that is too long to be kept"
            return Failure(problem=Problem(error=error_text, error_type="too_large"))
        return self._build_pending(asked.question, asked.token)

    def _park(self, ticket: PendingRequest, mismatch: str = "") -> Pending:
        question = ticket.question or {}
        token = self._elicitations.park(ticket, self._tool.approval_s)
        question = {**question, "problem": mismatch} if mismatch else question
        return self._build_pending(question, token, bound=True)

    def _build_pending(self, question: Json, token: str, *, bound: bool = False) -> Pending:
        # Last, so that no server can ask in the name of another.
        question = {**question, "server": self._tool.server}
        return Pending(kind="question", question=question, resume_token=token, bound=bound)

    def _build_unavailable(self, why: str, *, read: bool) -> Failure:
        """Return the failure of a lost call: retryable if the server did not read it or the tool may be repeated."""
        tool, why = self._tool, select_visible_error(why, self._context.caller)
        if not read or tool.repeatable:
            error_text = f"the server {tool.server!r} is not available: {why}"
            return Failure(problem=Problem(error=error_text[:4000], error_type="unavailable"), retryable=True)
        error_text = (
            f"the server {tool.server!r} went away while this call was running ({why}); it may or may not have taken "
            "effect. Find out before asking for it again."
        )
        return Failure(problem=Problem(error=error_text[:4000], error_type="unknown_outcome"))

    def _validate_reply(self, question: Json, reply: Json) -> str:
        """Return how an accepted form differs from its schema; empty if it fits, or if it is not an accepted form."""
        schema = question.get("requestedSchema")
        if reply.get("action") != "accept" or not is_object(schema):
            return ""
        return self._manager.validate(schema, reply.get("content"))


def build_meta(context: Context) -> Json:
    """Return the `_meta` of a call: its trace, a key by which a server detects a repetition, and the division."""
    digits = hashlib.blake2b(context.correlation_id.encode(), digest_size=16).hexdigest()
    trace = context.correlation_id if _is_trace(context.correlation_id) else digits
    span = hashlib.blake2b(context.idempotency_key.encode(), digest_size=8).hexdigest()
    meta: Json = {"traceparent": f"00-{trace}-{span}-01", "toolyard/idempotency-key": context.idempotency_key}
    division = context.caller.division
    return {**meta, "toolyard/division": division} if division else meta


def _is_trace(text: str) -> bool:
    return len(text) == 32 and not text.strip("0123456789abcdef") and bool(text.strip("0"))


def _build_details(code: int, data: object) -> Json:
    return limit_details({"code": code} if data is None else {"code": code, "data": data})


def _find_push_error(answer: ServerReply) -> str:
    """Return the error text of a call that failed because its tool cannot ask in the new era; empty for any other."""
    match answer:
        case ErrorReply(message=message, modern=True):
            text = message
        case ResultReply(raw={"isError": True} as raw, modern=True):
            outcome = parse_call_result(raw)
            text = outcome.problem.error if isinstance(outcome, Failure) else ""
        case _:
            return ""
    return text if _CANNOT_ASK.search(text) else ""
