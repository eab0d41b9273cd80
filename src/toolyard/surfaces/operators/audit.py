"""`/audit`: the audit log, for administrators: of the whole server, or each of their tenant."""

from typing import Annotated, Literal

from litestar import get
from litestar.params import QueryParameter
from msgspec import UNSET, Struct, UnsetType, convert
from msgspec.structs import replace

from toolyard.core.store.audit_chain import AuditAction, AuditEntry, AuditOutcome, AuditQuery
from toolyard.surfaces.http.authorization import require_admin, require_server_admin
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest

MAX_CURSOR_CHARS = 18
ShortText = Annotated[str, QueryParameter(max_length=500)]


class AuditEntryView(AuditEntry, frozen=True, kw_only=True):
    """An entry. `change` is there for a changed setting only: its values before and after, with masked secrets."""

    change: str | UnsetType = UNSET  # pyright: ignore[reportIncompatibleVariableOverride]


class AuditPage(Struct, kw_only=True):
    """Entries, and the `after` of the next page; `next` is null after the last one."""

    entries: list[AuditEntryView]
    count: int
    next: str | None
    success: bool = True


class AuditVerification(Struct, kw_only=True):
    """Whether the chain of hashes holds, and where it is broken otherwise."""

    intact: bool
    problem: str
    count: int
    """The entries that were checked."""
    last: AuditEntryView | None
    success: bool = True


@get("/audit", responses=ERRORS, tags=["audit"])
async def list_audit(
    request: HttpRequest,
    action: Annotated[AuditAction | Literal[""], QueryParameter()] = "",
    actor: Annotated[str, QueryParameter(max_length=500, description="The user who acted")] = "",
    outcome: Annotated[AuditOutcome | Literal[""], QueryParameter()] = "",
    tenant: ShortText = "",
    since: Annotated[float, QueryParameter(ge=0, description="Seconds since 1970")] = 0.0,
    order: Annotated[Literal["newest", "oldest"], QueryParameter(description="Which entries come first")] = "newest",
    limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
    after: Annotated[str, QueryParameter(max_length=100, description="The `next` of the page before")] = "",
) -> AuditPage:
    """List the audit log: changes, decisions, shares, exports and deletions.

    An administrator of a tenant sees its entries.

    The `hash` of an entry is the SHA-256 of its other fields, as JSON that is sorted by name and has no spaces. It
    leaves out `change`, whose own hash is the entry's `content_hash`.
    """
    admin = require_admin(request, "the audit log is for administrators")
    query = AuditQuery(
        tenant=admin.tenant or tenant or None,
        actor=actor,
        action=action,
        outcome=outcome,
        since=since,
        cursor=parse_cursor(after),
        oldest_first=order == "oldest",
        limit=limit,
    )
    entries = [build_entry_view(entry) for entry in await request.backend.service.read_audit(query)]
    is_last = len(entries) < limit
    return AuditPage(entries=entries, count=len(entries), next=None if is_last else str(entries[-1].number))


@get("/audit/verification", responses=ERRORS, tags=["audit"])
async def verify_audit(request: HttpRequest) -> AuditVerification:
    """Check that no entry was changed or removed since it was written, except those that were trimmed.

    Entries that were removed at the end leave no gap: compare `last` with the hash in the server's log. For an
    administrator without a tenant, as the chain holds the entries of all tenants.
    """
    require_server_admin(request, "the audit log is verified by administrators without a tenant")
    chain = await request.backend.service.auditor.verify()
    last = build_entry_view(chain.last) if chain.last else None
    return AuditVerification(intact=not chain.problem, problem=chain.problem, count=chain.count, last=last)


ROUTES = (list_audit, verify_audit)


def build_entry_view(entry: AuditEntry) -> AuditEntryView:
    return replace(convert(entry, AuditEntryView, from_attributes=True), change=entry.change or UNSET)


def parse_cursor(text: str) -> int:
    """Return the number of the last entry of the page before; 0 for the first page."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > MAX_CURSOR_CHARS:
        raise invalid_field("after", "this is not the `next` of a page")
    return int(text)
