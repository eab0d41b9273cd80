"""Starts the run of a request that brings its whole history, or joins the one that an earlier sending has started."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Delete, Start, Stop
from toolyard.core.conversation.context.notes import to_notes
from toolyard.core.conversation.events import Entry, RequestKey, RunRequest
from toolyard.core.conversation.run_view import RunView
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import Invalid, ToolyardError, Unavailable
from toolyard.core.items import Item, Result, Seal
from toolyard.core.ports import Failure, Value
from toolyard.core.settings.models.options import UNSUPPORTED_OPTION, Options
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.web_search_rule import SearchMode
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.engine.log.readers import Reader
from toolyard.engine.service import Service, StartedRun
from toolyard.named_locks import NamedLocks
from toolyard.surfaces.http.authorization import admit_request
from toolyard.surfaces.http.errors import raise_refusal
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS
from toolyard.surfaces.http.request_context import HttpRequest, RequestContext, get_request_context
from toolyard.surfaces.http.sse import HEARTBEAT_S, Hold, StreamEncoder, stream_events
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.runs.answer import ANSWER_GRACE_S
from toolyard.surfaces.shared.runs.beginning import wait_for_beginning
from toolyard.surfaces.shared.runs.followed_run import follow_run, load_front_run
from toolyard.surfaces.shared.runs.notices import NOTICE_FIELD, build_notices
from toolyard.surfaces.shared.waiting_sentences import remove_sentences, replace_sentences
from toolyard.surfaces.shared.whole_history.earlier_runs import (
    LinkedCall,
    find_decided_run,
    find_delivered_call,
    find_last_call,
    find_linked_call,
    let_go,
    load_waiting,
    merge_waiting_run,
    wait_for_decided_run,
    watch_decided_run,
)
from toolyard.surfaces.shared.whole_history.request_keys import RequestIdentity, find_earlier, identify_request
from toolyard.surfaces.shared.whole_history.sent_fields import name_sent_fields, resolve_model
from toolyard.surfaces.surface import Backend

INSTRUCTIONS = "instructions"
"""The name under which the model reads the instructions of a request."""
CONVERSATION_HEADER = "x-toolyard-conversation"
COMMENT = b": waiting\n\n"
NameHeaders = Callable[[str, Mapping[str, str]], dict[str, str]]
"""Returns the headers of a response under an API's names: the correlation id, and those of the rate limit if any."""
_log = logging.getLogger("toolyard.requests")


class ParsedRequest(Struct, frozen=True, kw_only=True):
    """A request that brings its whole history: its messages, tools and options are the truth."""

    items: Sequence[Item]
    tools: Sequence[Tool]
    model: str
    tool_choice: str
    options: Options
    server_tools: frozenset[str] | None
    """The server's tools that may be used; None means all of the caller's."""
    instructions: str = ""
    """Instructions of this request only."""
    web_search: SearchMode = ""
    ends_without_client: bool = False
    """Whether the run is stopped some time after its client has left."""
    keep: bool = False
    """Whether the conversation is kept after its run."""
    asked_tools: frozenset[str] = frozenset()
    """Tools of the server that wait for an approval even if their own rules do not ask for one."""
    is_listed: bool = False
    """Whether it is in the user's list of conversations."""
    client_fields: dict[str, object] = {}
    """What the response repeats of the request."""
    system_prompt: str = ""
    """Instructions that come after those of the server, in a new conversation."""
    native: Seal | None = None
    """What the request says in the words of its provider's own API."""
    option_fields: Mapping[str, str] = {}
    """The names of the fields that options have in this request, where they differ."""


class AdmittedRun(Struct, frozen=True, kw_only=True):
    """The run that answers a request, and the headers of the response."""

    view: RunView
    """The run before `reader` has read anything of it."""
    reader: Reader
    """Yields the run from its start."""
    headers: dict[str, str]


class DelayedRun(Struct, frozen=True, kw_only=True):
    """A run that starts once the run before it is at rest: that one's call was approved, and still runs."""

    start: Callable[[], Awaitable[AdmittedRun]]
    """Waits for the run before it, and starts this one."""
    watch: Callable[[], AsyncGenerator[RunView, None]]
    """Yields the run before it now and then, until it is at rest."""
    headers: dict[str, str]


class RunStarter:
    """Starts runs for requests, each once however often it is sent."""

    def __init__(self, backend: Backend, name_headers: NameHeaders, read_headers: Sequence[str] = ()) -> None:
        """`read_headers` are the request headers that say what a run may do: with others it is another request."""
        self._read_headers = read_headers
        self._service = backend.service
        self.name_headers = name_headers
        self._leave_s = backend.leave_s
        self.approval_hold_s = backend.approval_hold_s
        self._locks = NamedLocks()

    async def start(self, http_request: HttpRequest, request: ParsedRequest) -> AdmittedRun:
        """Start a run, or join that of an earlier sending. The caller detaches the reader."""
        with name_sent_fields(request.option_fields):
            return await self._start_or_join(http_request, request)

    async def start_streamed(self, http_request: HttpRequest, request: ParsedRequest) -> AdmittedRun | DelayedRun:
        """Start a run as `start` does, but do not wait for a call that was approved and still runs."""
        service, context = self._service, get_request_context(http_request.scope)
        linked = find_linked_call(request.items) or find_delivered_call(request.items)
        before = await find_decided_run(service, linked, context.caller) if linked else None
        if linked is None or before is None or before.at_rest or linked.is_last:
            return await self.start(http_request, request)
        return DelayedRun(
            start=lambda: self.start(http_request, request),
            watch=lambda: watch_decided_run(service, linked, context.caller),
            headers=self.name_headers(context.correlation_id, {}),
        )

    async def _start_or_join(self, http_request: HttpRequest, request: ParsedRequest) -> AdmittedRun:
        service, context = self._service, get_request_context(http_request.scope)
        items: Sequence[Item] = request.items
        before: RunView | None = None
        if linked := find_linked_call(items):
            before = await self._leave_linked(linked, context.caller)
            if before is not None and linked.is_last:
                following = await follow_run(service, before.conversation, before.run_id)
                return admit_started(following, self.name_headers(context.correlation_id, {}))
        if before is None:
            items, sources = await replace_sentences(service, items, context.caller)
        else:
            items, sources = await remove_sentences(service, items, context.caller)
            notice = build_notices(service, http_request).describe_waiting(before)
            request = replace(request, client_fields={**request.client_fields, NOTICE_FIELD: notice})
        last_call = find_last_call(items)
        waiting_id = parse_call_id(last_call.provider_id)[0] if last_call is not None else ""
        identity = await identify_request(
            http_request,
            is_delivery=bool(waiting_id) and isinstance(items[-1], Result),
            read_headers=self._read_headers,
        )
        async with self.hold(waiting_id or identity.lock_name):
            if joined := await self.find_joined(identity, context):
                return joined
            waiting = await load_waiting(service, waiting_id, context.caller) if waiting_id else None
            rate_headers: dict[str, str] = {}
            if waiting is None:  # else the request goes on with a run that was counted when it started
                rate_headers = await admit_request(service, context.caller)
            else:
                items = merge_waiting_run(items, waiting, service.clock.now())
                sources.append(waiting_id)
            started = await self._start(context, replace(request, items=items), identity, sources)
            if waiting is not None and not started.repeated:
                await self._end_waiting(waiting_id, waiting, context.caller)
        return admit_started(started, self.name_headers(context.correlation_id, rate_headers))

    async def _leave_linked(self, linked: LinkedCall, caller: Caller) -> RunView | None:
        """Return the run of a linked call if it answers the request, or waits for others while its user goes on."""
        if linked.is_last:
            return await find_decided_run(self._service, linked, caller)
        view = await wait_for_decided_run(self._service, linked, caller)
        if view is not None and view.status == "waiting":
            await let_go(self._service, view, caller)  # or another message has done so meanwhile
            view = await wait_for_decided_run(self._service, linked, caller)
        return None if view is None or view.status == "ended" else view

    def hold(self, name: str) -> AbstractAsyncContextManager[None]:
        """Keep other requests that hold the same name waiting until the block ends."""
        return self._locks.lock("request", name)

    async def find_joined(self, identity: RequestIdentity, context: RequestContext) -> AdmittedRun | None:
        """Return the run of an earlier sending of the request, or the one in its place, from its start; else None.

        A request that people send again, to get another answer, joins only a run that waits for a person.
        """
        record = await find_earlier(self._service, identity)
        if record is None:
            return None
        if not identity.may_join and identity.own_key is None:
            view = await load_front_run(self._service, record.conversation)
            if view is None or view.run_id != record.run or not waits_for_person(view):
                return None
        started = await self._service.runs.repeat(record, context.correlation_id)
        headers = self.name_headers(context.correlation_id, {})
        return admit_started(started, {**headers, **REPLAYED_HEADERS} if started.repeated else headers)

    async def _start(
        self, context: RequestContext, request: ParsedRequest, identity: RequestIdentity, sources: Sequence[str]
    ) -> StartedRun:
        """Start a run in a new conversation. `sources` are those that items were taken from."""
        service = self._service
        conversation, defaults = service.clock.new_id("conversation"), service.default_settings
        for source in sources:
            await service.conversations.copy_blobs(source, conversation, request.items)
        settings = replace(
            defaults,
            ephemeral=not request.keep,
            unlisted=not request.is_listed,
            tools=defaults.tools if request.server_tools is None else request.server_tools,
            asked_tools=request.asked_tools,
            system_prompt="\n\n".join(filter(None, (defaults.system_prompt, request.system_prompt))),
        )
        start = self._build_start(context, request, identity.build_key(service.clock), settings=settings)
        chooses_tools = request.server_tools is not None
        start = replace(start, chooses_tools=chooses_tools, has_new_key=identity.has_new_key)
        include_deltas = bool(request.tools or request.native)
        return await service.runs.start(conversation, start, is_new=True, include_argument_deltas=include_deltas)

    async def continue_conversation(
        self,
        context: RequestContext,
        request: ParsedRequest,
        key: RequestKey,
        conversation: str,
        results: Mapping[str, Value | Failure],
        rate_headers: Mapping[str, str],
    ) -> AdmittedRun:
        """Start a run in a conversation. The caller holds it, and detaches the reader.

        `results` are those of all calls that the current run waits for; the new run goes on in its place.
        """
        service = self._service
        with name_sent_fields(request.option_fields):
            delivers = await service.runs.encode_results(conversation, results, context.caller) if results else ()
            start = self._build_start(context, request, key, delivers=delivers, may_open=False)
            started = await service.runs.start(conversation, start, include_argument_deltas=bool(request.tools))
        return admit_started(started, self.name_headers(context.correlation_id, rate_headers))

    def _build_start(
        self,
        context: RequestContext,
        request: ParsedRequest,
        key: RequestKey,
        *,
        settings: Settings | None = None,
        delivers: Sequence[Result] = (),
        may_open: bool = True,
    ) -> Start:
        return self._service.runs.build_start(
            context.caller,
            request.items,
            RunRequest(
                app_tools=tuple(request.tools),
                tool_choice=request.tool_choice,
                model=resolve_model(request.model),
                web_search=request.web_search,
                context=to_notes({INSTRUCTIONS: request.instructions} if request.instructions else {}),
                options=request.options,
                ends_on_expiry=True,
                leave_s=self._leave_s if request.ends_without_client else 0.0,
                client_fields=request.client_fields,
                native=request.native,
            ),
            correlation_id=context.correlation_id,
            settings=settings,
            delivers=delivers,
            may_open=may_open,
            request=key,
        )

    async def _end_waiting(self, conversation: str, state: State, caller: Caller) -> None:
        """End the run that a new one goes on from; its conversation is deleted unless it is kept.

        If that fails, the run ends when its calls expire.
        """
        assert state.run is not None
        command = Delete(by=caller) if state.settings.ephemeral else Stop(by=caller, run_id=state.run.id)
        try:
            await self._service.conversations.submit(conversation, command)
        except ToolyardError as error:
            _log.warning("conversation %s waits until its calls expire: %s", conversation, error)


def admit_started(started: StartedRun, headers: dict[str, str]) -> AdmittedRun:
    view = RunView(run_id=started.run_id, conversation=started.conversation)
    headers = {**headers, CONVERSATION_HEADER: started.conversation}
    return AdmittedRun(view=view, reader=started.reader, headers=headers)


def waits_for_person(view: RunView) -> bool:
    """Return whether a run waits for a decision or an answer, and for nothing that its client has to do."""
    return view.status == "waiting" and not any(call.awaited == "client" for call in view.open_calls)


async def wait_for_rest(service: Service, admitted: AdmittedRun, caller: Caller, hold_s: float = 0.0) -> RunView:
    """Return the view of a run once it has ended or waits; for a person it is waited for up to `hold_s` in all."""
    view, reader = admitted.view, admitted.reader
    hold = Hold(hold_s)
    try:
        async with asyncio.timeout(service.runs.limits_for(caller).run_seconds + ANSWER_GRACE_S + hold_s):
            while not await _read_to_rest(view, reader, hold):
                if reader.is_detached:
                    raise Unavailable("the client has left")
    except TimeoutError:
        raise Unavailable("the run goes on, but takes longer than a request may wait: send it again to go on") from None
    finally:
        reader.detach()
    return view


async def _read_to_rest(view: RunView, reader: Reader, hold: Hold) -> bool:
    """Read what comes next, and return whether the run has ended, or waits and is not held."""
    batch = await reader.read_batch(min(hold.left_s, HEARTBEAT_S) if hold.is_on else HEARTBEAT_S)
    for item, _ in batch:
        if isinstance(item, Entry) and view.apply(item):
            is_resting = is_at_rest(view, item.seq, reader.end)
            hold.set(is_resting and waits_for_person(view))
            if is_resting and not hold.is_on:
                return True
    return hold.is_on and hold.left_s <= 0


async def require_beginning(admitted: AdmittedRun, option_fields: Mapping[str, str]) -> None:
    """Wait until the model begins to answer. Raise as `raise_failure` does if the run fails before that."""
    await wait_for_beginning(admitted.reader, admitted.view.run_id, lambda view: raise_failure(view, option_fields))


def stream_run(
    admitted: AdmittedRun, encoder: StreamEncoder, correlation_id: str, hold_s: float = 0.0
) -> AsyncGenerator[bytes, None]:
    """Yield the stream of a run. One whose run waits for a person stays open up to `hold_s`."""
    return stream_events(
        admitted.reader, encoder, correlation_id, Hold(hold_s, lambda: waits_for_person(admitted.view))
    )


async def stream_delayed(
    delayed: DelayedRun,
    stream: Callable[[AdmittedRun], AsyncGenerator[bytes, None]],
    encode_failure: Callable[[ToolyardError], bytes],
) -> AsyncGenerator[bytes, None]:
    """Yield comments until the run before it is at rest, then the stream of the run."""
    try:
        async with aclosing(delayed.watch()) as views:
            async for _ in views:
                yield COMMENT
        admitted = await delayed.start()
    except ToolyardError as error:
        yield encode_failure(error)
        return
    async with aclosing(stream(admitted)) as pieces:
        async for piece in pieces:
            yield piece


def raise_failure(view: RunView, option_fields: Mapping[str, str]) -> None:
    """Raise ModelFailed if the run has failed, or Invalid if its model lacks an option that the request set."""
    problem = view.problem
    if problem is not None and problem.error_type == UNSUPPORTED_OPTION:
        with name_sent_fields(option_fields):
            raise Invalid(problem.error, {"field": f"options.{problem.details.get('option')}"})
    raise_refusal(view)
