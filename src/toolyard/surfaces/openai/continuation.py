"""Starts the run of a request that goes on in a stored conversation, whose log is the truth."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.run_view import OpenRuns, RunView
from toolyard.core.errors import NotFound, Refused
from toolyard.core.items import UserMessage
from toolyard.core.ports import Failure, Value
from toolyard.engine.log.open_runs import load_open_runs
from toolyard.engine.service import Service
from toolyard.surfaces.http.authorization import admit_request
from toolyard.surfaces.http.errors import FieldNotFound, invalid_field
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.openai.errors import name_headers
from toolyard.surfaces.shared.call_ids import encode_call_id, is_own_conversation, parse_call_id
from toolyard.surfaces.shared.runs.followed_run import follow_run
from toolyard.surfaces.shared.whole_history.earlier_runs import let_go
from toolyard.surfaces.shared.whole_history.request_keys import identify_request
from toolyard.surfaces.shared.whole_history.run_starter import AdmittedRun, ParsedRequest, RunStarter, admit_started
from toolyard.surfaces.surface import Backend


class Continuation(Struct, frozen=True, kw_only=True):
    """The conversation that a request goes on in, and the run that its results are for."""

    conversation: str
    waiting: RunView | None = None
    """The run that waits now, for its client or for a person."""
    fork_after: str = ""
    """The run after which the conversation is to be forked, since others have gone on from there."""


class ContinuedRequest(Struct, frozen=True, kw_only=True):
    """A request that goes on in a conversation."""

    conversation: str
    outputs: Mapping[str, Value]
    """The results that it brings, as texts with images and files, by the client's ids of the calls."""
    output_field: str
    output_name: str
    """The field that holds them and what they are called there, for errors."""
    find: Callable[[], Awaitable[Continuation]]
    """Returns where the request goes on."""
    read: Callable[[frozenset[str]], Awaitable[ParsedRequest]]
    """Returns what is new in the request, without the results of the calls with these ids."""
    has_decisions: bool = False
    """Whether it has decided calls, which it can do only once."""


def build_starter(backend: Backend) -> RunStarter:
    return RunStarter(backend, name_headers)


async def start_continued(
    service: Service, starter: RunStarter, http_request: HttpRequest, request: ContinuedRequest
) -> AdmittedRun:
    """Start a run in a conversation, or join that of an earlier sending. The caller detaches the reader.

    While a run of the conversation goes on, the new one is queued. What waits for nobody but its user is let go for a
    new message. While others have to decide, nothing is started: the run that waits answers the request.
    """
    context = get_request_context(http_request.scope)
    identity = await identify_request(http_request, is_delivery=bool(request.outputs) or request.has_decisions)
    async with starter.hold(request.conversation):
        if joined := await starter.find_joined(identity, context):
            return joined
        continuation = await request.find()
        # Another replica may have delivered the same meanwhile: its run answers this request too.
        is_late = identity.is_delivery and continuation.waiting is None
        if is_late and (joined := await starter.find_joined(identity, context)):
            return joined
        awaited, waiting = _list_awaited(continuation.waiting), continuation.waiting
        if waiting is not None and not awaited:
            if await _goes_on(request):
                is_let_go = await let_go(service, waiting, context.caller)
                # Another replica may have let it go meanwhile.
                waiting = None if is_let_go else (await request.find()).waiting
            if waiting is not None:
                following = await follow_run(service, continuation.conversation, waiting.run_id)
                return admit_started(following, starter.name_headers(context.correlation_id, {}))
            continuation = replace(continuation, waiting=None)
        results = _select_results(awaited, request)
        stored = await _find_stored(service, continuation.conversation, request, results)
        delivered = frozenset(call_id for call_id in request.outputs if parse_call_id(call_id)[1] in results)
        whole = await request.read(delivered | stored)
        # What goes on with a run that waits for its client was counted when that run started.
        rate_headers = {} if results else await admit_request(service, context.caller)
        key = identity.build_key(service.clock)
        try:
            target = await _fork_if_needed(service, continuation, context.caller)
            return await starter.continue_conversation(context, whole, key, target, results, rate_headers)
        except Refused:
            if identity.is_delivery and (joined := await starter.find_joined(identity, context)):
                return joined
            raise


async def _goes_on(request: ContinuedRequest) -> bool:
    """Return whether a request brings a new message of the user."""
    whole = await request.read(frozenset(request.outputs))
    return any(isinstance(item, UserMessage) for item in whole.items)


async def find_in_conversation(service: Service, conversation: str, caller: Caller) -> Continuation:
    """Return where a request goes on that names a conversation. Raise FieldNotFound, or Invalid for a chosen id."""
    try:
        await service.conversations.require(conversation, caller)
    except NotFound as error:
        raise FieldNotFound(str(error), "conversation") from None
    if not is_own_conversation(conversation):
        raise invalid_field("conversation", "has an id that its owner chose: ids of calls and responses cannot name it")
    return Continuation(conversation=conversation, waiting=find_waiting(await load_runs(service, conversation)))


async def load_runs(service: Service, conversation: str) -> OpenRuns:
    reader = await service.conversations.follow(conversation)
    try:
        end = reader.end
        runs = await load_open_runs(service.conversations, conversation, Cursor(end))
        # A reader may be behind the store if another replica has the conversation: a decision that this request has
        # just made must be seen.
        for entry in await service.conversations.read_entries(conversation, after=end):
            runs.apply(entry)
        return runs
    finally:
        reader.detach()


def find_waiting(runs: OpenRuns) -> RunView | None:
    return runs.front if runs.front is not None and runs.front.status == "waiting" else None


async def _fork_if_needed(service: Service, continuation: Continuation, caller: Caller) -> str:
    """Return the conversation to go on in: a fork if others have gone on from there before."""
    if not continuation.fork_after:
        return continuation.conversation
    target = service.clock.new_id("conversation")
    await service.conversations.fork(
        continuation.conversation, target, caller, after=continuation.fork_after, unlisted=True
    )
    return target


def _list_awaited(waiting: RunView | None) -> set[str]:
    """Return the ids of the calls that a waiting run has handed to its client."""
    return {call.call.id for call in waiting.open_calls if call.awaited == "client"} if waiting else set[str]()


async def _find_stored(
    service: Service, conversation: str, request: ContinuedRequest, results: Mapping[str, Value | Failure]
) -> frozenset[str]:
    """Return the ids of calls whose results the history has: some clients send all of them each time.

    Raise Invalid for another result than the stored one.
    """
    stored: set[str] = set()
    for client_id, output in request.outputs.items():
        call_id = parse_call_id(client_id)[1]
        if (
            call_id in results
            or (is_same := await service.runs.has_result(conversation, call_id, str(output.value))) is None
        ):
            continue
        if not is_same:
            problem = f"the call {client_id[:80]} has another {request.output_name} already, which stays as it is"
            raise invalid_field(request.output_field, problem)
        stored.add(client_id)
    return frozenset(stored)


def _select_results(awaited: set[str], request: ContinuedRequest) -> dict[str, Value | Failure]:
    """Return the results for the calls that wait, by the calls' own ids. Raise Invalid if one is missing."""
    results: dict[str, Value | Failure] = {
        parse_call_id(call_id)[1]: output for call_id, output in request.outputs.items()
    }
    if missing := awaited - results.keys():
        names = ", ".join(encode_call_id(request.conversation, call_id) for call_id in sorted(missing))
        problem = f"the calls {names} wait for their {request.output_name}: send them first"
        raise invalid_field(request.output_field, problem)
    return {call_id: result for call_id, result in results.items() if call_id in awaited}
