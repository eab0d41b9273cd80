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
    Wait,
    answerable,
    answered,
    command_of,
    requests_of,
    where_to_decide,
)
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    Id,
    Json,
    Reply,
    Request,
    RpcError,
    notification,
    object_of,
    request,
    result,
    text_of,
)

HEARTBEAT_S = 15.0
MOST_UNDECIDED = 1024
MOST_ROUNDS = 10
"""How often a legacy client is asked in one call: one that always gives the same wrong answer is asked no more."""


class Place(Struct, frozen=True, kw_only=True):
    """Where a client left a call that asked something: the entry with the question."""

    conversation: str
    call_id: str
    seq: int

    def __str__(self) -> str:
        return f"{self.conversation}/{self.call_id}/{self.seq}"


def parse_place(text: object) -> Place:
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) != 3 or not parts[2].isascii() or not parts[2].isdigit() or len(parts[2]) > 18:
        raise RpcError(INVALID_PARAMS, "this requestState was not given out here", {"field": "requestState"})
    return Place(conversation=parts[0], call_id=parts[1], seq=int(parts[2]))


class Undecided:
    """Calls that wait for somebody whom their client cannot ask: the same call, made again, finds its way back to one.

    A courtesy, bounded, and gone with the process: then the call is made anew, and asks anew.
    """

    def __init__(self) -> None:
        self._places: dict[bytes, Place] = {}

    def keep(self, key: bytes, place: Place) -> None:
        self._places[key] = place
        if len(self._places) > MOST_UNDECIDED:
            del self._places[next(iter(self._places))]

    def take(self, key: bytes) -> Place | None:
        return self._places.pop(key, None)


class ToolCall:
    def __init__(self, service: Service, undecided: Undecided, asked: Request, peer: Peer) -> None:
        self._service = service
        self._undecided = undecided
        self._asked = asked
        self._peer = peer
        self._name = text_of(asked.params, "name")
        self._tool = _known(service, peer, self._name)
        self._arguments = object_of(asked.params, "arguments")
        self._token = object_of(asked.params, "_meta").get("progressToken")
        self._given = object_of(asked.params, "inputResponses")
        self._conversation = ""
        self._call = Call(id="", at=0.0, tool=self._name, arguments=self._arguments)
        self._open: dict[Id, str] = {}
        """Requests of ours that a legacy client has not answered: their ids, and what each was about."""
        self._progress = -1.0
        self._given_up = False
        self._rounds = 0

    async def cancel(self) -> None:
        """The client does not want it any more."""
        self._given_up = True
        with suppress(ToolyardError):  # it may have ended meanwhile, or not begun yet
            await self._service.submit(self._conversation, Stop(by=self._peer.caller))

    async def messages(self) -> AsyncGenerator[Json | None, None]:
        """What the client is told, the response last; None now and then where nothing happens."""
        after = await self._resumed()
        start = self._begun() if after is None else None
        if start is not None and (refusal := await self._refused()):
            yield result(self._asked.id, refusal)
            return
        reader = await self._service.follow(self._conversation, after)
        if self._peer.standing is not None:
            self._peer.standing.calls.add(self._call.id)
        try:
            if start is not None:
                await self._service.submit(self._conversation, start)
            if self._given_up:
                await self.cancel()
            while True:
                batch = await reader.batch(HEARTBEAT_S)
                if not batch:
                    yield None
                for item, _ in batch:
                    for message in await self._told(item):
                        yield message
                        if message.get("id") == self._asked.id and "result" in message:
                            return
        finally:
            reader.detach()
            self._let_go()

    def _let_go(self) -> None:
        if (standing := self._peer.standing) is not None:
            standing.calls.discard(self._call.id)
            for id in self._open:
                standing.questions.drop(id)

    def _begun(self) -> Start:
        service, mint = self._service, self._service.mint
        self._conversation = mint.id("conversation")
        self._call = Call(id=mint.id("call"), at=mint.now(), tool=self._name, arguments=self._arguments)
        return service.request(
            self._peer.caller,
            (self._call,),
            correlation_id=self._peer.correlation_id,
            settings=Settings(title=f"MCP: {self._name}", unlisted=True),
            mcp_client=self._peer.client,
        )

    async def _refused(self) -> Json | None:
        """A client's model can wait and try again if it is told so in words; a transport's error it never sees."""
        try:
            await self._service.admit(self._peer.caller)
        except RateLimited as error:
            return self._complete(render.failed(Problem(error=str(error), error_type="rate_limited")))
        return None

    async def _resumed(self) -> Cursor | None:
        """The place to go on from, if the call was begun earlier. Raises RpcError for the place of another call."""
        if "requestState" in self._asked.params:
            place = parse_place(self._asked.params["requestState"])
            wait = await self._found(place)
            if wait is None:
                raise RpcError(INVALID_PARAMS, "this requestState is of another call", {"field": "requestState"})
            return await self._answered(wait, place)
        place = self._undecided.take(self._key())
        if place is None or await self._found(place) is None:
            return None
        return Cursor(place.seq - 1)

    async def _found(self, place: Place) -> Wait | None:
        """What the call waited for at that place, if this is the call and it is this caller's."""
        try:
            await self._service.known(place.conversation, self._peer.caller)
        except NotFound:
            return None
        call = _call_of(await self._service.state(place.conversation), place.call_id)
        entries = await self._service.entries(place.conversation, after=place.seq - 1, until=place.seq)
        wait = entries[0].event if entries else None
        if call is None or (call.tool, call.arguments) != (self._name, self._arguments):
            return None
        if not isinstance(wait, CallJudged | CallParked) or wait.call_id != call.id:
            return None
        self._conversation, self._call = place.conversation, call
        return wait

    async def _answered(self, wait: Wait, place: Place) -> Cursor:
        """Hand in the answers; if some are missing, the place before the question, so that it is asked once more."""
        can, replaced, _ = answerable(requests_of(wait, self._call), self._peer)
        replies = answered(can, self._given)
        if replies is None:
            return Cursor(place.seq - 1)
        self._given, replies = {}, {**replies, **replaced}
        await self._decided(wait, replies)
        return Cursor(place.seq)

    def _key(self) -> bytes:
        who = (self._peer.caller.tenant, self._peer.caller.user, self._name, self._arguments)
        return hashlib.blake2b(msgspec.json.encode(who, order="deterministic"), digest_size=16).digest()

    async def _told(self, item: Published) -> list[Json]:
        match item:
            case CallProgressed(call_id=self._call.id):
                return list(self._progressed(item))
            case Entry(event=CallJudged(verdict="ask", call_id=self._call.id) as wait):
                return await self._waits(wait, item.seq)
            case Entry(event=CallParked(call_id=self._call.id) as wait):
                return await self._waits(wait, item.seq)
            case Entry(event=CallEnded(result=ended)) if ended.call_id == self._call.id:
                return [*self._withdrawn(), result(self._asked.id, await self._result(ended))]
            case _:
                return []

    def _progressed(self, event: CallProgressed) -> Iterator[Json]:
        """Only what goes on is progress, says the protocol."""
        if self._token is None or event.progress <= self._progress:
            return
        self._progress = event.progress
        told: Json = {"progressToken": self._token, "progress": event.progress}
        if event.total is not None:
            told["total"] = event.total
        if event.message:
            told["message"] = event.message
        yield notification("notifications/progress", told)

    async def _waits(self, wait: Wait, seq: int) -> list[Json]:
        """Ask the client, if it can be asked; else say who can decide. What was decided since is not asked."""
        current = (await self._service.state(self._conversation)).calls.get(self._call.id)
        if current is None or current.phase not in ("asking", "parked"):
            return []
        place = Place(conversation=self._conversation, call_id=self._call.id, seq=seq)
        asked, replaced, lacking = answerable(requests_of(wait, self._call), self._peer)
        if lacking or self._rounds >= MOST_ROUNDS:
            return [await self._unasked(wait, place, lacking)]
        if isinstance(wait, CallParked) and self._given and (replies := answered(asked, self._given)):
            self._given = {}  # the answer came along with the call
            await self._decided(wait, {**replies, **replaced})
            return []
        if self._peer.modern:
            told: Json = {"resultType": "input_required", "inputRequests": asked, "requestState": str(place)}
            return [result(self._asked.id, told)]
        return self._asked_for(wait, asked, replaced)

    async def _decided(self, wait: Wait, replies: Replies) -> None:
        command = command_of(wait, self._call, replies, self._peer.caller)
        with suppress(Refused):  # it was decided elsewhere, or already: by this very request, whose answer got lost
            await self._service.submit(self._conversation, command)

    async def _unasked(self, wait: Wait, place: Place, lacking: Json) -> Json:
        """An approval can be given elsewhere; a question of the tool's own needs a client that can be asked."""
        if isinstance(wait, CallParked) and self._peer.modern:
            await self.cancel()
            said = f"{self._name} asks a question, and this client has not declared that it can be asked"
            raise RpcError(MISSING_CAPABILITY, said, {"requiredCapabilities": lacking})
        self._undecided.keep(self._key(), place)
        problem = where_to_decide(wait, self._call, self._conversation)
        return result(self._asked.id, self._complete(render.failed(problem)))

    def _asked_for(self, wait: Wait, asked: dict[str, Json], replaced: Replies) -> list[Json]:
        """The same as requests to a legacy client; once all are answered, the call goes on."""
        replies: Replies = {}
        assert self._peer.standing is not None
        self._rounds += 1

        async def hear(reply: Reply) -> None:
            replies[self._open.pop(reply.id)] = reply.result
            if len(replies) == len(asked):
                await self._decided(wait, {**replies, **replaced})

        told: list[Json] = []
        for name, one in asked.items():
            id = self._peer.standing.questions.add(hear)
            self._open[id] = name
            told.append(request(id, str(one["method"]), object_of(one, "params")))
        return told

    def _withdrawn(self) -> Iterator[Json]:
        """What was decided elsewhere need not be asked any more."""
        for id in self._open:
            yield notification("notifications/cancelled", {"requestId": id, "reason": "the call has ended"})

    async def _result(self, ended: Result) -> Json:
        if ended.native:
            native = await self._service.kept(self._conversation, ended.native)
            return self._complete(render.called(ended, None, native))
        if self._tool.venue == "mcp" and (declined := render.declined(ended)):
            raise declined
        whole = await self._service.kept(self._conversation, ended.handle) if ended.handle else None
        return self._complete(render.called(ended, whole, None))

    def _complete(self, told: Json) -> Json:
        return render.signed(told, modern=self._peer.modern)


def _known(service: Service, peer: Peer, name: str) -> Tool:
    """Raises RpcError for a tool that is not there, as far as this caller may know."""
    found = next((tool for tool in service.tools(peer.caller, hosted=False) if tool.name == name), None)
    if found is None:
        raise RpcError(INVALID_PARAMS, f"there is no tool named {name[:64]!r}; tools/list tells which are")
    return found


def _call_of(state: State, call_id: str) -> Call | None:
    """The call as it was asked for, open or closed."""
    return next((item for item in state.whole if isinstance(item, Call) and item.id == call_id), None)
