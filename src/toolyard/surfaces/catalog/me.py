"""`GET /me`: the authenticated caller, so that the web page can show what the caller may use."""

from litestar import get
from msgspec import Struct

from toolyard.core.settings.model_cards import Price
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context


class Me(Struct, kw_only=True):
    """The caller. `keyless` says that no keys exist: then every local request is made as the administrator."""

    user: str
    roles: list[str]
    tenant: str
    division: str
    keyless: bool
    model: str
    prices: dict[str, Price]
    keeps_requests: bool
    success: bool = True


@get("/me", responses=ERRORS, tags=["server"])
async def me(request: HttpRequest) -> Me:
    """Return the authenticated caller, and the server settings that the web page needs."""
    service, access = request.backend.service, request.backend.access
    caller = get_request_context(request.scope).caller
    return Me(
        user=caller.user,
        roles=sorted(caller.roles),
        tenant=caller.tenant,
        division=caller.division,
        keyless=access.is_local,
        model=service.models.default,
        prices=dict(service.prices),
        keeps_requests=service.wire_log is not None,
    )


ROUTES = (me,)
