"""Checks that routes begin with: roles, access to the conversation, limits, the rate limit. Refusals are audited."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, cast

from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath
from litestar.types import Scope

from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import Forbidden, NotFound
from toolyard.core.settings.limits import Limits
from toolyard.core.store.audit_chain import AuditAction
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import build_rate_headers
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

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
        parts = cast(Mapping[str, object], values.get("path_params", {})).values()
        target = "/".join(str(part).strip("/") for part in parts)
        await record(action, target, get_request_context(values).caller)


PathId = FromPath[str]
MAX_TURNS = 10
"""The default number of tool turns of a chat, unless the conversation sets one or the server allows fewer."""


async def load_state(
    service: Service, conversation: str, caller: Caller, permission: Literal["see", "decide", "own"] = "own"
) -> State:
    """Return the state of a conversation. Raise NotFound if the caller lacks the permission, or it does not exist."""
    await service.conversations.require(conversation, caller, permission)
    state = await service.conversations.view(conversation)
    # It may have been deleted since the check above. It may also be deleted before the route submits its command: one
    # that may open a conversation then says `may_open=False`.
    if state.owner is None:
        raise NotFound("the conversation was deleted")
    return state


def resolve_max_turns(settings: Settings, server_limits: Limits) -> int:
    return settings.limits.turns_per_request if settings.limits else min(MAX_TURNS, server_limits.turns_per_request)


async def admit_request(service: Service, caller: Caller) -> dict[str, str]:
    """Count a request that starts a run, and return the rate-limit headers. Raise RateLimited if there are too many."""
    allowance, per_minute = await service.runs.admit(caller), service.runs.requests_per_minute(caller)
    if not per_minute:
        return {}
    return build_rate_headers(per_minute, allowance.remaining, (per_minute - allowance.remaining) * 60 / per_minute)


def require_server_admin(request: HttpRequest, purpose: str) -> Caller:
    """Return the caller if it administers the whole server, else raise Forbidden."""
    caller = get_request_context(request.scope).caller
    if not caller.administers_server:
        hint = f"; yours is of the tenant {caller.tenant!r}" if "admin" in caller.roles else ""
        raise Forbidden(f"{purpose}: that needs a key with the role admin and without a tenant{hint}")
    return caller


def require_server_observer(request: HttpRequest, purpose: str) -> Caller:
    """Return the caller if it may read data about all tenants, else raise Forbidden."""
    caller = get_request_context(request.scope).caller
    if not caller.observes_server:
        raise Forbidden(f"{purpose}: that needs a key with the role operator or admin and without a tenant")
    return caller


def require_admin(request: HttpRequest, purpose: str) -> Caller:
    """Return the caller if it administers the server or its own tenant, else raise Forbidden."""
    caller = get_request_context(request.scope).caller
    if "admin" not in caller.roles:
        raise Forbidden(f"{purpose}: that needs a key with the role admin")
    return caller
