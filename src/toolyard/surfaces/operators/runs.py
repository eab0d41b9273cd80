"""`GET /traces`, `/overview` and `/live`: list past runs, their statistics, and the runs that are open now.

Users see their own runs; operators and approvers may ask for those of their tenant. Whoever is named as an approver
of a call sees that call, and nothing else of its run.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.approvals import ApprovalView, build_approval_view
from toolyard.core.conversation.events import CallParked, Ending
from toolyard.core.conversation.run_state import CallState, Phase
from toolyard.core.conversation.run_view import RunStatus
from toolyard.core.conversation.state import State
from toolyard.core.items import Call, Outcome
from toolyard.core.store import KEPT, ConversationCard, ListPosition
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.trust import UntrustedSource
from toolyard.engine.service import Service
from toolyard.observability.digest import Digests, RunDigest
from toolyard.observability.overview import STEPS, Overview, build_overview
from toolyard.surfaces.http.list_position import encode_position, parse_position
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.surface import Backend

PAGE_SIZE = 50
MIN_HOURS = 0.01
"""A shorter overview has no steps to show."""
MAX_SCANNED = 1000
"""How many conversations one request scans; the `next` of a list continues from there."""
MAX_RUNS_PER_CONVERSATION = 50
"""How many runs of one conversation a list shows, the latest ones, unless it is filtered by that conversation."""

Text = Annotated[str, QueryParameter(max_length=500)]
Whose = Annotated[
    Literal["mine", "tenant"],
    QueryParameter(description="`tenant` lists the runs of all users of the tenant, for operators and approvers"),
]


LiveWhose = Annotated[
    Literal["mine", "tenant", "deciding"],
    QueryParameter(
        description="`tenant` lists the runs of all users of the tenant, for operators and approvers; `deciding` the "
        "calls of the tenant that wait for a decision of the caller"
    ),
]


class RunQuery(Struct, frozen=True, kw_only=True):
    """A filter for runs; an empty field matches every run."""

    user: str = ""
    tool: str = ""
    outcome: Outcome | Literal[""] = ""
    ending: Ending | Literal[""] = ""

    def matches(self, run: RunDigest) -> bool:
        if (self.user and run.user != self.user) or (self.ending and run.ending != self.ending):
            return False
        if not self.tool and not self.outcome:
            return True
        return any(
            (not self.tool or call.tool == self.tool) and (not self.outcome or call.outcome == self.outcome)
            for call in run.calls
        )


class RunList(Struct, kw_only=True):
    """Runs by conversation, the most recently changed first. `next` is the `after` of the next page."""

    runs: list[RunDigest]
    count: int
    next: str | None
    success: bool = True


class OverviewAnswer(Struct, kw_only=True):
    """`complete` is always true: figures are kept as they happen."""

    overview: Overview
    complete: bool = True
    success: bool = True


class OpenCall(Struct, kw_only=True):
    """A call that has no result yet. `call` and `parked` are null unless details were asked for."""

    id: str
    tool: str
    title: str = ""
    """The title of the tool, for people; empty if it has none."""
    phase: Phase
    expires_at: float
    waits_for: Literal["", "approval", "answer", "application"]
    """Whom the call waits for: somebody who approves it, somebody who answers its question, or the application."""
    call: Call | None = None
    parked: CallParked | None = None
    sources: tuple[UntrustedSource, ...] = ()
    """The untrusted content before a call that waits for an approval; empty unless details were asked for."""
    terms: ApprovalTerms | None = None
    approval: ApprovalView | None = None
    """Who may decide a call that waits for an approval, how many are left and until when."""
    parent: str = ""
    """The call that runs the program which asked for this one; empty for any other call."""
    line: int = 0
    """The line of the program that makes the call."""


class OpenRun(Struct, kw_only=True):
    """A run that is running or waiting, with its open calls."""

    conversation: str
    title: str
    user: str
    run_id: str
    correlation_id: str
    status: RunStatus
    model: str
    started_at: float
    queued: int
    calls: list[OpenCall]
    budget: str
    """The budget that the run waits for, until its amount is raised; empty if it waits for no budget."""
    may_stop: bool
    """Whether the caller may stop the run: its owner and the approvers of the tenant may, operators may not."""


class LiveAnswer(Struct, kw_only=True):
    runs: list[OpenRun]
    count: int
    success: bool = True


def build_digests(backend: Backend) -> Digests:
    return Digests(backend.service.conversations.read_entries)


@get("/traces", responses=ERRORS, tags=["traces"])
async def list_runs(
    request: HttpRequest,
    conversation: Text = "",
    user: Text = "",
    tool: Text = "",
    outcome: Annotated[Outcome | Literal[""], QueryParameter()] = "",
    ending: Annotated[Ending | Literal[""], QueryParameter()] = "",
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 50,
    after: Annotated[str, QueryParameter(max_length=1000, description="The `next` of the page before")] = "",
    whose: Whose = "mine",
) -> RunList:
    """List runs, optionally by conversation, user, tool, outcome of a call, or ending."""
    service, digests = request.backend.service, request.backend.share(build_digests)
    caller = get_request_context(request.scope).caller
    query = RunQuery(user=user, tool=tool, outcome=outcome, ending=ending)
    if conversation:
        card = await service.conversations.require(conversation, caller, "see")
        runs = [run for run in await digests.list_runs(card) if query.matches(run)][:MAX_SCANNED]
        return RunList(runs=runs, count=len(runs), next=None)
    return await find_runs(service, digests, caller, query, limit, parse_position(after), everyone=whose == "tenant")


@get("/overview", responses=ERRORS, tags=["traces"])
async def show_overview(
    request: HttpRequest,
    hours: Annotated[float, QueryParameter(ge=MIN_HOURS, le=24 * 90)] = 24.0,
    whose: Whose = "mine",
) -> OverviewAnswer:
    """Return runs, errors, tokens and latencies of the last hours, by tool and by model."""
    service = request.backend.service
    caller, until = get_request_context(request.scope).caller, service.clock.now()
    since = until - hours * 3600
    steps = await service.read_figures(caller, since, until, points=STEPS, everyone=whose == "tenant")
    return OverviewAnswer(overview=await asyncio.to_thread(build_overview, steps, since, until))


@get("/live", responses=ERRORS, tags=["traces"])
async def show_live(
    request: HttpRequest,
    whose: LiveWhose = "mine",
    details: Annotated[bool, QueryParameter(description="Whether to add arguments and questions of calls")] = False,
) -> LiveAnswer:
    """List the runs that are running or waiting now."""
    service = request.backend.service
    caller = get_request_context(request.scope).caller
    if whose == "deciding":
        cards = await service.conversations.list_waiting(caller)
    else:
        cards = await service.conversations.list_open(caller, everyone=whose == "tenant")
    states = [(card, await service.conversations.view(card.id)) for card in cards]
    runs = [run for card, state in states if (run := build_open_run(card, state, caller, details=details))]
    for call in (call for run in runs for call in run.calls):
        call.title = find_title(service, call.tool)
    if whose == "deciding":
        runs = [run for run in map(_keep_decidable, runs) if run.calls]
    runs.sort(key=lambda run: run.started_at)
    return LiveAnswer(runs=runs, count=len(runs))


ROUTES = (list_runs, show_overview, show_live)


async def find_runs(
    service: Service,
    digests: Digests,
    caller: Caller,
    query: RunQuery,
    limit: int,
    after: ListPosition | None,
    *,
    everyone: bool,
) -> RunList:
    """Return a page of runs that match. It ends between conversations, so it may have a few more than `limit`."""
    runs: list[RunDigest] = []
    looked_at = 0
    while cards := await _read_next_cards(service, caller, after, everyone=everyone):
        for card in cards:
            runs += [run for run in (await digests.list_runs(card))[:MAX_RUNS_PER_CONVERSATION] if query.matches(run)]
            after, looked_at = card.position, looked_at + 1
            if len(runs) >= limit or looked_at >= MAX_SCANNED:
                return RunList(runs=runs, count=len(runs), next=encode_position(after))
    return RunList(runs=runs, count=len(runs), next=None)


async def _read_next_cards(
    service: Service, caller: Caller, after: ListPosition | None, *, everyone: bool
) -> Sequence[ConversationCard]:
    """Return the next page of conversations, the most recently changed first."""
    return await service.conversations.list_cards(
        caller, after=after, limit=PAGE_SIZE, everyone=everyone, unlisted=True, places=KEPT
    )


def build_open_run(card: ConversationCard, state: State, caller: Caller, *, details: bool = False) -> OpenRun | None:
    run, owner = state.run, Caller(user=card.user, tenant=card.tenant)
    if run is None:
        return None
    calls = [
        build_open_call(state, call, caller, details=details) for call in state.calls.values() if call.phase != "closed"
    ]
    return OpenRun(
        conversation=card.id,
        # The title may be the first message, and whoever is named as an approver need not see the conversation.
        title=card.title if caller.may_see(owner) else "",
        user=run.request.caller.user,
        run_id=run.id,
        correlation_id=run.correlation_id,
        status="running" if run.suspended_at is None else "waiting",
        model=run.model,
        started_at=run.started_at,
        queued=len(state.queue),
        calls=calls,
        budget=run.awaited_budget,
        may_stop=caller.may_decide_for(owner),
    )


def find_title(service: Service, name: str) -> str:
    """Return the title of the server's tool of this name; empty if it has none, or there is no such tool."""
    tool = service.tools.find(name)
    return tool.title if tool else ""


def _keep_decidable(run: OpenRun) -> OpenRun:
    """Return the run with the calls that its reader may decide: an approver of one call need not see the others."""
    return replace(run, calls=[call for call in run.calls if call.approval is not None and call.approval.may_decide])


def build_open_call(state: State, call: CallState, caller: Caller, *, details: bool) -> OpenCall:
    return OpenCall(
        id=call.call.id,
        tool=call.call.tool,
        phase=call.phase,
        expires_at=call.expires_at,
        waits_for=find_waited_for(call),
        # Whoever is asked again after an edit decides on the edited arguments.
        call=replace(call.call, arguments=call.arguments) if details else None,
        parked=call.parked if details else None,
        sources=call.sources if details else (),
        terms=call.terms if call.phase == "asking" else None,
        approval=build_approval_view(state, call, caller),
        parent=call.parent,
        line=call.line,
    )


def find_waited_for(call: CallState) -> Literal["", "approval", "answer", "application"]:
    if call.phase == "asking":
        return "approval"
    if call.phase != "parked" or call.parked is None:
        return ""
    return "answer" if call.parked.kind == "question" else "application"
