"""`GET /me`: the authenticated caller, so that the web page can show what the caller may use."""

from litestar import get
from msgspec import Struct

from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context


class Me(Struct, kw_only=True):
    """The caller. `keyless` says that no keys exist: then every local request is made as the administrator."""

    user: str
    roles: list[str]
    tenant: str
    division: str
    key: str
    """The name of the API key, also of one that opened a session; empty without one."""
    keyless: bool
    model: str
    keeps_requests: bool
    max_file_bytes: int
    """The largest file that `POST /files/text` takes."""
    reads_documents: bool
    """Whether it takes Word, Excel, PowerPoint and HTML."""
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
        key=caller.key,
        keyless=access.is_local,
        model=service.models.default,
        keeps_requests=service.wire_log is not None,
        max_file_bytes=request.backend.max_file_bytes,
        reads_documents=service.documents.is_installed,
    )


ROUTES = (me,)
