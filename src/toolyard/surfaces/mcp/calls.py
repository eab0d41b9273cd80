"""`tools/call`: start a run with the call as its input, and stream it as MCP messages up to the call's result.

A call that waits for an approval or an answer asks the client in the way of its era. A legacy client (until
2025-11-25) gets a request on the stream and posts its answer separately. A modern client (2026-07-28) gets an
`input_required` result and sends the call again with the answers and the `requestState`. That state only names an entry
of the log, so nothing is kept in memory and nothing has to be signed: callers reach no calls but their own.
"""

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress

import msgspec
from msgspec import Struct

from toolyard.core.conversation.commands import Start, Stop
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    CallParked,
    CallProgressed,
    Entry,
    Published,
    RunQueued,
    RunRequest,
)
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import NotFound, RateLimited, Refused, ToolyardError
from toolyard.core.items import Call, Problem, Result, get_program_id
from toolyard.core.json_types import Json
from toolyard.core.tools.definition import Tool
from toolyard.engine.log.readers import Reader
from toolyard.engine.service import Service, StartedRun
from toolyard.surfaces.http.idempotency import admit_once
from toolyard.surfaces.mcp import render
from toolyard.surfaces.mcp.client import Peer
from toolyard.surfaces.mcp.elicitation import (
    Replies,
    WaitEvent,
    build_client_requests,
    build_command,
    build_undecided_problem,
    collect_replies,
    split_answerable,
)
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    Id,
    RpcError,
    RpcRequest,
    RpcResponse,
    build_notification,
    build_request,
    build_result,
    read_object,
    require_text,
)

HEARTBEAT_S = 15.0
MAX_UNDECIDED = 1024
MAX_ROUNDS = 10
"""How often a legacy client is asked about one call, so that one that repeats a wrong answer is not asked for ever."""


class RequestState(Struct, frozen=True, kw_only=True):
    """A modern client's `requestState`: the log entry at which its call waits.

    It may be longer than the 64 characters of an id: MCP defines it as opaque state of any length, which a client only
    sends back, and no API takes it as an id.
    """

    conversation: str
    call_id: str
    seq: int

    def __str__(self) -> str:
        return f"{self.conversation}/{self.call_id}/{self.seq}"


def parse_request_state(text: object) -> RequestState:
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) != 3 or not parts[2].isascii() or not parts[2].isdigit() or len(parts[2]) > 18:
        raise RpcError(INVALID_PARAMS, "this requestState was not given out here", {"field": "requestState"})
    return RequestState(conversation=parts[0], call_id=parts[1], seq=int(parts[2]))


class UndecidedCalls:
    """Calls whose client cannot be asked, by the hash of caller and call: the same call, sent again, resumes one.

    A call with an Idempotency-Key is not among them: it is found again by its key.

    This is bounded and lost with the process; the repeated call then starts a new run, which asks again.
    """

    def __init__(self) -> None:
        self._states: dict[bytes, RequestState] = {}

    def keep(self, key: bytes, request_state: RequestState) -> None:
        self._states[key] = request_state
        if len(self._states) > MAX_UNDECIDED:
            del self._states[next(iter(self._states))]

    def take(self, key: bytes) -> RequestState | None:
        return self._states.pop(key, None)


class ToolCallHandler:
    """Handles one `tools/call` request: starts or resumes a run, and renders its events as messages."""

    def __init__(self, service: Service, undecided: UndecidedCalls, request: RpcRequest, peer: Peer) -> None:
        self._service = service
        self._undecided = undecided
        self._request = request
        self._peer = peer
        self._name = require_text(request.params, "name")
        self._tool = _find_tool(service, peer, self._name)
        self._arguments = read_object(request.params, "arguments")
        self._progress_token = read_object(request.params, "_meta").get("progressToken")
        self._input_responses = read_object(request.params, "inputResponses")
        self._conversation = ""
        self._call = Call(id="", at=0.0, tool=self._name, arguments=self._arguments)
        self._open_questions: dict[Id, str] = {}
        """The ids of our requests that a legacy client has not answered yet, with the name of the question of each."""
        self._last_progress = -1.0
        self._cancelled = False
        self._rounds = Counter[str]()
        """How often the client was asked about its call, or about each call of its program, by their ids."""
        self.replayed = False
        """Whether an earlier request with the same Idempotency-Key has made the call."""

    async def cancel(self) -> None:
        """Stop the run of the call: the client has cancelled it or has disconnected."""
        self._cancelled = True
        with suppress(ToolyardError):  # the run may have ended already, or not have begun yet
            await self._service.conversations.submit(self._conversation, Stop(by=self._peer.caller))

    async def stream_messages(self) -> AsyncGenerator[Json | None, None]:
        """Yield the messages for the client, the response last; None for a heartbeat where nothing happens."""
        after = await self._resume()
        start = self._build_start() if after is None else None
        self._add_open_call()
        try:
            try:
                reader = await self._follow(start, after)
            except RateLimited as error:
                # A result and not an HTTP or JSON-RPC error, because only a result reaches the client's model, which
                # can wait and call again.
                problem = Problem(error=str(error), error_type="rate_limited")
                yield build_result(self._request.id, self._add_metadata(render.encode_failure(problem)))
                return
            try:
                async for message in self._stream_run(reader):
                    yield message
            finally:
                reader.detach()
        finally:
            self._release()

    async def _follow(self, start: Start | None, after: Cursor | None) -> Reader:
        """Start the run, or go on with one that was started before, and return a reader of it. Raise RateLimited."""
        if start is None:
            return await self._service.conversations.follow(self._conversation, after)
        async with admit_once(self._service, self._peer.caller, start.request):
            started = await self._service.runs.start(self._conversation, start, is_new=True)
        if started.repeated:
            await self._join(started)
        return started.reader

    async def _stream_run(self, reader: Reader) -> AsyncGenerator[Json | None, None]:
        if self._cancelled:  # before there was a run to stop
            await self.cancel()
        while True:
            batch = await reader.read_batch(HEARTBEAT_S)
            if not batch:
                yield None
            for item, _ in batch:
                for message in await self._render_item(item):
                    yield message
                    if message.get("id") == self._request.id and "result" in message:
                        return

    async def _join(self, started: StartedRun) -> None:
        """Go on with the call of an earlier request that had the same Idempotency-Key."""
        entry = await self._service.conversations.read_entry(started.conversation, started.reader.cursor.seq + 1)
        assert entry is not None and isinstance(entry.event, RunQueued) and isinstance(entry.event.input[0], Call)
        self._discard_open_call()
        self._conversation, self._call, self.replayed = started.conversation, entry.event.input[0], True
        self._add_open_call()

    def _add_open_call(self) -> None:
        if self._peer.client_state is not None:
            self._peer.client_state.open_calls.add(self._call.id)

    def _discard_open_call(self) -> None:
        if self._peer.client_state is not None:
            self._peer.client_state.open_calls.discard(self._call.id)

    def _release(self) -> None:
        self._discard_open_call()
        if self._peer.client_state is not None:
            for id in self._open_questions:
                self._peer.client_state.questions.drop(id)

    def _build_start(self) -> Start:
        service, clock = self._service, self._service.clock
        self._conversation = clock.new_id("conversation")
        self._call = Call(id=clock.new_id("call"), at=clock.now(), tool=self._name, arguments=self._arguments)
        return service.runs.build_start(
            self._peer.caller,
            (self._call,),
            RunRequest(mcp_client=self._peer.client),
            correlation_id=self._peer.correlation_id,
            settings=Settings(title=f"MCP: {self._name}", unlisted=True),
            request=self._peer.request_key,
        )

    async def _resume(self) -> Cursor | None:
        """Return the cursor to continue from if the call was started earlier, else None.

        Raise RpcError if the `requestState` belongs to another call.
        """
        if "requestState" in self._request.params:
            request_state = parse_request_state(self._request.params["requestState"])
            wait = await self._find_wait(request_state)
            if wait is None:
                raise RpcError(INVALID_PARAMS, "this requestState is of another call", {"field": "requestState"})
            return await self._submit_replies(wait, request_state)
        if self._peer.request_key is not None:
            return None  # the key alone decides which call this is
        request_state = self._undecided.take(self._hash_call())
        if request_state is None or await self._find_wait(request_state) is None:
            return None
        # One before the wait: the reader yields it again. It is then asked again, or skipped if it was decided since.
        return Cursor(request_state.seq - 1)

    async def _find_wait(self, request_state: RequestState) -> WaitEvent | None:
        """Return the event at which the call waits, or None if the state is not of this caller and this very call.

        The state is not signed, so everything in it is checked against the log: owner, tool, arguments and event.
        """
        try:
            await self._service.conversations.require(request_state.conversation, self._peer.caller)
        except NotFound:
            return None
        state = await self._service.conversations.view(request_state.conversation)
        call = _find_call(state, get_program_id(request_state.call_id) or request_state.call_id)
        entry = await self._service.conversations.read_entry(request_state.conversation, request_state.seq)
        wait = entry.event if entry else None
        if call is None or (call.tool, call.arguments) != (self._name, self._arguments):
            return None
        if not isinstance(wait, CallJudged | CallParked) or wait.call_id != request_state.call_id:
            return None
        self._conversation, self._call = request_state.conversation, call
        return wait

    async def _submit_replies(self, wait: WaitEvent, request_state: RequestState) -> Cursor:
        """Submit the client's answers and return the cursor after the question.

        If answers are missing, submit nothing and return the cursor before the question, so that it is asked again.
        """
        current = (await self._service.conversations.view(self._conversation)).calls.get(wait.call_id)
        if current is None:
            return Cursor(request_state.seq)  # it was decided since, and has ended
        requests = build_client_requests(wait, current.call, current.line)
        answerable, replaced, _ = split_answerable(requests, self._peer)
        replies = collect_replies(answerable, self._input_responses)
        if replies is None or _needs_others(wait):
            return Cursor(request_state.seq - 1)
        # Each answer counts once: a later question of the same call must not be answered by these.
        self._input_responses, replies = {}, {**replies, **replaced}
        await self._submit_decision(wait, current.call, replies)
        return Cursor(request_state.seq)

    def _hash_call(self) -> bytes:
        identity = (self._peer.caller.tenant, self._peer.caller.user, self._name, self._arguments)
        return hashlib.blake2b(msgspec.json.encode(identity, order="deterministic"), digest_size=16).digest()

    async def _render_item(self, item: Published) -> list[Json]:
        match item:
            case CallProgressed(call_id=self._call.id):
                return list(self._render_progress(item))
            case Entry(event=CallJudged(verdict="ask") | CallParked() as wait) if self._is_own(wait.call_id):
                return await self._handle_wait(wait, item.seq)
            case Entry(event=CallEnded(result=result)) if result.call_id == self._call.id:
                cancellations = list(self._render_cancellations())
                return [*cancellations, build_result(self._request.id, await self._render_result(result))]
            case _:
                return []

    def _is_own(self, call_id: str) -> bool:
        """Return whether this is the client's call, or one that its program makes."""
        return self._call.id in (call_id, get_program_id(call_id))

    def _render_progress(self, event: CallProgressed) -> Iterator[Json]:
        """Yield a progress notification if the client asked for them and the value has grown, as MCP requires."""
        if self._progress_token is None or event.progress <= self._last_progress:
            return
        self._last_progress = event.progress
        params: Json = {"progressToken": self._progress_token, "progress": event.progress}
        if event.total is not None:
            params["total"] = event.total
        if event.message:
            params["message"] = event.message
        yield build_notification("notifications/progress", params)

    async def _handle_wait(self, wait: WaitEvent, seq: int) -> list[Json]:
        """Ask the client what the call waits for; if it cannot be asked, answer with who can decide, and where."""
        # The reader may be behind: another client may have decided since this entry was written.
        current = (await self._service.conversations.view(self._conversation)).calls.get(wait.call_id)
        if current is None or current.phase not in ("asking", "parked"):
            return []
        call = current.call
        request_state = RequestState(conversation=self._conversation, call_id=call.id, seq=seq)
        questions = build_client_requests(wait, call, current.line)
        requests, replaced, lacking = split_answerable(questions, self._peer)
        if lacking or self._rounds[call.id] >= MAX_ROUNDS or _needs_others(wait):
            return [await self._report_undecided(wait, call, request_state, lacking)]
        if (
            isinstance(wait, CallParked)
            and self._input_responses
            and (replies := collect_replies(requests, self._input_responses))
        ):
            self._input_responses = {}  # the client sent the answers together with the call
            await self._submit_decision(wait, call, {**replies, **replaced})
            return []
        if self._peer.modern:
            result: Json = {
                "resultType": "input_required",
                "inputRequests": requests,
                "requestState": str(request_state),
            }
            return [build_result(self._request.id, result)]
        return self._ask_client(wait, call, requests, replaced)

    async def _submit_decision(self, wait: WaitEvent, call: Call, replies: Replies) -> None:
        command = build_command(wait, call, replies, self._peer.caller)
        # Refused: somebody else has decided, or this very request had done so before its response got lost.
        with suppress(Refused):
            await self._service.conversations.submit(self._conversation, command)

    async def _report_undecided(self, wait: WaitEvent, call: Call, request_state: RequestState, lacking: Json) -> Json:
        """Return the response for a client that cannot be asked: a person can decide the call over HTTP.

        Raise RpcError if the tool asks a question of a modern client, whose protocol has an error for this case.
        """
        if isinstance(wait, CallParked) and self._peer.modern:
            await self.cancel()
            message = f"{call.tool} asks a question, and this client has not declared that it can be asked"
            raise RpcError(MISSING_CAPABILITY, message, {"requiredCapabilities": lacking})
        if self._peer.request_key is None:
            self._undecided.keep(self._hash_call(), request_state)
        problem = build_undecided_problem(wait, call, self._conversation, self._name)
        return build_result(self._request.id, self._add_metadata(render.encode_failure(problem)))

    def _ask_client(self, wait: WaitEvent, call: Call, requests: dict[str, Json], replaced: Replies) -> list[Json]:
        """Return the questions as requests to a legacy client; the last answer to them lets the call continue."""
        replies: Replies = {}
        assert self._peer.client_state is not None
        self._rounds[call.id] += 1

        async def receive(reply: RpcResponse) -> None:
            replies[self._open_questions.pop(reply.id)] = reply.result
            if len(replies) == len(requests):
                await self._submit_decision(wait, call, {**replies, **replaced})

        messages: list[Json] = []
        for name, request in requests.items():
            id = self._peer.client_state.questions.add(receive)
            self._open_questions[id] = name
            messages.append(build_request(id, str(request["method"]), read_object(request, "params")))
        return messages

    def _render_cancellations(self) -> Iterator[Json]:
        """Yield cancellations of the questions that are still open, because somebody else has decided."""
        for id in self._open_questions:
            yield build_notification("notifications/cancelled", {"requestId": id, "reason": "the call has ended"})

    async def _render_result(self, result: Result) -> Json:
        """Return the result for the client: a server's own, else the full content. Raise a server's RpcError."""
        if result.native:
            native = await self._service.conversations.read_blob(self._conversation, result.native)
            return self._add_metadata(render.encode_result(result, None, native))
        if self._tool.venue == "mcp" and (rpc_error := render.extract_rpc_error(result)):
            raise rpc_error
        full_content = (
            await self._service.conversations.read_blob(self._conversation, result.handle) if result.handle else None
        )
        return self._add_metadata(render.encode_result(result, full_content, None))

    def _add_metadata(self, result: Json) -> Json:
        return render.add_metadata(result, modern=self._peer.modern)


def _needs_others(wait: WaitEvent) -> bool:
    """Return whether the client's user cannot decide alone, so that asking the client is of no use."""
    return isinstance(wait, CallJudged) and wait.terms is not None


def _find_tool(service: Service, peer: Peer, name: str) -> Tool:
    """Return the tool of this name. Raise RpcError if there is none that the caller may use."""
    tool = service.tools.find_usable(name, peer.caller)
    if tool is None:
        raise RpcError(INVALID_PARAMS, service.tools.describe_missing(name, peer.caller).error)
    return tool


def _find_call(state: State, call_id: str) -> Call | None:
    """Return the call as it was requested, open or closed; None if there is no such call."""
    return next((item for item in state.full_history if isinstance(item, Call) and item.id == call_id), None)
