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
from toolyard.observability.trace import Trace, build_trace
from toolyard.observability.wire_log import RecordedTurn
from toolyard.surfaces.authorization import PathId
from toolyard.surfaces.openapi import ERRORS
from toolyard.surfaces.request_context import HttpRequest, get_request_context

OPERATOR_ROLES = frozenset({"operator", "admin"})
MAX_RUNS = 100
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


class RecordedTurnAnswer(Struct, frozen=True, kw_only=True):
    turn: RecordedTurn
    success: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    @get("/conversations/{conversation_id:str}/runs/{run_id:str}", responses=ERRORS, tags=["traces"])
    async def show_run(request: HttpRequest, conversation_id: PathId, run_id: PathId) -> RunAnswer:
        """One run: its turns, calls and waits with their times. A run that is still open has open ends."""
        await service.require_conversation(conversation_id, get_request_context(request.scope).caller, "see")
        trace = build_trace(await service.read_entries(conversation_id), run_id)
        if trace is None:
            raise NotFound(f"there is no run {run_id[:80]!r} in this conversation")
        return RunAnswer(run=trace)

    @get("/traces/{correlation_id:path}", responses=ERRORS, tags=["traces"])
    async def show_trace(request: HttpRequest, correlation_id: PathId) -> TraceAnswer:
        """Every run under a correlation id that the caller may see: their own, or their tenant's for its operators."""
        wanted = correlation_id.removeprefix("/")
        runs = await find_visible_runs(service, wanted, get_request_context(request.scope).caller)
        if not runs:
            raise NotFound(f"there is no trace {wanted[:128]!r}")
        traces = await build_traces(service, runs[-MAX_RUNS:])
        return TraceAnswer(correlation_id=wanted, runs=traces, earlier=max(0, len(runs) - MAX_RUNS))

    @get("/conversations/{conversation_id:str}/runs/{run_id:str}/turns/{number:int}", responses=ERRORS, tags=["traces"])
    async def show_turn(
        request: HttpRequest, conversation_id: PathId, run_id: PathId, number: FromPath[int]
    ) -> RecordedTurnAnswer:
        """What was sent to the model for a turn and what came back, where `keep_requests` is on. For operators."""
        caller = get_request_context(request.scope).caller
        await service.require_conversation(conversation_id, caller, "see")
        if not caller.roles & OPERATOR_ROLES:
            raise Forbidden("what is sent to models is shown to the roles operator and admin")
        kept = await service.wire_log.read(conversation_id, run_id, number) if service.wire_log else None
        if kept is None:
            raise NotFound("this turn was not kept; set keep_requests = true to keep the next ones")
        # Where and how the provider is reached is the server's business, which a tenant's operators do not see.
        return RecordedTurnAnswer(turn=replace(kept, url="", headers={}) if caller.tenant else kept)

    return [show_run, show_trace, show_turn]


async def find_visible_runs(service: Service, correlation_id: str, caller: Caller) -> list[tuple[str, str]]:
    """The conversations and runs of this id that the caller may see."""
    found: list[tuple[str, str]] = []
    may: dict[str, bool] = {}
    for conversation, run_id in await service.find_runs(correlation_id):
        if conversation not in may:
            may[conversation] = await _can_see(service, conversation, caller)
        if may[conversation]:
            found.append((conversation, run_id))
    return found


async def _can_see(service: Service, conversation: str, caller: Caller) -> bool:
    try:
        await service.require_conversation(conversation, caller, "see")
    except NotFound:
        return False
    return True


async def build_traces(service: Service, runs: Sequence[tuple[str, str]]) -> list[Trace]:
    """Each conversation's log is read once, however many of its runs are asked for."""
    logs: dict[str, Sequence[Entry]] = {}
    for conversation, _ in runs:
        if conversation not in logs:
            logs[conversation] = await service.read_entries(conversation)
    found = (build_trace(logs[conversation], run_id) for conversation, run_id in runs)
    return [trace for trace in found if trace is not None]
