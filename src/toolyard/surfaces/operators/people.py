"""`/people`: who is signed in to the web page, with which roles and from where; for administrators of their tenant."""

from typing import Annotated

from litestar import delete, get
from litestar.params import QueryParameter
from msgspec import Struct

from toolyard.core.errors import Forbidden, NotFound
from toolyard.engine.access.sessions import SignedInPerson
from toolyard.surfaces.http.authorization import require_admin
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest

PURPOSE = "people are listed for administrators"


class PersonList(Struct, kw_only=True):
    people: list[SignedInPerson]
    count: int
    success: bool = True


class SessionsEnded(Struct, kw_only=True):
    ended: int
    message: str
    success: bool = True


@get("/people", responses=ERRORS, tags=["keys"])
async def list_people(request: HttpRequest) -> PersonList:
    """List the people who are signed in to the web page, each once for each origin of their roles.

    `source` says where the roles come from: the key of that name, the groups at the identity provider, or a token.
    An administrator of a tenant sees the people of the tenant.
    """
    admin = require_admin(request, PURPOSE)
    people = await request.backend.sessions.list_people(admin.tenant or None)
    return PersonList(people=people, count=len(people))


@delete("/people/sessions", status_code=200, responses=ERRORS, audited_as="session.end", tags=["keys"])
async def end_sessions(
    request: HttpRequest,
    user: Annotated[str, QueryParameter(min_length=1, max_length=500)],
    tenant: Annotated[str, QueryParameter(max_length=500)] = "",
) -> SessionsEnded:
    """End all sessions of a person, at every replica. They may sign in again while their key or group allows it."""
    admin = require_admin(request, PURPOSE)
    if admin.tenant and tenant not in ("", admin.tenant):
        raise Forbidden("these people belong to another tenant")
    tenant = admin.tenant or tenant
    sessions = request.backend.sessions
    if not any(person.user == user for person in await sessions.list_people(tenant)):
        raise NotFound(f"nobody is signed in as {user[:80]!r}")
    async with request.backend.service.auditor.record("session.end", user, tenant=tenant, by=admin):
        ended = await sessions.end_all(user, tenant)
    return SessionsEnded(ended=ended, message=f"{ended} sessions of {user[:80]!r} have ended")


ROUTES = (list_people, end_sessions)
