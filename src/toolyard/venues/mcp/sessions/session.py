"""One connection to one server, from its handshake to its end. It does not come back: its link makes another one.

The SDK speaks the protocol, in both eras. What a server answers is kept as it came: the SDK's models leave out what
they do not know, and build each result twice.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from time import monotonic
from typing import cast

import anyio
import mcp_types as types
import msgspec
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, RootModel, ValidationError

from toolyard.core.mcp_client import Capability
from toolyard.venues.mcp.catalog.definitions import find_defect
from toolyard.venues.mcp.dispatcher import RecordingDispatcher, SentRequest, current_request
from toolyard.venues.mcp.outcomes import FORBIDDEN, Era, Json, OpenTimings
from toolyard.venues.mcp.sessions.stdio import ChildProcess

MAX_PAGES = 200
MAX_TOOLS = 10_000
MAX_LISTING_BYTES = 32 * 1024 * 1024
FINISH_S = 5.0
MAX_UNANSWERED = 3
HTTP_NOT_FOUND = 404
_CLOSED_MESSAGES = ("Connection closed", "SSE stream")
_log = logging.getLogger("toolyard.mcp")


class ListingTooLarge(Exception):
    """A server lists more than anybody could use."""


class SessionLost(Exception):
    """The connection ended before the answer came. `read` says whether the server may have read the request."""

    def __init__(self, why: str, *, read: bool) -> None:
        super().__init__(why)
        self.read = read


class RawResult(RootModel[Json]):
    """A result that is left as it is."""


@dataclass(slots=True, kw_only=True)
class SessionHooks:
    """What a session tells, and asks."""

    on_tools_listed: Callable[[list[Json]], Awaitable[None]]
    """The server's tools, as it sent them: at the beginning, and whenever they change."""
    on_notification: Callable[[str, Json], None]
    on_elicitation: Callable[[Json, object], Awaitable[Json]] | None = None
    """A question of the server to the user, and the owner of the request that it belongs to, if that is known."""
    claims: frozenset[Capability] = frozenset()
    """What the server may also ask for that only an MCP client behind us has: a model, roots."""


class UpstreamSession:
    """An open connection: ask it. It is over when `over` is set; then whatever waits for an answer is `Lost`."""

    def __init__(
        self,
        dispatcher: RecordingDispatcher,
        session: ClientSession,
        hooks: SessionHooks,
        child: ChildProcess | None,
        finished: asyncio.Event,
        list_s: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._session = session
        self._hooks = hooks
        self._child = child
        self._list_s = list_s
        self._refresh_lock = asyncio.Lock()
        self._unanswered = 0
        self._refresh_pending = False
        self.over = asyncio.Event()
        self.finished = finished
        """Set when everything that belonged to it has ended."""
        self.timings = OpenTimings()
        self.in_flight = 0
        self.answers = 0
        """How many answers came to requests; what has answered is in order."""

    @property
    def process_id(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def protocol(self) -> str:
        return self._session.protocol_version or ""

    @property
    def modern(self) -> bool:
        return self.protocol in MODERN_PROTOCOL_VERSIONS

    @property
    def capabilities(self) -> Json:
        known = self._session.server_capabilities
        return known.model_dump(by_alias=True, mode="json", exclude_none=True) if known else {}

    @property
    def instructions(self) -> str:
        return self._session.instructions or ""

    async def request(
        self,
        method: str,
        params: Json,
        *,
        progress: ProgressFnT | None = None,
        owner: object = None,
        capabilities: frozenset[Capability] | None = None,
    ) -> Json:
        """The server's answer as it came. Raises MCPError with what the server says against it, or Lost."""
        sent = SentRequest(owner, is_asked=True, capabilities=capabilities)
        token = current_request.set(sent)
        self.in_flight += 1
        try:
            request = types.Request[Json, str](method=method, params=params)
            await self._session.send_request(request, RawResult, progress_callback=progress)
        except MCPError as error:
            if _is_closed(error) or sent.transport_error or self._is_forgotten(sent, error):
                raise await self._build_lost_error(sent, error) from None
            self.answers += 1
            if sent.denial_reason:
                raise MCPError(code=FORBIDDEN, message=sent.denial_reason) from None
            raise
        except ValidationError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=f"the answer is not as MCP has it: {error}") from None
        finally:
            self.in_flight -= 1
            current_request.reset(token)
        self.answers += 1
        self._unanswered = 0
        if self._child is not None:
            self._child.outgoing.forget_request(sent.id)
        return sent.answer

    def report_timeout(self) -> None:
        """A deadline passed. A server of which nobody has heard anything meanwhile, again and again, hangs."""
        self._unanswered += 1
        if self._unanswered >= MAX_UNANSWERED:
            _log.warning("a server has not answered %d requests in a row; it is started anew", self._unanswered)
            self.abort()

    def _is_forgotten(self, sent: SentRequest, error: MCPError) -> bool:
        """Whether the server does not know this session any more, as after it was started anew: then it did nothing.

        The modern era has no sessions to forget, and says with the same status that it has no such method.
        """
        return sent.status == HTTP_NOT_FOUND and not self.modern and error.code != types.METHOD_NOT_FOUND

    async def _build_lost_error(self, sent: SentRequest, error: MCPError) -> SessionLost:
        """Once everything has ended it is known how far the server had read."""
        self.over.set()
        if self._child is None:
            return SessionLost(
                sent.transport_error or error.message, read=not (sent.unreached or self._is_forgotten(sent, error))
            )
        try:
            async with asyncio.timeout(FINISH_S):
                await self.finished.wait()
        except TimeoutError:
            return SessionLost("the server went away", read=True)
        return SessionLost("the server went away", read=self._child.outgoing.was_read(sent.id))

    def abort(self) -> None:
        """It does not answer any more: end it without grace."""
        if self._child is not None:
            self._child.is_hung = True
        self.over.set()

    async def list_tools(self) -> list[Json]:
        """All of them, page by page, as the server sent them."""
        tools: list[Json] = []
        cursor: str | None = None
        room = MAX_LISTING_BYTES
        for _ in range(MAX_PAGES):
            sent = SentRequest()
            token = current_request.set(sent)
            try:
                params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
                kept = {tool.name for tool in (await self._session.list_tools(params=params)).tools}
            finally:
                current_request.reset(token)
            page = sent.answer.get("tools")
            for tool in cast(list[Json], page) if isinstance(page, list) else ():
                if find_defect(tool) or tool["name"] in kept:
                    room -= _encoded_size(tool)
                    tools.append(tool)
            cursor = cast(str | None, sent.answer.get("nextCursor"))
            if len(tools) > MAX_TOOLS or room < 0:
                raise ListingTooLarge(f"it lists more than {MAX_TOOLS:,} tools, or {MAX_LISTING_BYTES:,} bytes of them")
            if not cursor:
                break
        return tools

    async def refresh_tools(self) -> None:
        """List the tools again; what changes while that goes on is seen by one more listing, however often.

        A listing that does not come in time makes way for the next. Raises TimeoutError then.
        """
        if self._refresh_pending:
            return
        self._refresh_pending = True
        async with self._refresh_lock:
            if self._refresh_pending and not self.over.is_set():
                self._refresh_pending = False
                with anyio.fail_after(self._list_s):
                    tools = await self.list_tools() if "tools" in self.capabilities else []
                await self._hooks.on_tools_listed(tools)

    async def _relist_tools(self) -> None:
        try:
            await self.refresh_tools()
        except (MCPError, ValidationError, ListingTooLarge, TimeoutError) as error:
            why = str(error) or f"it did not answer within {self._list_s:g} s"
            _log.warning("a server told that its tools changed, but they could not be listed: %s", why)

    async def on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            _log.debug("a message could not be read: %r", message)
            return
        self._unanswered = 0
        if isinstance(message, types.ToolListChangedNotification):
            await self._relist_tools()
        dumped = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        self._hooks.on_notification(message.method, cast(Json, dumped.get("params") or {}))

    async def on_elicitation(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        assert self._hooks.on_elicitation is not None
        sent = current_request.get()
        asked = cast(Json, params.model_dump(by_alias=True, mode="json", exclude_none=True))
        try:
            answer = await self._hooks.on_elicitation(asked, sent.owner if sent else None)
        except LookupError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        return types.ElicitResult.model_validate(answer)

    async def on_sampling(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        answer = await self._forward_request("sampling/createMessage", params)
        return answer if isinstance(answer, types.ErrorData) else types.CreateMessageResult.model_validate(answer)

    async def on_roots(self) -> types.ListRootsResult | types.ErrorData:
        answer = await self._forward_request("roots/list", None)
        return answer if isinstance(answer, types.ErrorData) else types.ListRootsResult.model_validate(answer)

    async def _forward_request(self, method: str, params: BaseModel | None) -> Json | types.ErrorData:
        """What only an MCP client behind us can answer is a question like any other, to be answered as it came."""
        assert self._hooks.on_elicitation is not None
        sent = current_request.get()
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True) if params else {}
        question: Json = {"requests": {method: {"method": method, "params": asked}}}
        try:
            answer = await self._hooks.on_elicitation(question, sent.owner if sent else None)
        except LookupError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        return types.ErrorData(code=types.INVALID_REQUEST, message="nobody answers") if "action" in answer else answer

    async def listen_for_changes(self) -> None:
        """In the modern era a server tells of changes only to those who listen."""
        told = cast(dict[str, Json], self.capabilities)
        tools, prompts, resources = (bool(told.get(what, {}).get("listChanged")) for what in _LISTED_KINDS)
        if not self.modern or not (tools or prompts or resources):
            return
        try:
            async with listen(
                self._session,
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
            ) as events:
                async for _ in events:  # each also comes as a message
                    pass
        except (MCPError, SubscriptionLost, TimeoutError) as error:
            _log.debug("a server stopped telling of changes: %s", error)


def _encoded_size(definition: Json) -> int:
    try:
        return len(msgspec.json.encode(definition))
    except RecursionError:
        return MAX_LISTING_BYTES


def _is_closed(error: MCPError) -> bool:
    """Whether this is the SDK's word for a connection that ended, and not a server's own use of the same code."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith(_CLOSED_MESSAGES)


_LISTED_KINDS = ("tools", "prompts", "resources")
OpenTransport = Callable[[AsyncExitStack], Awaitable[tuple[RecordingDispatcher, ChildProcess | None]]]
"""Opens a transport on the stack: a wire, and the child behind it, if it is one."""


@asynccontextmanager
async def open_session(
    open_transport: OpenTransport, hooks: SessionHooks, *, connect_s: float, list_s: float, era: Era
) -> AsyncGenerator[UpstreamSession]:
    """A session after its handshake and first listing. Raises what the transport, the SDK or a deadline raises."""
    finished, made = asyncio.Event(), list[UpstreamSession]()
    async with AsyncExitStack() as stack:
        stack.callback(finished.set)
        began = monotonic()
        wire, child = await open_transport(stack)
        started = monotonic()
        client = ClientSession(
            dispatcher=wire,
            client_info=types.Implementation(name="toolyard", version=version("toolyard")),
            message_handler=lambda message: made[0].on_message(message),
            elicitation_callback=(lambda context, params: made[0].on_elicitation(params))
            if hooks.on_elicitation
            else None,
            sampling_callback=(lambda context, params: made[0].on_sampling(params))
            if "sampling" in hooks.claims
            else None,
            list_roots_callback=(lambda context: made[0].on_roots()) if "roots" in hooks.claims else None,
        )
        session = UpstreamSession(wire, client, hooks, child, finished, list_s)
        made.append(session)
        await stack.enter_async_context(client)
        stack.callback(session.over.set)
        with anyio.fail_after(connect_s):
            await _negotiate(client, era)
        agreed = monotonic()
        await session.refresh_tools()
        session.timings = OpenTimings(started - began, agreed - started, monotonic() - agreed)
        async with anyio.create_task_group() as group:
            group.start_soon(session.listen_for_changes)
            group.start_soon(_wait_for_end, wire, session)
            yield session
            group.cancel_scope.cancel()


async def _wait_for_end(dispatcher: RecordingDispatcher, session: UpstreamSession) -> None:
    await dispatcher.ended.wait()
    session.over.set()


async def _negotiate(session: ClientSession, era: Era) -> None:
    """The newest that both speak. Whatever a server answers to the modern question, if not yes, means the old way."""
    if era != "legacy":
        try:
            await session.discover()
            return
        except (MCPError, RuntimeError, ValidationError) as error:
            _log.debug("not of the modern era: %s", error)
    await session.initialize()
