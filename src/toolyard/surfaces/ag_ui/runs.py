"""Answers a request of an AG-UI client: starts the run of its message, hands over what calls wait for, or follows."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct

from toolyard.core.conversation.context.notes import to_notes
from toolyard.core.conversation.events import RunRequest
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State, fold
from toolyard.core.errors import Invalid, NotFound, Refused, ToolyardError
from toolyard.core.items import Call, get_program_id
from toolyard.core.ports import Failure, Value
from toolyard.engine.service import Service
from toolyard.surfaces.ag_ui.encoder import PROTOCOL_VERSION, AgUiEncoder, StreamRequest, encode_failure, encode_frame
from toolyard.surfaces.ag_ui.messages import (
    MESSAGE_ID_FIELD,
    Message,
    build_messages,
    has_same_messages,
    list_message_ids,
)
from toolyard.surfaces.ag_ui.parse import (
    InputMessage,
    Resolution,
    RunInput,
    find_last_user_message,
    read_answer,
    read_approval,
    read_context,
    read_forwarded_options,
    read_plain_text,
    read_results,
    read_resume,
    read_tools,
    read_user_parts,
)
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.sse import stream_events
from toolyard.surfaces.shared.runs.notices import RunNotices
from toolyard.surfaces.shared.threads import (
    CallDecision,
    QuestionReply,
    Thread,
    ThreadMessage,
    ThreadRun,
    Threads,
)

CLIENT_ERRORS = (Invalid, NotFound, Refused)
"""Errors of the request's content: they are told by an event, since clients show those and not the body of a status."""


class Answers(Struct, frozen=True, kw_only=True):
    """What a request brings for calls that wait."""

    decisions: Sequence[CallDecision]
    replies: Sequence[QuestionReply]
    results: dict[str, Value | Failure]

    @property
    def call_ids(self) -> frozenset[str]:
        return frozenset([*(answer.call_id for answer in (*self.decisions, *self.replies)), *self.results])


class AgUiRuns:
    """Answers requests of AG-UI clients."""

    def __init__(self, service: Service, threads: Threads) -> None:
        self._service = service
        self._threads = threads

    async def answer(self, thread: Thread, body: RunInput) -> tuple[AsyncGenerator[bytes, None], dict[str, str]]:
        """Return the stream of a request, and the headers of the response. A mistake of the client is an event."""
        try:
            return await self._stream(thread, body)
        except CLIENT_ERRORS as error:
            return _stream_failure(body, error, thread.correlation_id), {}

    async def _stream(self, thread: Thread, body: RunInput) -> tuple[AsyncGenerator[bytes, None], dict[str, str]]:
        state = await self._load(thread)
        message = _read_message(body)
        answers = _read_answers(body, state)
        is_new = message is not None and not self._threads.is_answered(state, message)
        if answers.call_ids:
            run = await self._threads.answer_calls(thread, answers.decisions, answers.results, answers.replies)
            if message is not None and is_new:
                # It is answered once the run has gone on with the answers.
                run.reader.detach()
                run = await self._start(thread, body, message)
        elif message is not None:
            run = await self._start(thread, body, message)
        else:
            raise invalid_field("messages", "has no message of the user")
        # What the stream brings is new to the client, unless it follows a run that has gone on already.
        is_ahead = is_new or any(_is_waiting(state, call_id) for call_id in answers.call_ids)
        before = _drop_last_user_message(body.messages) if is_new else body.messages
        try:
            is_same = is_ahead and has_same_messages(before, state.full_history)
            snapshots = [] if is_same else await self._build_snapshots(run, body)
        except BaseException:
            run.reader.detach()
            raise
        exchange = StreamRequest(
            thread_id=body.thread_id,
            run_id=body.run_id,
            is_current=body.protocol_version is not None,
            answered=frozenset() if is_new else answers.call_ids,
            settled=frozenset(read_results(body.messages)),
            # A snapshot does not hold them: it is what the log had before.
            delivered=frozenset(() if snapshots else answers.results),
            state=body.state or None,
            snapshots=snapshots,
        )
        notices = RunNotices(texts=self._service.texts)
        encoder = AgUiEncoder(run.view, exchange, run.reader.cursor.seq, run.reader.end, notices)
        return stream_events(run.reader, encoder, thread.correlation_id), dict(run.headers)

    async def _load(self, thread: Thread) -> State:
        state = await self._service.conversations.view(thread.conversation)
        # The id is derived from the caller, so that this can only be a thread that was deleted meanwhile.
        return state if state.owner is None or thread.caller.owns(state.owner) else State()

    async def _start(self, thread: Thread, body: RunInput, message: ThreadMessage) -> ThreadRun:
        options = read_forwarded_options(body.forwarded_props)
        request = RunRequest(
            app_tools=tuple(read_tools(body.tools)),
            model=options.model,
            tool_choice=options.tool_choice,
            web_search=options.web_search,
            context=to_notes(read_context(body)),
            client_fields={MESSAGE_ID_FIELD: message.id},
        )
        begin = self._threads.regenerate if options.regenerate else self._threads.send
        return await begin(thread, message, request)

    async def _build_snapshots(self, run: ThreadRun, body: RunInput) -> list[list[Message]]:
        """Return the messages of the thread before those that the stream brings, as snapshots to send in this order."""
        seen = run.reader.cursor.seq
        entries = await self._service.conversations.read_entries(run.view.conversation, until=seen) if seen else ()
        # Folding a long log takes long: other conversations go on meanwhile.
        messages = await asyncio.to_thread(lambda: build_messages(fold(entries), list_message_ids(entries)))
        instructions = [_to_message(message) for message in body.messages if message.role in ("system", "developer")]
        index = find_last_user_message(body.messages)
        question = body.messages[index] if index is not None else None
        if question is not None and not any(message["id"] == question.id for message in messages):
            messages.append(_to_message(question))
        whole = [*instructions, *messages]
        ids = {message["id"]: None for message in whole}
        shared = [message.id for message in body.messages if message.id in ids]
        # A client leaves the messages that it has where they are, and adds the others at the end. Where that is another
        # order, it first has to drop them.
        return [whole] if shared == list(ids)[: len(shared)] else [[], whole]


def _read_message(body: RunInput) -> ThreadMessage | None:
    index = find_last_user_message(body.messages)
    if index is None:
        return None
    message = body.messages[index]
    return ThreadMessage(id=message.id, parts=read_user_parts(message, index))


def _read_answers(body: RunInput, state: State) -> Answers:
    """Return what the request brings for calls that wait. Raise Invalid for a call that does not exist.

    The results of other calls are the server's own, which clients send back, or were sent before.
    """
    results = read_results(body.messages)
    for call_id in results:
        if not _has_call(state, call_id):
            raise invalid_field("messages", f"there is no call {call_id[:80]!r} in this thread")
    decisions: list[CallDecision] = []
    replies: list[QuestionReply] = []
    for resolution in read_resume(body.resume):
        if not _has_call(state, resolution.call_id):
            why = f"there is no interrupt {resolution.call_id[:80]!r} in this thread"
            raise invalid_field(f"{resolution.field}.interruptId", why)
        if (call := state.calls.get(resolution.call_id)) is not None and _awaits(call, "question"):
            replies.append(_build_reply(resolution))
        else:
            approved, reason, arguments = read_approval(resolution)
            decisions.append(
                CallDecision(call_id=resolution.call_id, approved=approved, reason=reason, arguments=arguments)
            )
    waiting = {
        call_id: result
        for call_id, result in results.items()
        if (call := state.calls.get(call_id)) is not None and _awaits(call, "client")
    }
    return Answers(decisions=decisions, replies=replies, results=waiting)


def _has_call(state: State, call_id: str) -> bool:
    """Return whether a call is in the history or in one of the branches that were left, or its program is."""
    histories = (state.full_history, *(branch.history for branch in state.branches))
    ids = filter(None, (call_id, get_program_id(call_id)))
    positions = ((history, history.find(id)) for id in ids for history in histories)
    return any(position is not None and isinstance(history[position], Call) for history, position in positions)


def _is_waiting(state: State, call_id: str) -> bool:
    call = state.calls.get(call_id)
    return call is not None and call.phase in ("asking", "parked")


def _awaits(call: CallState, kind: str) -> bool:
    return call.phase == "parked" and call.parked is not None and call.parked.kind == kind


def _build_reply(resolution: Resolution) -> QuestionReply:
    if resolution.is_cancelled:
        return QuestionReply(call_id=resolution.call_id, reply="cancelled")
    return QuestionReply(call_id=resolution.call_id, content=read_answer(resolution))


def _drop_last_user_message(messages: Sequence[InputMessage]) -> Sequence[InputMessage]:
    """Return the messages that the log has to have before a new one."""
    index = find_last_user_message(messages)
    return messages if index is None else [*messages[:index], *messages[index + 1 :]]


def _to_message(message: InputMessage) -> Message:
    content = message.content if message.role == "user" else read_plain_text(message.content)
    return {"id": message.id, "role": message.role, "content": content}


async def _stream_failure(body: RunInput, error: ToolyardError, correlation_id: str) -> AsyncGenerator[bytes, None]:
    """Yield a run that fails before it has done anything."""
    version = {"protocolVersion": PROTOCOL_VERSION} if body.protocol_version is not None else {}
    yield encode_frame("RUN_STARTED", threadId=body.thread_id, runId=body.run_id, **version)
    yield encode_failure(error, correlation_id)
