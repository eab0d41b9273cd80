"""One connection to one server, from its handshake to its end. `SessionSupervisor` opens the next one.

MCP has two eras. In the old one (2025-11-25 and before) a session begins with `initialize`, and a server may send
requests of its own. In the new one (2026-07-28) each request stands alone, and what a server needs comes as a result
that asks for input. The SDK speaks both. Answers are kept as they came: the SDK's models drop unknown fields and build
each result twice.
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

from toolyard.core.json_types import Json
from toolyard.core.tools.mcp_servers import Capability
from toolyard.venues.mcp.catalog.definitions import find_defect
from toolyard.venues.mcp.dispatcher import RecordingDispatcher, SentRequest, current_request
from toolyard.venues.mcp.outcomes import FORBIDDEN, Era, OpenTimings
from toolyard.venues.mcp.sessions.stdio import ChildProcess

MAX_PAGES = 200
MAX_TOOLS = 10_000
MAX_LISTING_BYTES = 32 * 1024 * 1024
FINISH_S = 5.0
MAX_UNANSWERED = 3
PING_S = 10.0
UNKNOWN_SESSION_STATUSES = (400, 404)
"""MCP has 404 for a session that a server does not know. Many servers, the reference one among them, answer 400."""
_CLOSED_MESSAGES = ("Connection closed", "SSE stream")
_log = logging.getLogger("toolyard.mcp")


class ListingTooLarge(Exception):
    """The server lists more tools, or more bytes of them, than are accepted."""


class SessionLost(Exception):
    """The connection ended before the answer came. `read` tells whether the server may have read the request."""

    def __init__(self, why: str, *, read: bool) -> None:
        super().__init__(why)
        self.read = read


Refusal = tuple[int, int, str]
"""How a server refused a request over HTTP: status, JSON-RPC code and message."""


class RawResult(RootModel[Json]):
    """A result that pydantic does not parse."""


@dataclass(slots=True, kw_only=True)
class SessionHooks:
    """What a session calls when its server sends something."""

    on_tools_listed: Callable[[list[Json]], Awaitable[None]]
    """Gets the server's tools as they were sent: after the handshake, and after every change."""
    on_notification: Callable[[str, Json], None]
    on_elicitation: Callable[[Json, object], Awaitable[Json]] | None = None
    """Gets a question to the user and the owner of the request it belongs to (None if unknown); returns the reply."""
    claims: frozenset[Capability] = frozenset()
    """Capabilities that only the calling MCP client can serve and that the handshake announces: sampling, roots."""


class UpstreamSession:
    """An open connection. Once `over` is set it is given to nobody; requests still in flight raise `SessionLost`."""

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
        self._ping_refusal: Refusal | None = None
        """How the server refused a ping because it does not know the session any more; None while it knows it."""
        self._refresh_pending = False
        self._request_ended = asyncio.Event()
        self.over = asyncio.Event()
        self.finished = finished
        """Set when everything that belonged to the session has ended, the child process too."""
        self.timings = OpenTimings()
        self.in_flight = 0
        self.answers = 0
        """How many requests were answered; a session that has answered does not count as a failed attempt."""

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
        capabilities = self._session.server_capabilities
        return capabilities.model_dump(by_alias=True, mode="json", exclude_none=True) if capabilities else {}

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
        """Return the server's answer as it came. Raise MCPError with the server's error, or SessionLost."""
        sent = SentRequest(owner, is_asked=True, capabilities=capabilities)
        token = current_request.set(sent)
        self.in_flight += 1
        try:
            request = types.Request[Json, str](method=method, params=params)
            await self._session.send_request(request, RawResult, progress_callback=progress)
        except MCPError as error:
            if _is_closed(error) or sent.transport_error:
                raise await self._build_lost_error(sent, error) from None
            if await self._is_forgotten(sent, error):
                raise SessionLost(error.message, read=False) from None
            self.answers += 1
            if sent.denial_reason:
                raise MCPError(code=FORBIDDEN, message=sent.denial_reason) from None
            raise
        except ValidationError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=f"the answer is not as MCP has it: {error}") from None
        finally:
            self.in_flight -= 1
            self._request_ended.set()
            current_request.reset(token)
        self.answers += 1
        self._unanswered = 0
        if self._child is not None:
            self._child.outgoing.forget_request(sent.id)
        return sent.answer

    def report_timeout(self) -> None:
        """Count a request that missed its deadline; after MAX_UNANSWERED in a row, with no other message, abort."""
        self._unanswered += 1
        if self._unanswered >= MAX_UNANSWERED:
            _log.warning("a server has not answered %d requests in a row; it is restarted", self._unanswered)
            self.abort()

    async def _is_forgotten(self, sent: SentRequest, error: MCPError) -> bool:
        """Return whether a request was refused because the server no longer knows this session, so that it ran nothing.

        The same status is used for a fault of a single request, which must not end the session: other calls in flight
        would be lost with it. A ping distinguishes the two. If it is refused otherwise than the request, the session
        is lost too, but the request may have run before: its error is its answer.
        """
        if self.modern or not _may_mean_unknown_session(sent, error):
            return False
        if self._ping_refusal is None:
            await self._ping()
        return self._ping_refusal == _describe_refusal(sent, error)

    async def _ping(self) -> None:
        """Ask the server whether it knows this session, and end the session if it does not."""
        sent = SentRequest(is_asked=True)
        token = current_request.set(sent)
        try:
            async with asyncio.timeout(PING_S):
                await self._session.send_request(types.Request[Json, str](method="ping", params={}), RawResult)
        except TimeoutError:
            self.report_timeout()  # it may be busy with other calls: a single ping says nothing about the session
        except MCPError as error:
            if _is_closed(error) or sent.transport_error:
                self.over.set()
            elif _may_mean_unknown_session(sent, error):
                self._ping_refusal = _describe_refusal(sent, error)
                self.over.set()
        except ValidationError:
            pass  # an odd answer, but an answer
        finally:
            current_request.reset(token)

    async def drain(self) -> None:
        """Wait until the requests in flight are answered, for at most FINISH_S, if the server forgot the session.

        It has refused one request and is about to refuse those that were sent with it. Without their refusals they
        would count as read, and nobody would know whether they took effect.
        """
        if self._ping_refusal is None:
            return
        try:
            async with asyncio.timeout(FINISH_S):
                while self.in_flight:
                    self._request_ended.clear()
                    await self._request_ended.wait()
        except TimeoutError:
            pass

    async def _build_lost_error(self, sent: SentRequest, error: MCPError) -> SessionLost:
        """Return the error for a request whose connection ended, with whether the server may have read it."""
        self.over.set()
        # How many bytes a child has read can be counted only once it has ended, so wait for that.
        if self._child is None:
            return SessionLost(sent.transport_error or error.message, read=not sent.unreached)
        try:
            async with asyncio.timeout(FINISH_S):
                await self.finished.wait()
        except TimeoutError:
            return SessionLost("the server went away", read=True)
        return SessionLost("the server went away", read=self._child.outgoing.was_read(sent.id))

    def abort(self) -> None:
        """End the session of a server that hangs, without a grace period."""
        if self._child is not None:
            self._child.is_hung = True
        self.over.set()

    async def list_tools(self) -> list[Json]:
        """Return all tools, page by page, as the server sent them. Raise ListingTooLarge."""
        tools: list[Json] = []
        cursor: str | None = None
        remaining_bytes = MAX_LISTING_BYTES
        for _ in range(MAX_PAGES):
            sent = SentRequest()
            token = current_request.set(sent)
            try:
                params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
                accepted_names = {tool.name for tool in (await self._session.list_tools(params=params)).tools}
            finally:
                current_request.reset(token)
            # In the new era the SDK must drop tools with invalid `x-mcp-header` annotations, so only raw definitions
            # whose names it returned are taken. Defective ones were hidden from the SDK (see `_strip_listing`) and are
            # taken too: operators are shown why they are unusable.
            page = sent.answer.get("tools")
            for tool in cast(list[Json], page) if isinstance(page, list) else ():
                if find_defect(tool) or tool["name"] in accepted_names:
                    remaining_bytes -= _encoded_size(tool)
                    tools.append(tool)
            cursor = cast(str | None, sent.answer.get("nextCursor"))
            if len(tools) > MAX_TOOLS or remaining_bytes < 0:
                raise ListingTooLarge(f"it lists more than {MAX_TOOLS:,} tools, or {MAX_LISTING_BYTES:,} bytes of them")
            if not cursor:
                break
        return tools

    async def refresh_tools(self) -> None:
        """List the tools again. Raise TimeoutError if that takes longer than `list_s`.

        Any number of changes during one listing lead to one more listing.
        """
        # The flag is cleared before the listing begins, not after: a change that is announced while the listing is
        # under way may be missing from it, so that caller has to wait for the lock and list once more.
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
            _log.warning("a server announced that its tools changed, but they could not be listed: %s", why)

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
        question = cast(Json, params.model_dump(by_alias=True, mode="json", exclude_none=True))
        try:
            answer = await self._hooks.on_elicitation(question, sent.owner if sent else None)
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
        """Pass a request that only the calling MCP client can answer on as a question, and return its raw answer."""
        assert self._hooks.on_elicitation is not None
        sent = current_request.get()
        dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True) if params else {}
        question: Json = {"requests": {method: {"method": method, "params": dumped}}}
        try:
            answer = await self._hooks.on_elicitation(question, sent.owner if sent else None)
        except LookupError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        return types.ErrorData(code=types.INVALID_REQUEST, message="nobody answers") if "action" in answer else answer

    async def listen_for_changes(self) -> None:
        """Subscribe to changes, which a server of the new era announces only to clients that have subscribed."""
        capabilities = cast(dict[str, Json], self.capabilities)
        tools, prompts, resources = (bool(capabilities.get(kind, {}).get("listChanged")) for kind in _LISTED_KINDS)
        if not self.modern or not (tools or prompts or resources):
            return
        try:
            async with listen(
                self._session,
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
            ) as events:
                async for _ in events:  # `on_message` handles them: each event also arrives there as a notification
                    pass
        except (MCPError, SubscriptionLost, TimeoutError) as error:
            _log.debug("a server stopped announcing changes: %s", error)


def _encoded_size(definition: Json) -> int:
    try:
        return len(msgspec.json.encode(definition))
    except RecursionError:
        return MAX_LISTING_BYTES


def _is_closed(error: MCPError) -> bool:
    """Return whether the SDK raised this for a connection that ended; servers use the same code for other errors."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith(_CLOSED_MESSAGES)


def _may_mean_unknown_session(sent: SentRequest, error: MCPError) -> bool:
    """Return whether this error may mean that the server does not know the session of the request."""
    # A server that knows no such method knows the session. Without a session id the SDK gives a bare 404 this code.
    return sent.status in UNKNOWN_SESSION_STATUSES and error.code != types.METHOD_NOT_FOUND


def _describe_refusal(sent: SentRequest, error: MCPError) -> Refusal:
    return sent.status, error.code, error.message


_LISTED_KINDS = ("tools", "prompts", "resources")
OpenTransport = Callable[[AsyncExitStack], Awaitable[tuple[RecordingDispatcher, ChildProcess | None]]]
"""Opens a transport on the stack; returns its dispatcher, and the child process if the server is one."""


@asynccontextmanager
async def open_session(
    open_transport: OpenTransport, hooks: SessionHooks, *, connect_s: float, list_s: float, era: Era
) -> AsyncGenerator[UpstreamSession]:
    """Yield a session after its handshake and first listing. Raise what the transport, the SDK or a deadline raises."""
    finished, opened = asyncio.Event(), list[UpstreamSession]()
    async with AsyncExitStack() as stack:
        stack.callback(finished.set)
        began = monotonic()
        dispatcher, child = await open_transport(stack)
        started = monotonic()
        client = ClientSession(
            dispatcher=dispatcher,
            client_info=types.Implementation(name="toolyard", version=version("toolyard")),
            message_handler=lambda message: opened[0].on_message(message),
            elicitation_callback=(lambda context, params: opened[0].on_elicitation(params))
            if hooks.on_elicitation
            else None,
            sampling_callback=(lambda context, params: opened[0].on_sampling(params))
            if "sampling" in hooks.claims
            else None,
            list_roots_callback=(lambda context: opened[0].on_roots()) if "roots" in hooks.claims else None,
        )
        session = UpstreamSession(dispatcher, client, hooks, child, finished, list_s)
        opened.append(session)  # before the client is entered: from then on its callbacks run
        await stack.enter_async_context(client)
        stack.callback(session.over.set)
        with anyio.fail_after(connect_s):
            await _negotiate(client, era)
        agreed = monotonic()
        await session.refresh_tools()
        session.timings = OpenTimings(started - began, agreed - started, monotonic() - agreed)
        async with anyio.create_task_group() as group:
            group.start_soon(session.listen_for_changes)
            group.start_soon(_wait_for_end, dispatcher, session)
            yield session
            await session.drain()
            group.cancel_scope.cancel()


async def _wait_for_end(dispatcher: RecordingDispatcher, session: UpstreamSession) -> None:
    await dispatcher.ended.wait()
    session.over.set()


async def _negotiate(session: ClientSession, era: Era) -> None:
    """Agree on the newest protocol revision that both sides speak."""
    # Servers of the old era answer `server/discover` with all kinds of errors, so any of them leads to `initialize`.
    if era != "legacy":
        try:
            await session.discover()
            return
        except (MCPError, RuntimeError, ValidationError) as error:
            _log.debug("not of the modern era: %s", error)
    await session.initialize()
