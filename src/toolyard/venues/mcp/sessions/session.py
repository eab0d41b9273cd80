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
from toolyard.venues.mcp.catalog.definitions import unusable
from toolyard.venues.mcp.dispatcher import Sent, Wire, sent_for
from toolyard.venues.mcp.outcomes import FORBIDDEN, Era, Json, Opened
from toolyard.venues.mcp.sessions.stdio import Child

MOST_PAGES = 200
MOST_TOOLS = 10_000
MOST_LISTING_BYTES = 32 * 1024 * 1024
FINISH_S = 5.0
MOST_SILENT = 3
HTTP_NOT_FOUND = 404
_CLOSED = ("Connection closed", "SSE stream")
_log = logging.getLogger("toolyard.mcp")


class Overlong(Exception):
    """A server lists more than anybody could use."""


class Lost(Exception):
    """The connection ended before the answer came. `read` says whether the server may have read the request."""

    def __init__(self, why: str, *, read: bool) -> None:
        super().__init__(why)
        self.read = read


class Anything(RootModel[Json]):
    """A result that is left as it is."""


@dataclass(slots=True, kw_only=True)
class Hooks:
    """What a session tells, and asks."""

    listed: Callable[[list[Json]], Awaitable[None]]
    """The server's tools, as it sent them: at the beginning, and whenever they change."""
    notified: Callable[[str, Json], None]
    elicited: Callable[[Json, object], Awaitable[Json]] | None = None
    """A question of the server to the user, and the owner of the request that it belongs to, if that is known."""
    claims: frozenset[Capability] = frozenset()
    """What the server may also ask for that only an MCP client behind us has: a model, roots."""


class Session:
    """An open connection: ask it. It is over when `over` is set; then whatever waits for an answer is `Lost`."""

    def __init__(
        self,
        wire: Wire,
        session: ClientSession,
        hooks: Hooks,
        child: Child | None,
        finished: asyncio.Event,
        list_s: float,
    ) -> None:
        self._wire = wire
        self._session = session
        self._hooks = hooks
        self._child = child
        self._list_s = list_s
        self._relist = asyncio.Lock()
        self._silent = 0
        self._stale = False
        self.over = asyncio.Event()
        self.finished = finished
        """Set when everything that belonged to it has ended."""
        self.opened = Opened()
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
        sent = Sent(owner, is_asked=True, capabilities=capabilities)
        token = sent_for.set(sent)
        self.in_flight += 1
        try:
            request = types.Request[Json, str](method=method, params=params)
            await self._session.send_request(request, Anything, progress_callback=progress)
        except MCPError as error:
            if _is_closed(error) or sent.trouble or self._is_forgotten(sent, error):
                raise await self._lost(sent, error) from None
            self.answers += 1
            if sent.denied:
                raise MCPError(code=FORBIDDEN, message=sent.denied) from None
            raise
        except ValidationError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=f"the answer is not as MCP has it: {error}") from None
        finally:
            self.in_flight -= 1
            sent_for.reset(token)
        self.answers += 1
        self._silent = 0
        if self._child is not None:
            self._child.outgoing.answered(sent.id)
        return sent.answer

    def suspect(self) -> None:
        """A deadline passed. A server of which nobody has heard anything meanwhile, again and again, hangs."""
        self._silent += 1
        if self._silent >= MOST_SILENT:
            _log.warning("a server has not answered %d requests in a row; it is started anew", self._silent)
            self.give_up()

    def _is_forgotten(self, sent: Sent, error: MCPError) -> bool:
        """Whether the server does not know this session any more, as after it was started anew: then it did nothing.

        The modern era has no sessions to forget, and says with the same status that it has no such method.
        """
        return sent.status == HTTP_NOT_FOUND and not self.modern and error.code != types.METHOD_NOT_FOUND

    async def _lost(self, sent: Sent, error: MCPError) -> Lost:
        """Once everything has ended it is known how far the server had read."""
        self.over.set()
        if self._child is None:
            return Lost(sent.trouble or error.message, read=not (sent.unreached or self._is_forgotten(sent, error)))
        try:
            async with asyncio.timeout(FINISH_S):
                await self.finished.wait()
        except TimeoutError:
            return Lost("the server went away", read=True)
        return Lost("the server went away", read=self._child.outgoing.was_read(sent.id))

    def give_up(self) -> None:
        """It does not answer any more: end it without grace."""
        if self._child is not None:
            self._child.hopeless = True
        self.over.set()

    async def list_tools(self) -> list[Json]:
        """All of them, page by page, as the server sent them."""
        tools: list[Json] = []
        cursor: str | None = None
        room = MOST_LISTING_BYTES
        for _ in range(MOST_PAGES):
            sent = Sent()
            token = sent_for.set(sent)
            try:
                params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
                kept = {tool.name for tool in (await self._session.list_tools(params=params)).tools}
            finally:
                sent_for.reset(token)
            page = sent.answer.get("tools")
            for tool in cast(list[Json], page) if isinstance(page, list) else ():
                if unusable(tool) or tool["name"] in kept:
                    room -= _size(tool)
                    tools.append(tool)
            cursor = cast(str | None, sent.answer.get("nextCursor"))
            if len(tools) > MOST_TOOLS or room < 0:
                raise Overlong(f"it lists more than {MOST_TOOLS:,} tools, or {MOST_LISTING_BYTES:,} bytes of them")
            if not cursor:
                break
        return tools

    async def refresh(self) -> None:
        """List the tools again; what changes while that goes on is seen by one more listing, however often.

        A listing that does not come in time makes way for the next. Raises TimeoutError then.
        """
        if self._stale:
            return
        self._stale = True
        async with self._relist:
            if self._stale and not self.over.is_set():
                self._stale = False
                with anyio.fail_after(self._list_s):
                    tools = await self.list_tools() if "tools" in self.capabilities else []
                await self._hooks.listed(tools)

    async def _changed(self) -> None:
        try:
            await self.refresh()
        except (MCPError, ValidationError, Overlong, TimeoutError) as error:
            why = str(error) or f"it did not answer within {self._list_s:g} s"
            _log.warning("a server told that its tools changed, but they could not be listed: %s", why)

    async def on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            _log.debug("a message could not be read: %r", message)
            return
        self._silent = 0
        if isinstance(message, types.ToolListChangedNotification):
            await self._changed()
        dumped = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        self._hooks.notified(message.method, cast(Json, dumped.get("params") or {}))

    async def on_elicitation(self, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        assert self._hooks.elicited is not None
        sent = sent_for.get()
        asked = cast(Json, params.model_dump(by_alias=True, mode="json", exclude_none=True))
        try:
            answer = await self._hooks.elicited(asked, sent.owner if sent else None)
        except LookupError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        return types.ElicitResult.model_validate(answer)

    async def on_sampling(
        self, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        answer = await self._passed_on("sampling/createMessage", params)
        return answer if isinstance(answer, types.ErrorData) else types.CreateMessageResult.model_validate(answer)

    async def on_roots(self) -> types.ListRootsResult | types.ErrorData:
        answer = await self._passed_on("roots/list", None)
        return answer if isinstance(answer, types.ErrorData) else types.ListRootsResult.model_validate(answer)

    async def _passed_on(self, method: str, params: BaseModel | None) -> Json | types.ErrorData:
        """What only an MCP client behind us can answer is a question like any other, to be answered as it came."""
        assert self._hooks.elicited is not None
        sent = sent_for.get()
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True) if params else {}
        question: Json = {"requests": {method: {"method": method, "params": asked}}}
        try:
            answer = await self._hooks.elicited(question, sent.owner if sent else None)
        except LookupError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        return types.ErrorData(code=types.INVALID_REQUEST, message="nobody answers") if "action" in answer else answer

    async def watch(self) -> None:
        """In the modern era a server tells of changes only to those who listen."""
        told = cast(dict[str, Json], self.capabilities)
        tools, prompts, resources = (bool(told.get(what, {}).get("listChanged")) for what in _LISTS)
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


def _size(definition: Json) -> int:
    try:
        return len(msgspec.json.encode(definition))
    except RecursionError:
        return MOST_LISTING_BYTES


def _is_closed(error: MCPError) -> bool:
    """Whether this is the SDK's word for a connection that ended, and not a server's own use of the same code."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith(_CLOSED)


_LISTS = ("tools", "prompts", "resources")
Streams = Callable[[AsyncExitStack], Awaitable[tuple[Wire, Child | None]]]
"""Opens a transport on the stack: a wire, and the child behind it, if it is one."""


@asynccontextmanager
async def connected(
    streams: Streams, hooks: Hooks, *, connect_s: float, list_s: float, era: Era
) -> AsyncGenerator[Session]:
    """A session after its handshake and first listing. Raises what the transport, the SDK or a deadline raises."""
    finished, made = asyncio.Event(), list[Session]()
    async with AsyncExitStack() as stack:
        stack.callback(finished.set)
        began = monotonic()
        wire, child = await streams(stack)
        started = monotonic()
        client = ClientSession(
            dispatcher=wire,
            client_info=types.Implementation(name="toolyard", version=version("toolyard")),
            message_handler=lambda message: made[0].on_message(message),
            elicitation_callback=(lambda context, params: made[0].on_elicitation(params)) if hooks.elicited else None,
            sampling_callback=(lambda context, params: made[0].on_sampling(params))
            if "sampling" in hooks.claims
            else None,
            list_roots_callback=(lambda context: made[0].on_roots()) if "roots" in hooks.claims else None,
        )
        session = Session(wire, client, hooks, child, finished, list_s)
        made.append(session)
        await stack.enter_async_context(client)
        stack.callback(session.over.set)
        with anyio.fail_after(connect_s):
            await _negotiate(client, era)
        agreed = monotonic()
        await session.refresh()
        session.opened = Opened(started - began, agreed - started, monotonic() - agreed)
        async with anyio.create_task_group() as group:
            group.start_soon(session.watch)
            group.start_soon(_until_ended, wire, session)
            yield session
            group.cancel_scope.cancel()


async def _until_ended(wire: Wire, session: Session) -> None:
    await wire.ended.wait()
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
