"""`tools/call`: a run that begins with the call and ends with its result, told in messages of MCP.

What the call waits for is asked of the client in its own era: a legacy client gets a request on the stream and answers
it elsewhere; a modern one gets an `input_required` result and comes again with the answers. Its place is then found in
the log, so that nothing has to be kept here, nor signed: a caller reaches no calls but its own.
"""

import hashlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress

import msgspec
from msgspec import Struct

from toolyard.core.commands import Start, Stop
from toolyard.core.conversation_settings import Settings
from toolyard.core.cursor import Cursor
from toolyard.core.errors import NotFound, RateLimited, Refused, ToolyardError
from toolyard.core.events import CallEnded, CallJudged, CallParked, CallProgressed, Entry
from toolyard.core.items import Call, Problem, Result
from toolyard.core.state import State
from toolyard.core.tools import Tool
from toolyard.engine.readers import Published
from toolyard.engine.service import Service
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
    Json,
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
"""How often a legacy client is asked in one call: one that always gives the same wrong answer is asked no more."""


class RequestState(Struct, frozen=True, kw_only=True):
    """Where a client left a call that asked something: the entry with the question."""

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
    """Calls that wait for somebody whom their client cannot ask: the same call, made again, finds its way back to one.

    A courtesy, bounded, and gone with the process: then the call is made anew, and asks anew.
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
        """Requests of ours that a legacy client has not answered: their ids, and what each was about."""
        self._last_progress = -1.0
        self._cancelled = False
        self._rounds = 0

    async def cancel(self) -> None:
        """The client does not want it any more."""
        self._cancelled = True
        with suppress(ToolyardError):  # it may have ended meanwhile, or not begun yet
            await self._service.submit(self._conversation, Stop(by=self._peer.caller))

    async def stream_messages(self) -> AsyncGenerator[Json | None, None]:
        """What the client is told, the response last; None now and then where nothing happens."""
        after = await self._resume()
        start = self._build_start() if after is None else None
        if start is not None and (refusal := await self._check_rate_limit()):
            yield build_result(self._request.id, refusal)
            return
        reader = await self._service.follow(self._conversation, after)
        if self._peer.client_state is not None:
            self._peer.client_state.open_calls.add(self._call.id)
        try:
            if start is not None:
                await self._service.submit(self._conversation, start)
            if self._cancelled:
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
        finally:
            reader.detach()
            self._release()

    def _release(self) -> None:
        if (standing := self._peer.client_state) is not None:
            standing.open_calls.discard(self._call.id)
            for id in self._open_questions:
                standing.questions.drop(id)

    def _build_start(self) -> Start:
        service, clock = self._service, self._service.clock
        self._conversation = clock.new_id("conversation")
        self._call = Call(id=clock.new_id("call"), at=clock.now(), tool=self._name, arguments=self._arguments)
        return service.build_start(
            self._peer.caller,
            (self._call,),
            correlation_id=self._peer.correlation_id,
            settings=Settings(title=f"MCP: {self._name}", unlisted=True),
            mcp_client=self._peer.client,
        )

    async def _check_rate_limit(self) -> Json | None:
        """A client's model can wait and try again if it is told so in words; a transport's error it never sees."""
        try:
            await self._service.admit(self._peer.caller)
        except RateLimited as error:
            return self._add_metadata(render.encode_failure(Problem(error=str(error), error_type="rate_limited")))
        return None

    async def _resume(self) -> Cursor | None:
        """The place to go on from, if the call was begun earlier. Raises RpcError for the place of another call."""
        if "requestState" in self._request.params:
            place = parse_request_state(self._request.params["requestState"])
            wait = await self._find_wait(place)
            if wait is None:
                raise RpcError(INVALID_PARAMS, "this requestState is of another call", {"field": "requestState"})
            return await self._submit_replies(wait, place)
        place = self._undecided.take(self._hash_call())
        if place is None or await self._find_wait(place) is None:
            return None
        return Cursor(place.seq - 1)

    async def _find_wait(self, request_state: RequestState) -> WaitEvent | None:
        """What the call waited for at that place, if this is the call and it is this caller's."""
        try:
            await self._service.require_conversation(request_state.conversation, self._peer.caller)
        except NotFound:
            return None
        call = _find_call(await self._service.state(request_state.conversation), request_state.call_id)
        entries = await self._service.read_entries(
            request_state.conversation, after=request_state.seq - 1, until=request_state.seq
        )
        wait = entries[0].event if entries else None
        if call is None or (call.tool, call.arguments) != (self._name, self._arguments):
            return None
        if not isinstance(wait, CallJudged | CallParked) or wait.call_id != call.id:
            return None
        self._conversation, self._call = request_state.conversation, call
        return wait

    async def _submit_replies(self, wait: WaitEvent, request_state: RequestState) -> Cursor:
        """Hand in the answers; if some are missing, the place before the question, so that it is asked once more."""
        can, replaced, _ = split_answerable(build_client_requests(wait, self._call), self._peer)
        replies = collect_replies(can, self._input_responses)
        if replies is None:
            return Cursor(request_state.seq - 1)
        self._input_responses, replies = {}, {**replies, **replaced}
        await self._submit_decision(wait, replies)
        return Cursor(request_state.seq)

    def _hash_call(self) -> bytes:
        who = (self._peer.caller.tenant, self._peer.caller.user, self._name, self._arguments)
        return hashlib.blake2b(msgspec.json.encode(who, order="deterministic"), digest_size=16).digest()

    async def _render_item(self, item: Published) -> list[Json]:
        match item:
            case CallProgressed(call_id=self._call.id):
                return list(self._render_progress(item))
            case Entry(event=CallJudged(verdict="ask", call_id=self._call.id) as wait):
                return await self._handle_wait(wait, item.seq)
            case Entry(event=CallParked(call_id=self._call.id) as wait):
                return await self._handle_wait(wait, item.seq)
            case Entry(event=CallEnded(result=ended)) if ended.call_id == self._call.id:
                return [*self._render_cancellations(), build_result(self._request.id, await self._render_result(ended))]
            case _:
                return []

    def _render_progress(self, event: CallProgressed) -> Iterator[Json]:
        """Only what goes on is progress, says the protocol."""
        if self._progress_token is None or event.progress <= self._last_progress:
            return
        self._last_progress = event.progress
        told: Json = {"progressToken": self._progress_token, "progress": event.progress}
        if event.total is not None:
            told["total"] = event.total
        if event.message:
            told["message"] = event.message
        yield build_notification("notifications/progress", told)

    async def _handle_wait(self, wait: WaitEvent, seq: int) -> list[Json]:
        """Ask the client, if it can be asked; else say who can decide. What was decided since is not asked."""
        current = (await self._service.state(self._conversation)).calls.get(self._call.id)
        if current is None or current.phase not in ("asking", "parked"):
            return []
        place = RequestState(conversation=self._conversation, call_id=self._call.id, seq=seq)
        asked, replaced, lacking = split_answerable(build_client_requests(wait, self._call), self._peer)
        if lacking or self._rounds >= MAX_ROUNDS:
            return [await self._report_undecided(wait, place, lacking)]
        if (
            isinstance(wait, CallParked)
            and self._input_responses
            and (replies := collect_replies(asked, self._input_responses))
        ):
            self._input_responses = {}  # the answer came along with the call
            await self._submit_decision(wait, {**replies, **replaced})
            return []
        if self._peer.modern:
            told: Json = {"resultType": "input_required", "inputRequests": asked, "requestState": str(place)}
            return [build_result(self._request.id, told)]
        return self._ask_client(wait, asked, replaced)

    async def _submit_decision(self, wait: WaitEvent, replies: Replies) -> None:
        command = build_command(wait, self._call, replies, self._peer.caller)
        with suppress(Refused):  # it was decided elsewhere, or already: by this very request, whose answer got lost
            await self._service.submit(self._conversation, command)

    async def _report_undecided(self, wait: WaitEvent, request_state: RequestState, lacking: Json) -> Json:
        """An approval can be given elsewhere; a question of the tool's own needs a client that can be asked."""
        if isinstance(wait, CallParked) and self._peer.modern:
            await self.cancel()
            said = f"{self._name} asks a question, and this client has not declared that it can be asked"
            raise RpcError(MISSING_CAPABILITY, said, {"requiredCapabilities": lacking})
        self._undecided.keep(self._hash_call(), request_state)
        problem = build_undecided_problem(wait, self._call, self._conversation)
        return build_result(self._request.id, self._add_metadata(render.encode_failure(problem)))

    def _ask_client(self, wait: WaitEvent, requests: dict[str, Json], replaced: Replies) -> list[Json]:
        """The same as requests to a legacy client; once all are answered, the call goes on."""
        replies: Replies = {}
        assert self._peer.client_state is not None
        self._rounds += 1

        async def receive(reply: RpcResponse) -> None:
            replies[self._open_questions.pop(reply.id)] = reply.result
            if len(replies) == len(requests):
                await self._submit_decision(wait, {**replies, **replaced})

        told: list[Json] = []
        for name, one in requests.items():
            id = self._peer.client_state.questions.add(receive)
            self._open_questions[id] = name
            told.append(build_request(id, str(one["method"]), read_object(one, "params")))
        return told

    def _render_cancellations(self) -> Iterator[Json]:
        """What was decided elsewhere need not be asked any more."""
        for id in self._open_questions:
            yield build_notification("notifications/cancelled", {"requestId": id, "reason": "the call has ended"})

    async def _render_result(self, ended: Result) -> Json:
        if ended.native:
            native = await self._service.read_blob(self._conversation, ended.native)
            return self._add_metadata(render.encode_result(ended, None, native))
        if self._tool.venue == "mcp" and (declined := render.extract_rpc_error(ended)):
            raise declined
        whole = await self._service.read_blob(self._conversation, ended.handle) if ended.handle else None
        return self._add_metadata(render.encode_result(ended, whole, None))

    def _add_metadata(self, result: Json) -> Json:
        return render.add_metadata(result, modern=self._peer.modern)


def _find_tool(service: Service, peer: Peer, name: str) -> Tool:
    """Raises RpcError for a tool that is not there, as far as this caller may know."""
    found = next((tool for tool in service.list_tools(peer.caller, include_native=False) if tool.name == name), None)
    if found is None:
        raise RpcError(INVALID_PARAMS, f"there is no tool named {name[:64]!r}; tools/list tells which are")
    return found


def _find_call(state: State, call_id: str) -> Call | None:
    """The call as it was asked for, open or closed."""
    return next((item for item in state.full_history if isinstance(item, Call) and item.id == call_id), None)
