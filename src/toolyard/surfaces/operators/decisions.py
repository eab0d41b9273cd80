"""`GET /decisions`: who approved or denied which call, newest first.

The audit log says which calls were decided and in which order; the log of each conversation says whether the decision
took effect, on which tool it was, and why.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import CallApproved, CallDenied, CallsRequested, Entry, RunQueued, TurnEnded
from toolyard.core.errors import NotFound
from toolyard.core.items import Call
from toolyard.core.store import ConversationCard
from toolyard.core.store.audit_chain import AuditAction, AuditEntry, AuditQuery, clean_reference
from toolyard.engine.service import Service
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.operators.audit import parse_cursor
from toolyard.surfaces.operators.runs import find_title

MAX_SCANNED = 300
"""How many decisions of the tenant one request reads; the `next` of a page continues from there."""
_Decisions = tuple[Sequence[tuple[float, CallApproved | CallDenied]], Mapping[str, str]]
ACTIONS: tuple[AuditAction, ...] = ("call.approve", "call.deny")


class DecisionView(Struct, frozen=True, kw_only=True):
    """A decision on a call. `conversation` and `title` are empty for one that the caller made but does not see."""

    conversation: str
    title: str
    call_id: str
    tool: str
    tool_title: str
    """The tool's title for people; empty if it has none, or if the name stands for no tool any more."""
    approved: bool
    by: str
    at: float
    reason: str
    edited: bool
    """Whether the arguments were changed."""


class DecisionPage(Struct, kw_only=True):
    """Decisions, and the `after` of the next page; `next` is null after the last one. A page may be short or empty."""

    decisions: list[DecisionView]
    count: int
    next: str | None
    success: bool = True


@get("/decisions", responses=ERRORS, tags=["traces"])
async def list_decisions(
    request: HttpRequest,
    limit: Annotated[int, QueryParameter(ge=1, le=100)] = 20,
    after: Annotated[str, QueryParameter(max_length=100, description="The `next` of the page before")] = "",
) -> DecisionPage:
    """List who approved or denied which call, and why, newest first.

    Users see the decisions on their own calls and those that they made; operators and approvers see those of their
    tenant. The list reaches as far back as the audit log is kept.
    """
    reader = DecisionReader(request.backend.service, get_request_context(request.scope).caller)
    return await reader.read_page(parse_cursor(after), limit)


ROUTES = (list_decisions,)


class DecisionReader:
    """Reads decisions for one caller. Each card and each log is read once; of a log, only its decisions are kept."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self._service = service
        self._caller = caller
        self._cards: dict[str, ConversationCard | None] = {}
        self._decisions: dict[str, _Decisions] = {}

    async def read_page(self, cursor: int, limit: int) -> DecisionPage:
        decisions: list[DecisionView] = []
        scanned = 0
        while entries := await self._read_entries(cursor, limit):
            for entry in entries:
                if decision := await self._build_decision(entry):
                    decisions.append(decision)
                cursor, scanned = entry.number, scanned + 1
                if len(decisions) >= limit or scanned >= MAX_SCANNED:
                    return DecisionPage(decisions=decisions, count=len(decisions), next=str(cursor))
        return DecisionPage(decisions=decisions, count=len(decisions), next=None)

    async def _read_entries(self, cursor: int, limit: int) -> list[AuditEntry]:
        """Return up to `limit` entries of both actions before the cursor, newest first."""
        entries: list[AuditEntry] = []
        for action in ACTIONS:
            query = AuditQuery(tenant=self._caller.tenant, action=action, outcome="allowed", cursor=cursor, limit=limit)
            entries += await self._service.read_audit(query)
        return sorted(entries, key=lambda entry: entry.number, reverse=True)[:limit]

    async def _build_decision(self, entry: AuditEntry) -> DecisionView | None:
        """Return the decision of an entry; None if the caller may not see it, or it did not take effect."""
        conversation, _, call_id = entry.target.partition("/")
        card = await self._find_card(conversation)
        if card is None and entry.actor != clean_reference(self._caller.user):
            return None
        decisions, tools = await self._read_decisions(conversation)
        for at, event in decisions:
            approved = isinstance(event, CallApproved)
            if (
                event.call_id != call_id
                or clean_reference(event.by) != entry.actor
                or approved != (entry.action == "call.approve")
            ):
                continue
            if card is None and event.by != self._caller.user:
                return None  # another user, whose name is the same once it is cleaned
            tool = tools.get(call_id, "")
            return DecisionView(
                conversation=card.id if card else "",
                title=card.title if card else "",
                call_id=call_id,
                tool=tool,
                tool_title=find_title(self._service, tool),
                approved=approved,
                by=event.by,
                at=at,
                reason=event.reason,
                edited=isinstance(event, CallApproved) and event.arguments is not None,
            )
        return None

    async def _find_card(self, conversation: str) -> ConversationCard | None:
        """Return the card of a conversation that the caller may see, else None."""
        if conversation not in self._cards:
            try:
                card = await self._service.conversations.require(conversation, self._caller, "see")
            except NotFound:
                card = None
            self._cards[conversation] = card
        return self._cards[conversation]

    async def _read_decisions(self, conversation: str) -> _Decisions:
        if conversation not in self._decisions:
            self._decisions[conversation] = _collect(await self._service.conversations.read_entries(conversation))
        return self._decisions[conversation]


def _collect(log: Iterable[Entry]) -> _Decisions:
    """Return the decisions of a log, and the tools of its calls by the id of the call."""
    decisions, tools = list[tuple[float, CallApproved | CallDenied]](), dict[str, str]()
    for entry in log:
        match entry.event:
            case CallApproved() | CallDenied():
                decisions.append((entry.at, entry.event))
            case RunQueued(input=items) | TurnEnded(items=items) | CallsRequested(calls=items):
                tools |= {item.id: item.tool for item in items if isinstance(item, Call)}
            case _:
                pass
    return decisions, tools
