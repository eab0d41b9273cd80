"""`GET /traces/{id}` and `GET /conversations/{id}/runs/{id}`: runs with turns, calls and waits. It draws nothing."""

from collections.abc import Sequence

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, NotFound
from toolyard.core.events import Entry
from toolyard.engine.service import Service
from toolyard.observability.trace import Trace, trace_of
from toolyard.observability.wire_log import KeptTurn
from toolyard.surfaces.authorization import PathId
from toolyard.surfaces.openapi import ERRORS
from toolyard.surfaces.request_context import Visitor, visit_of

OPERATORS = frozenset({"operator", "admin"})
MOST_RUNS = 100
"""How many runs of one correlation id are shown: its latest."""


class RunAnswer(Struct, frozen=True, kw_only=True):
    run: Trace
    success: bool = True


class TraceAnswer(Struct, frozen=True, kw_only=True):
    """The runs of one correlation id that the caller may see, oldest first; `earlier` counts those left out."""

    correlation_id: str
    runs: list[Trace]
    earlier: int = 0
    success: bool = True


class KeptTurnAnswer(Struct, frozen=True, kw_only=True):
    turn: KeptTurn
    success: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    @get("/conversations/{conversation_id:str}/runs/{run_id:str}", responses=ERRORS, tags=["traces"])
    async def show_run(request: Visitor, conversation_id: PathId, run_id: PathId) -> RunAnswer:
        """One run: its turns, calls and waits with their times. A run that is still open has open ends."""
        await service.known(conversation_id, visit_of(request.scope).caller, "see")
        trace = trace_of(await service.entries(conversation_id), run_id)
        if trace is None:
            raise NotFound(f"there is no run {run_id[:80]!r} in this conversation")
        return RunAnswer(run=trace)

    @get("/traces/{correlation_id:path}", responses=ERRORS, tags=["traces"])
    async def show_trace(request: Visitor, correlation_id: PathId) -> TraceAnswer:
        """Every run under a correlation id that the caller may see: their own, or their tenant's for its operators."""
        wanted = correlation_id.removeprefix("/")
        runs = await seen(service, wanted, visit_of(request.scope).caller)
        if not runs:
            raise NotFound(f"there is no trace {wanted[:128]!r}")
        traces = await traces_of(service, runs[-MOST_RUNS:])
        return TraceAnswer(correlation_id=wanted, runs=traces, earlier=max(0, len(runs) - MOST_RUNS))

    @get("/conversations/{conversation_id:str}/runs/{run_id:str}/turns/{number:int}", responses=ERRORS, tags=["traces"])
    async def show_turn(
        request: Visitor, conversation_id: PathId, run_id: PathId, number: FromPath[int]
    ) -> KeptTurnAnswer:
        """What was sent to the model for a turn and what came back, where `keep_requests` is on. For operators."""
        caller = visit_of(request.scope).caller
        await service.known(conversation_id, caller, "see")
        if not caller.roles & OPERATORS:
            raise Forbidden("what is sent to models is shown to the roles operator and admin")
        kept = await service.keeper.kept(conversation_id, run_id, number) if service.keeper else None
        if kept is None:
            raise NotFound("this turn was not kept; set keep_requests = true to keep the next ones")
        # Where and how the provider is reached is the server's business, which a tenant's operators do not see.
        return KeptTurnAnswer(turn=replace(kept, url="", headers={}) if caller.tenant else kept)

    return [show_run, show_trace, show_turn]


async def seen(service: Service, correlation_id: str, caller: Caller) -> list[tuple[str, str]]:
    """The conversations and runs of this id that the caller may see."""
    found: list[tuple[str, str]] = []
    may: dict[str, bool] = {}
    for conversation, run_id in await service.traced(correlation_id):
        if conversation not in may:
            may[conversation] = await _may_see(service, conversation, caller)
        if may[conversation]:
            found.append((conversation, run_id))
    return found


async def _may_see(service: Service, conversation: str, caller: Caller) -> bool:
    try:
        await service.known(conversation, caller, "see")
    except NotFound:
        return False
    return True


async def traces_of(service: Service, runs: Sequence[tuple[str, str]]) -> list[Trace]:
    """Each conversation's log is read once, however many of its runs are asked for."""
    logs: dict[str, Sequence[Entry]] = {}
    for conversation, _ in runs:
        if conversation not in logs:
            logs[conversation] = await service.entries(conversation)
    found = (trace_of(logs[conversation], run_id) for conversation, run_id in runs)
    return [trace for trace in found if trace is not None]
