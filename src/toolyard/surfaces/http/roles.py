"""Role checks for routes that only administrators or operators may use."""

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context


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
