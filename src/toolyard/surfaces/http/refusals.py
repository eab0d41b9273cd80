"""Attempts that a route refuses, in the audit log: routes name the action with the option `audited_as`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from litestar.handlers import BaseRouteHandler
from litestar.types import Scope

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden
from toolyard.core.store.audit_chain import AuditAction
from toolyard.surfaces.http.request_context import get_request_context

RecordRefusal = Callable[[AuditAction, str, Caller], Awaitable[None]]
"""Records an attempt: its action, its target and who has made it."""
RECORDER_KEY = "toolyard.record_refusal"
"""The key in the ASGI scope of the `RecordRefusal` of the service that answers."""


async def record_refusal(error: Exception, scope: Scope) -> None:
    """Record a request which its caller has no right to. Litestar calls this for every exception, before it answers."""
    if not isinstance(error, Forbidden):
        return
    values = cast(Mapping[str, object], scope)
    handler = cast("BaseRouteHandler | None", values.get("route_handler"))
    action = cast("AuditAction | None", handler.opt.get("audited_as")) if handler is not None else None
    record = cast("RecordRefusal | None", values.get(RECORDER_KEY))
    if action is not None and record is not None:
        target = "/".join(map(str, cast(Mapping[str, object], values.get("path_params", {})).values()))
        await record(action, target, get_request_context(values).caller)
