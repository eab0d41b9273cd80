"""`GET /access`: which rule lets a caller use a tool, or keeps it from them, and why."""

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound
from toolyard.engine.access.authentication import Authenticator
from toolyard.engine.access.explanation import AccessExplanation
from toolyard.surfaces.http.authorization import require_admin
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

Name = Annotated[str, QueryParameter(max_length=200)]


class AccessAnswer(Struct, kw_only=True):
    access: AccessExplanation
    success: bool = True


@get("/access", responses=ERRORS, tags=["tools"])
async def explain_access(request: HttpRequest, tool: Name, key: Name = "") -> AccessAnswer:
    """Explain whether the caller, or the owner of a key that an administrator names, may use a tool."""
    service, access = request.backend.service, request.backend.access
    caller = get_request_context(request.scope).caller
    if key:
        admin = require_admin(request, "the access of a key is explained to administrators")
        caller = find_visible_caller(access, key, admin)
    return AccessAnswer(access=service.tools.explain_access(caller, tool))


ROUTES = (explain_access,)


def find_visible_caller(access: Authenticator, key: str, admin: Caller) -> Caller:
    """Return the caller of a key that this administrator manages. Raise NotFound for any other."""
    caller = access.find_caller(key)
    if caller is None or admin.tenant not in ("", caller.tenant):
        raise NotFound(f"there is no key named {key!r}")
    return caller
