"""Starts the run of a request that brings its whole history, or joins the one that an earlier sending has started."""

import logging
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.commands import Delete
from toolyard.core.errors import ToolyardError
from toolyard.core.items import Call, Item
from toolyard.core.options import Options
from toolyard.core.tools import Tool
from toolyard.engine.requests import KeyLocks
from toolyard.engine.service import Service, StartedRun
from toolyard.surfaces.authorization import admit_request
from toolyard.surfaces.errors import invalid_field
from toolyard.surfaces.idempotency import REPLAYED_HEADERS
from toolyard.surfaces.openai.errors import rename_rate_headers
from toolyard.surfaces.openai.models import resolve_model
from toolyard.surfaces.openai.options import ToolyardFields
from toolyard.surfaces.openai.request_keys import RequestIdentity, find_earlier, identify_request
from toolyard.surfaces.openai.waiting_runs import find_conversation, load_waiting, merge_waiting_run
from toolyard.surfaces.request_context import HttpRequest, get_request_context

_log = logging.getLogger("toolyard.openai")


class WholeRequest(Struct, frozen=True, kw_only=True):
    """A request that brings its whole history: its messages, tools and options are the truth."""

    items: Sequence[Item]
    tools: Sequence[Tool]
    model: str
    tool_choice: str
    options: Options
    server_tools: frozenset[str] | None
    """The server's tools that may be used; None means all of the caller's."""
    keep: bool = False
    """Whether the conversation is kept after its run."""


class AdmittedRun(Struct, frozen=True, kw_only=True):
    """The run that answers a request, and the headers of the response."""

    started: StartedRun
    headers: dict[str, str]


class RunStarter:
    """Starts runs for requests, each once however often it is sent."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._locks = KeyLocks()

    async def start(self, http_request: HttpRequest, request: WholeRequest) -> AdmittedRun:
        """Start a run, or join that of an earlier sending. The caller detaches the reader."""
        conversation = find_conversation(_list_last_calls(request.items))
        identity = await identify_request(http_request, delivered_to=conversation)
        correlation_id = get_request_context(http_request.scope).correlation_id
        async with self._locks.hold(identity.lock_key):
            if record := await find_earlier(self._service, identity):
                started = await self._service.follow_request(record, include_argument_deltas=False)
                headers = {"x-request-id": correlation_id, **REPLAYED_HEADERS}
                return AdmittedRun(started=started, headers=headers)
            headers = await self._admit(http_request)
            started = await self._start(http_request, request, identity, conversation)
        return AdmittedRun(started=started, headers={**headers, "x-request-id": correlation_id})

    async def _admit(self, http_request: HttpRequest) -> dict[str, str]:
        caller = get_request_context(http_request.scope).caller
        return rename_rate_headers(await admit_request(self._service, caller))

    async def _start(
        self, http_request: HttpRequest, request: WholeRequest, identity: RequestIdentity, waiting_id: str
    ) -> StartedRun:
        service, context = self._service, get_request_context(http_request.scope)
        target, items = service.clock.new_id("conversation"), request.items
        waiting = await load_waiting(service, waiting_id, context.caller) if waiting_id else None
        if waiting is not None:
            items = merge_waiting_run(items, waiting, service.clock.now())
            await service.copy_blobs(waiting_id, target, items)
        settings = replace(
            service.default_settings,
            ephemeral=not request.keep,
            unlisted=not request.keep,
            tools=request.server_tools if request.server_tools is not None else service.default_settings.tools,
        )
        start = service.build_start(
            context.caller,
            items,
            correlation_id=context.correlation_id,
            tool_choice=request.tool_choice,
            model=resolve_model(request.model),
            settings=settings,
            app_tools=request.tools,
            options=request.options,
            ends_on_expiry=True,
            request=identity.build_key(service.clock),
        )
        started = await service.start_run(target, start, include_argument_deltas=False)
        if waiting is not None and not started.repeated:
            await self._end_waiting(waiting_id, http_request)
        return started

    async def _end_waiting(self, conversation: str, http_request: HttpRequest) -> None:
        """Delete the conversation that a new run goes on from. If that fails, its run ends when its calls expire."""
        try:
            await self._service.submit(conversation, Delete(by=get_request_context(http_request.scope).caller))
        except ToolyardError as error:
            _log.warning("conversation %s waits until its calls expire: %s", conversation, error)


def read_server_tools(fields: ToolyardFields | None, service: Service, caller: Caller) -> frozenset[str] | None:
    """Return the names of the server's tools that a request allows; None means all. Raise Invalid for unknown ones."""
    choice = fields.server_tools if fields else "all"
    match choice:
        case "all":
            return None
        case "none":
            return frozenset()
        case str():
            raise invalid_field("toolyard.server_tools", 'must be "all", "none" or a list of names')
        case names:
            known = {tool.name for tool in service.list_tools(caller)}
            if unknown := [name for name in names if name not in known]:
                raise invalid_field("toolyard.server_tools", f"there is no tool {unknown[0][:80]!r}")
            return frozenset(names)


def _list_last_calls(items: Sequence[Item]) -> list[str]:
    """Return the client's ids of the last calls in a history."""
    return [item.provider_id for item in reversed(items) if isinstance(item, Call)][:1]
