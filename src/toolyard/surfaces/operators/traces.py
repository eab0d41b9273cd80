"""`GET /traces/{id}` and `GET /conversations/{id}/runs/{id}`: runs with their turns, calls and waits."""

from collections.abc import Sequence

from litestar import get
from litestar.params import FromPath
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import Entry
from toolyard.core.errors import Forbidden, NotFound
from toolyard.engine.service import Service
from toolyard.engine.service.feedback import RunFeedback
from toolyard.observability.trace import Trace, build_trace
from toolyard.observability.wire_log import RecordedTurn
from toolyard.surfaces.http.authorization import PathId
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

OPERATOR_ROLES = frozenset({"operator", "admin"})
MAX_RUNS = 100
"""How many runs of one correlation id are returned, the latest ones."""


class RunAnswer(Struct, frozen=True, kw_only=True):
    run: Trace
    feedback: RunFeedback | None = None
    """What the owner of the conversation thinks of the run."""
    success: bool = True


class TraceAnswer(Struct, frozen=True, kw_only=True):
    """The runs of one correlation id that the caller may see, oldest first; `earlier` counts those left out."""

    correlation_id: str
    runs: list[Trace]
    feedback: dict[str, RunFeedback]
    """What the owners of the conversations think of these runs, by the id of the run."""
    earlier: int = 0
    success: bool = True


class RecordedTurnAnswer(Struct, frozen=True, kw_only=True):
    turn: RecordedTurn
    success: bool = True


@get("/conversations/{conversation_id:str}/runs/{run_id:str}", responses=ERRORS, tags=["traces"])
async def show_run(request: HttpRequest, conversation_id: PathId, run_id: PathId) -> RunAnswer:
    """Return one run: its turns, calls and waits with their times. Ends are missing while the run is open."""
    service = request.backend.service
    await service.conversations.require(conversation_id, get_request_context(request.scope).caller, "see")
    trace = build_trace(await service.conversations.read_entries(conversation_id), run_id)
    if trace is None:
        raise NotFound(f"there is no run {run_id[:80]!r} in this conversation")
    return RunAnswer(run=trace, feedback=(await service.feedback.read(conversation_id)).get(run_id))


@get("/traces/{correlation_id:path}", responses=ERRORS, tags=["traces"])
async def show_trace(request: HttpRequest, correlation_id: PathId) -> TraceAnswer:
    """Return the runs of a correlation id that the caller may see: its own, or its tenant's for operators."""
    service = request.backend.service
    trace_id = correlation_id.removeprefix("/")
    runs = await find_visible_runs(service, trace_id, get_request_context(request.scope).caller)
    if not runs:
        raise NotFound(f"there is no trace {trace_id[:128]!r}")
    traces = await build_traces(service, runs[-MAX_RUNS:])
    return TraceAnswer(
        correlation_id=trace_id,
        runs=traces,
        feedback=await read_feedback(service, runs[-MAX_RUNS:]),
        earlier=max(0, len(runs) - MAX_RUNS),
    )


@get("/conversations/{conversation_id:str}/runs/{run_id:str}/turns/{number:int}", responses=ERRORS, tags=["traces"])
async def show_turn(
    request: HttpRequest, conversation_id: PathId, run_id: PathId, number: FromPath[int]
) -> RecordedTurnAnswer:
    """Return the model request and response of a turn, if `keep_requests` is on. For operators."""
    service = request.backend.service
    caller = get_request_context(request.scope).caller
    await service.conversations.require(conversation_id, caller, "see")
    if not caller.roles & OPERATOR_ROLES:
        raise Forbidden("requests to models are shown to the roles operator and admin only")
    turn = await service.wire_log.read(conversation_id, run_id, number) if service.wire_log else None
    if turn is None:
        raise NotFound("this turn was not kept; set keep_requests = true to keep the next ones")
    # The provider's URL and headers are part of the server's configuration, which a tenant's operators do not see.
    return RecordedTurnAnswer(turn=replace(turn, url="", headers={}) if caller.tenant else turn)


ROUTES = (show_run, show_trace, show_turn)


async def find_visible_runs(service: Service, correlation_id: str, caller: Caller) -> list[tuple[str, str]]:
    """Return the conversations and runs of a correlation id that the caller may see."""
    visible_runs: list[tuple[str, str]] = []
    can_see: dict[str, bool] = {}
    for conversation, run_id in await service.runs.find(correlation_id):
        if conversation not in can_see:
            can_see[conversation] = await _can_see(service, conversation, caller)
        if can_see[conversation]:
            visible_runs.append((conversation, run_id))
    return visible_runs


async def _can_see(service: Service, conversation: str, caller: Caller) -> bool:
    try:
        await service.conversations.require(conversation, caller, "see")
    except NotFound:
        return False
    return True


async def build_traces(service: Service, runs: Sequence[tuple[str, str]]) -> list[Trace]:
    """Return the traces of runs. The log of each conversation is read once, however many runs it has."""
    logs: dict[str, Sequence[Entry]] = {}
    for conversation, _ in runs:
        if conversation not in logs:
            logs[conversation] = await service.conversations.read_entries(conversation)
    traces = (build_trace(logs[conversation], run_id) for conversation, run_id in runs)
    return [trace for trace in traces if trace is not None]


async def read_feedback(service: Service, runs: Sequence[tuple[str, str]]) -> dict[str, RunFeedback]:
    """Return the feedback on runs. That of each conversation is read once."""
    feedback: dict[str, RunFeedback] = {}
    for conversation in {conversation for conversation, _ in runs}:
        rated = await service.feedback.read(conversation)
        feedback |= {run: rated[run] for owner, run in runs if owner == conversation and run in rated}
    return feedback
