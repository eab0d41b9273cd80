"""The SDK's dispatcher, with each answer kept as it came beside the request that it belongs to. It knows no session."""

import asyncio
import itertools
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import cast

import anyio
import anyio.abc
import mcp_types as types
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from toolyard.core.mcp_client import Capability
from toolyard.venues.mcp.catalog.definitions import find_defect
from toolyard.venues.mcp.outcomes import Json

_EMPTY_RESULTS: dict[str, Json] = {"tools/call": {"content": [], "resultType": "complete"}}


@dataclass(slots=True)
class SentRequest:
    """A request on its way, and its answer as it came."""

    owner: object = None
    """Whoever asks, so that a question of the server finds its way back."""
    id: int | str = 0
    answer: Json = field(default_factory=dict[str, object])
    status: int = 0
    """Over HTTP: the status of the answer."""
    transport_error: str = ""
    """Over HTTP: what went wrong on the way, if anything."""
    unreached: bool = False
    is_asked: bool = False
    """By somebody who is told what comes of it; what is not belongs to the session itself."""
    capabilities: frozenset[Capability] | None = None
    """What the calling client can be asked for; None for what the session says."""
    denial_reason: str = ""
    """Over HTTP: why the server does not do this for us, though it does other things."""


current_request: ContextVar[SentRequest | None] = ContextVar("sent", default=None)


def get_current_request() -> SentRequest | None:
    """The request on behalf of which this is running: the SDK carries it to where its answer is read."""
    return current_request.get()


class RecordingDispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, with the answers kept as they come and its end to be waited for."""

    ended: asyncio.Event
    _numbers: "itertools.count[int]"

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self.ended, self._numbers = asyncio.Event(), itertools.count(1)
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.ended.set()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, object] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: types.RequestId | None = None,
    ) -> dict[str, object]:
        options: CallOptions = opts if opts is not None else {}
        number = options.setdefault("request_id", next(self._numbers))
        sent = current_request.get()
        if sent is not None:
            sent.id = number
            params = _with_capabilities(params, sent.capabilities)
        answer = await super().send_raw_request(method, params, options, _related_request_id=_related_request_id)
        if sent is None:
            return answer
        sent.answer = answer
        return (
            _EMPTY_RESULTS[method]
            if method in _EMPTY_RESULTS
            else _strip_listing(answer)
            if method == "tools/list"
            else answer
        )


def _with_capabilities(
    params: Mapping[str, object] | None, capabilities: frozenset[Capability] | None
) -> Mapping[str, object] | None:
    """Return a request of the new era with the calling client's capabilities in place of the session's."""
    meta = (params or {}).get("_meta")
    stamped = cast(Json, meta).get(CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, dict) else None
    if capabilities is None or not isinstance(stamped, dict):  # the old era says them once, in its handshake
        return params
    claimed = {name: cast(Json, stamped).get(name, {}) for name in sorted(capabilities)}
    return {**(params or {}), "_meta": {**cast(Json, meta), CLIENT_CAPABILITIES_META_KEY: claimed}}


def _strip_listing(listing: Json) -> Json:
    """A listing with what the SDK needs to know of it: one bad definition must not hide the others."""
    tools = listing.get("tools")
    named = cast(list[Json], tools) if isinstance(tools, list) else []
    kept = [{"name": tool["name"], "inputSchema": tool["inputSchema"]} for tool in named if not find_defect(tool)]
    return {**listing, "tools": kept}
