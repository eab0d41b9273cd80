"""The SDK's JSON-RPC dispatcher, extended to keep each raw answer with the request that it belongs to."""

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

from toolyard.core.json_types import Json, is_object
from toolyard.core.tools.mcp_servers import Capability
from toolyard.venues.mcp.catalog.definitions import find_defect, mend_schema

_EMPTY_RESULTS: dict[str, Json] = {"tools/call": {"content": [], "resultType": "complete"}}
"""Results that the SDK gets in place of the real ones; see `RecordingDispatcher.send_raw_request`."""


@dataclass(slots=True)
class SentRequest:
    """A request that was sent, and its answer as it came."""

    owner: object = None
    """The call that the request belongs to, so that a question of the server can be attributed to it."""
    id: int | str = 0
    answer: Json = field(default_factory=dict[str, object])
    status: int = 0
    """Over HTTP: the status of the response."""
    transport_error: str = ""
    """Over HTTP: why no response of the server came; empty if one came."""
    unreached: bool = False
    """Over HTTP: whether the request certainly did not reach the server's application."""
    is_asked: bool = False
    """Whether a caller waits for the answer; False for the session's own requests, such as a listing."""
    capabilities: frozenset[Capability] | None = None
    """The calling client's capabilities; None to announce those of the session."""
    denial_reason: str = ""
    """Over HTTP: why the server denies this request, while the session stays usable."""


current_request: ContextVar[SentRequest | None] = ContextVar("sent", default=None)


def get_current_request() -> SentRequest | None:
    """Return the request on whose behalf the current code runs; the SDK passes the context on to its transport."""
    return current_request.get()


class RecordingDispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, which also records raw answers and sets an event when it has ended."""

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
        # The id is chosen here, so that it is known before the request is written: if the child dies meanwhile, its
        # pipe is asked whether this very request was read.
        request_id = options.setdefault("request_id", next(self._numbers))
        sent = current_request.get()
        if sent is not None:
            sent.id = request_id
            params = _with_capabilities(params, sent.capabilities)
        answer = await super().send_raw_request(method, params, options, _related_request_id=_related_request_id)
        if sent is None:
            return answer
        # The caller reads the raw answer from `sent`. The SDK gets only what it needs: its models would drop unknown
        # fields, copy large contents twice, and reject a whole listing for one bad definition.
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
    """Return the parameters of a request of the new era with the calling client's capabilities."""
    meta = (params or {}).get("_meta")
    stamped = meta.get(CLIENT_CAPABILITIES_META_KEY) if is_object(meta) else None
    if capabilities is None or not is_object(meta) or not is_object(stamped):
        return params  # the old era announces them once, in its handshake
    claimed = {name: stamped.get(name, {}) for name in sorted(capabilities)}
    return {**(params or {}), "_meta": {**meta, CLIENT_CAPABILITIES_META_KEY: claimed}}


def _strip_listing(listing: Json) -> Json:
    """Return a listing with only the sound definitions, and of them only the fields that the SDK needs."""
    listed = listing.get("tools")
    tools = cast(list[Json], listed) if isinstance(listed, list) else []
    stripped = [
        {"name": tool["name"], "inputSchema": _strip_schema(cast(Json, tool["inputSchema"]))}
        for tool in tools
        if not find_defect(tool)
    ]
    return {**listing, "tools": stripped}


def _strip_schema(schema: Json) -> Json:
    """Return a schema that the SDK's model of a listing takes, with all that the SDK reads of it: `x-mcp-header`.

    One that is not valid is not for the SDK to reject: it would reject the whole listing.
    """
    stripped = {name: value for name, value in mend_schema(schema).items() if name not in ("$schema", "required")}
    properties = stripped.pop("properties", None)
    if is_object(properties):
        stripped["properties"] = {name: value for name, value in properties.items() if isinstance(value, dict | bool)}
    return stripped
