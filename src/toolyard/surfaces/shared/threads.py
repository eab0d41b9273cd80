"""Threads of front ends: conversations under ids that clients choose, in which the log is the truth.

A front end sends its thread's id and its own copy of the messages. The conversation's id is a hash of the tenant, the
user and the thread's id, so that nobody can name the thread of somebody else. Of the messages only the last one of the
user is read: it is new, or an edited one, or already in the log, and then its run is followed.

A message keeps the client's id: the id of its item is a hash of that id and a hash of its content. So every replica
finds it in the log, also after a restart, and an edited message, which clients send under the same id, is an item of
its own.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Answer, Approve, Deny, Rewind, Stop
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import (
    CallApproved,
    CallDenied,
    CallEnded,
    Entry,
    HistoryRewound,
    Reply,
    RunQueued,
    RunRequest,
)
from toolyard.core.conversation.run_view import CallView, OpenRuns, RunView
from toolyard.core.conversation.state import State
from toolyard.core.errors import Forbidden, NotFound, Refused, Unavailable
from toolyard.core.items import Item, Part, TextPart, UserMessage
from toolyard.core.ports import Failure, Value
from toolyard.engine.access.authentication import Authenticator
from toolyard.engine.log.open_runs import load_open_runs
from toolyard.engine.log.readers import Reader
from toolyard.engine.run.options import THREAD_PREFIX
from toolyard.engine.service import Service
from toolyard.named_locks import NamedLocks
from toolyard.surfaces.http.authorization import admit_request
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.chat_messages import build_title
from toolyard.surfaces.shared.runs.followed_run import follow_run
from toolyard.surfaces.surface import Backend


def find_edited_arguments(original: dict[str, object], received: dict[str, object]) -> dict[str, object] | None:
    """Return the arguments with a person's changes; None if there are none."""
    return None if _is_same(original, received) else cast("dict[str, object]", _merge(original, received))


def _merge(original: object, received: object) -> object:
    """Return what was received, with each part that is the same as the original one had it."""
    if _is_same(original, received):
        return original
    if isinstance(original, dict) and isinstance(received, dict):
        table, changed = cast("dict[str, object]", original), cast("dict[str, object]", received)
        return {key: _merge(table.get(key), value) for key, value in changed.items()}
    if isinstance(original, list) and isinstance(received, list):
        values, changes = cast("list[object]", original), cast("list[object]", received)
        padded = [*values, *[None] * len(changes)]
        return [_merge(before, after) for before, after in zip(padded, changes, strict=False)]
    return received


def _is_same(original: object, received: object) -> bool:
    match original, received:
        case (bool(), _) | (_, bool()):
            return original is received
        case (int() | float(), int() | float()):
            return _to_float(original) == _to_float(received)
        case (dict(), dict()):
            table, changed = cast("dict[str, object]", original), cast("dict[str, object]", received)
            return table.keys() == changed.keys() and all(_is_same(value, changed[key]) for key, value in table.items())
        case (list(), list()):
            values, changes = cast("list[object]", original), cast("list[object]", received)
            return len(values) == len(changes) and all(map(_is_same, values, changes))
        case _:
            return original == received


def _to_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


MAX_THREAD_CHARS = 200
MAX_REASON_CHARS = 2_000
STOP_S = 30.0
"""How long a run that is in the way of an edit is given to stop."""
_CONVERSATION_DIGITS, _HASH_DIGITS = 48, 24


class Thread(Struct, frozen=True, kw_only=True):
    """A thread of one caller, and the request that names it."""

    conversation: str
    caller: Caller
    correlation_id: str


class ThreadMessage(Struct, frozen=True, kw_only=True):
    """A message of the user, under the client's id."""

    id: str
    parts: tuple[Part, ...]

    @property
    def id_prefix(self) -> str:
        """Return what the ids of all items have in common that the message ever was."""
        return f"message_{hashlib.sha256(self.id.encode(errors='replace')).hexdigest()[:_HASH_DIGITS]}_"

    @property
    def item_id(self) -> str:
        return self.id_prefix + hashlib.sha256(msgspec.json.encode(self.parts)).hexdigest()[:_HASH_DIGITS]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class CallDecision(Struct, frozen=True, kw_only=True):
    """The user's answer to a call that asks for an approval."""

    call_id: str
    approved: bool
    reason: str = ""
    arguments: dict[str, object] | None = None
    """The arguments that the user was shown, with any changes of theirs; None for the model's."""


class QuestionReply(Struct, frozen=True, kw_only=True):
    """The user's answer to the question that a call asks."""

    call_id: str
    reply: Reply = "accepted"
    content: dict[str, object] = {}


class ThreadRun(Struct, frozen=True, kw_only=True):
    """A run of a thread, followed from some place. The caller detaches the reader."""

    view: RunView
    """The run before `reader` has read anything."""
    reader: Reader
    headers: Mapping[str, str] = {}


def derive_conversation_id(caller: Caller, thread_id: str) -> str:
    """Return the id of the conversation of a user's thread. Raise Invalid for an id that is empty or too long."""
    if not thread_id or len(thread_id) > MAX_THREAD_CHARS:
        raise invalid_field("id", f"must be a thread id of 1 to {MAX_THREAD_CHARS} characters")
    digest = hashlib.sha256()
    for text in (caller.tenant, caller.user, thread_id):
        encoded = text.encode(errors="surrogatepass")
        # With its length before each part, no two triples have the same bytes.
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return THREAD_PREFIX + digest.hexdigest()[:_CONVERSATION_DIGITS]


def find_answering_run(entries: Iterable[Entry], item_id: str) -> str:
    """Return the run that was started last to answer a user's message; empty if there is none."""
    run, rewound_to = "", ""
    for entry in entries:
        match entry.event:
            case HistoryRewound(to=to):
                rewound_to = to
            case RunQueued(input=input):
                if (rewound_to == item_id) if not input else any(item.id == item_id for item in input):
                    run = entry.run
                rewound_to = ""
            case _:
                pass
    return run


def build_threads(backend: Backend) -> "Threads":
    return Threads(backend.service, backend.access)


class Threads:
    """Finds the conversations of threads, starts runs in them and follows them."""

    def __init__(self, service: Service, access: Authenticator) -> None:
        self._service = service
        self._access = access
        self._locks = NamedLocks()

    def find(self, request: HttpRequest, thread_id: str) -> Thread:
        """Return the thread of the caller that has this id; it need not exist yet. Raise Forbidden or Invalid."""
        context = get_request_context(request.scope)
        if self._access.is_missing_user(request.headers):
            # All end users of the backend would share the thread.
            raise Forbidden("this key speaks for end users: name the user of the thread with the header X-User")
        conversation = derive_conversation_id(context.caller, thread_id)
        return Thread(conversation=conversation, caller=context.caller, correlation_id=context.correlation_id)

    async def send(self, thread: Thread, message: ThreadMessage, request: RunRequest) -> ThreadRun:
        """Start a run that answers a message, or follow the one that does so already.

        A message of the history that has other content now was edited: the history is rewound to before it.
        """
        async with self._hold(thread):
            state = await self._load(thread)
            if self.is_answered(state, message):
                return await self._follow_answer(thread, message.item_id)
            position = _find_position(state, message)
            if position is not None:
                state = await self._stop_runs(thread)
                if state.find_used_ids({message.item_id}):
                    # Edited back to what it was on another branch.
                    return await self._answer_again(thread, message.item_id, request)
                before = state.full_history[position - 1].id if position else ""
                await self._rewind(thread, before)
            return await self._start(thread, [self._build_item(message)], request, message, _should_interrupt(state))

    async def regenerate(self, thread: Thread, message: ThreadMessage, request: RunRequest) -> ThreadRun:
        """Have a message of the log answered once more, in place of what followed it."""
        state = await self._load(thread)
        if state.full_history.find(message.item_id) is None:
            return await self.send(thread, message, request)
        async with self._hold(thread):
            await self._stop_runs(thread)
            return await self._answer_again(thread, message.item_id, request)

    async def answer_calls(
        self,
        thread: Thread,
        decisions: Sequence[CallDecision],
        results: Mapping[str, Value | Failure],
        replies: Sequence[QuestionReply] = (),
    ) -> ThreadRun:
        """Hand over decisions, results and replies for calls that wait, and follow the run from there on.

        Those that were handed over before change nothing: then the run is followed from where they were. Raise Refused
        for a call that does not exist or does not wait for this, before anything is handed over.
        """
        async with self._hold(thread):
            await self._require_thread(thread)
            reader = await self._service.conversations.follow(thread.conversation)
            try:
                runs = await load_open_runs(self._service.conversations, thread.conversation, reader.cursor)
                open_decisions = [decision for decision in decisions if _waits(runs, decision.call_id, "approval")]
                open_results = {id: result for id, result in results.items() if _waits(runs, id, "client")}
                left = [decision for decision in decisions if decision not in open_decisions]
                left_results = results.keys() - open_results.keys()
                repeated = await self._find_repeated(thread, left, left_results) if left or left_results else None
                if runs.front is not None and (open_decisions or open_results or replies):
                    try:
                        await self._hand_over(thread, runs.front, open_decisions, open_results)
                        await self._hand_over_replies(thread, replies)
                        return ThreadRun(view=runs.front, reader=reader)
                    except Refused as refusal:
                        if replies:
                            raise
                        repeated = await self._find_taken(thread, decisions, results, refusal)
            except BaseException:
                reader.detach()
                raise
            reader.detach()
            if repeated is None:
                raise Refused("the message answers no call: send a message of the user, or answer a waiting call")
            return await self._follow_from(thread, repeated)

    async def follow_open_run(self, thread: Thread) -> ThreadRun | None:
        """Follow the current run from its start; None if no run is open."""
        try:
            await self._require_thread(thread)
        except NotFound:
            return None
        state = await self._service.conversations.view(thread.conversation)
        run_id = state.run.id if state.run is not None else state.queue[0].id if state.queue else ""
        return await self._follow(thread, run_id) if run_id else None

    async def stop(self, thread: Thread) -> None:
        """Stop the current run and those in the queue, and return once they have ended."""
        async with self._hold(thread):
            await self._stop_runs(thread)

    def _hold(self, thread: Thread) -> AbstractAsyncContextManager[None]:
        """Let one request of a thread at a time through. Another replica is kept out by what the log refuses."""
        return self._locks.lock("thread", thread.conversation)

    async def _load(self, thread: Thread) -> State:
        """Return the state of a thread, empty for a new one. Raise NotFound if it is not the caller's."""
        state = await self._service.conversations.view(thread.conversation)
        if state.owner is not None and not thread.caller.owns(state.owner):
            raise NotFound("there is no such thread")
        return state

    async def _require_thread(self, thread: Thread) -> None:
        try:
            await self._service.conversations.require(thread.conversation, thread.caller)
        except NotFound:
            raise NotFound("there is no such thread") from None

    def is_answered(self, state: State, message: ThreadMessage) -> bool:
        """Return whether a message is in the log and is to be answered once only."""
        item_id = message.item_id
        if state.full_history.find(item_id) is not None or _is_queued(state, item_id):
            return True
        # On a branch that was left: sent again late, unless the client went back to it by an edit.
        return bool(state.find_used_ids({item_id})) and _find_position(state, message) is None

    def _build_item(self, message: ThreadMessage) -> UserMessage:
        return UserMessage(id=message.item_id, at=self._service.clock.now(), parts=message.parts)

    async def _start(
        self,
        thread: Thread,
        input: Sequence[Item],
        request: RunRequest,
        message: ThreadMessage | None = None,
        interrupt: bool = False,
    ) -> ThreadRun:
        service = self._service
        headers = await admit_request(service, thread.caller)
        settings = service.default_settings
        start = service.runs.build_start(
            thread.caller,
            input,
            request,
            correlation_id=thread.correlation_id,
            settings=replace(settings, title=build_title(message.text)) if message else settings,
            interrupt=interrupt,
            may_open=bool(input),
        )
        try:
            started = await service.runs.start(thread.conversation, start)
        except Refused:
            # Another replica may have taken the same message just before. The log has it, even if the state that this
            # one knows does not yet.
            entries = await service.conversations.read_entries(thread.conversation) if message is not None else ()
            run_id = find_answering_run(entries, message.item_id) if message is not None else ""
            if not run_id:
                raise
            return await self._follow(thread, run_id)
        view = RunView(run_id=started.run_id, conversation=thread.conversation)
        return ThreadRun(view=view, reader=started.reader, headers=headers)

    async def _answer_again(self, thread: Thread, item_id: str, request: RunRequest) -> ThreadRun:
        await self._rewind(thread, item_id)
        return await self._start(thread, (), request)

    async def _rewind(self, thread: Thread, to: str) -> None:
        command = Rewind(by=thread.caller, correlation_id=thread.correlation_id, to=to)
        await self._service.conversations.submit(thread.conversation, command)

    async def _stop_runs(self, thread: Thread) -> State:
        """Stop the runs of a thread, and return the state once they have ended: no history is rewound before that."""
        service, conversation = self._service, thread.conversation
        reader = await service.conversations.follow(conversation)
        try:
            state = await self._load(thread)
            for run_id in [run.id for run in (*reversed(state.queue), *((state.run,) if state.run else ()))]:
                stop = Stop(by=thread.caller, correlation_id=thread.correlation_id, run_id=run_id)
                with suppress(Refused):  # it has ended meanwhile
                    await service.conversations.submit(conversation, stop)
            async with asyncio.timeout(STOP_S):
                while not state.is_idle:
                    await reader.read_batch()
                    state = await self._load(thread)
        except TimeoutError:
            raise Unavailable("the run before it takes long to stop: send the message again in a moment") from None
        finally:
            reader.detach()
        return state

    async def _hand_over(
        self,
        thread: Thread,
        view: RunView,
        decisions: Sequence[CallDecision],
        results: Mapping[str, Value | Failure],
    ) -> None:
        service, conversation = self._service, thread.conversation
        if results:
            await service.runs.deliver(conversation, results, thread.caller)
        for decision in decisions:
            await service.conversations.submit(
                conversation, _build_command(thread, view.calls[decision.call_id], decision)
            )

    async def _hand_over_replies(self, thread: Thread, replies: Sequence[QuestionReply]) -> None:
        for reply in replies:
            command = Answer(
                by=thread.caller,
                correlation_id=thread.correlation_id,
                call_id=reply.call_id,
                reply=reply.reply,
                content=reply.content,
            )
            await self._service.conversations.submit(thread.conversation, command)

    async def _find_taken(
        self, thread: Thread, decisions: Sequence[CallDecision], results: Iterable[str], refusal: Refused
    ) -> Entry:
        """Return the entry of the same answers, if another replica has taken them just before, else raise `refusal`."""
        try:
            return await self._find_repeated(thread, decisions, results)
        except Refused:
            raise refusal from None

    async def _find_repeated(self, thread: Thread, decisions: Sequence[CallDecision], results: Iterable[str]) -> Entry:
        """Return the first entry of the answers that were given before. Raise Refused for any other answer."""
        entries = await self._service.conversations.read_entries(thread.conversation)
        answers: dict[str, Entry] = {}
        for entry in entries:
            match entry.event:
                case CallApproved(call_id=call_id) | CallDenied(call_id=call_id):
                    answers.setdefault(call_id, entry)
                case CallEnded(result=result):
                    answers.setdefault(result.call_id, entry)
                case _:
                    pass
        for decision in decisions:
            _check_repeated(answers.get(decision.call_id), decision)
        for call_id in results:
            if call_id not in answers:
                raise Refused(f"call {call_id[:80]!r} does not wait for a result here: there is no such call")
        repetitions = [answers[call_id] for call_id in (*(decision.call_id for decision in decisions), *results)]
        return min(repetitions, key=lambda entry: entry.seq)

    async def _follow_from(self, thread: Thread, entry: Entry) -> ThreadRun:
        """Follow the run of an entry from right before it."""
        service, conversation, after = self._service, thread.conversation, Cursor(entry.seq - 1)
        view = (await load_open_runs(service.conversations, conversation, after)).find(entry.run)
        if view is None:
            raise NotFound("the conversation was deleted")
        return ThreadRun(view=view, reader=await service.conversations.follow(conversation, after))

    async def _follow_answer(self, thread: Thread, item_id: str) -> ThreadRun:
        entries = await self._service.conversations.read_entries(thread.conversation)
        return await self._follow(thread, find_answering_run(entries, item_id))

    async def _follow(self, thread: Thread, run_id: str) -> ThreadRun:
        """Follow a run from its start."""
        started = await follow_run(self._service, thread.conversation, run_id, include_argument_deltas=True)
        view = RunView(run_id=run_id, conversation=thread.conversation)
        return ThreadRun(view=view, reader=started.reader)


def _build_command(thread: Thread, call: CallView, decision: CallDecision) -> Approve | Deny:
    by, trace, call_id = thread.caller, thread.correlation_id, decision.call_id
    reason = decision.reason[:MAX_REASON_CHARS]
    if not decision.approved:
        return Deny(by=by, correlation_id=trace, call_id=call_id, reason=reason)
    shown = decision.arguments
    edited = None if shown is None else find_edited_arguments(call.arguments, shown)
    return Approve(by=by, correlation_id=trace, call_id=call_id, arguments=edited, reason=reason)


def _is_queued(state: State, item_id: str) -> bool:
    return any(item.id == item_id for run in state.queue for item in run.request.input)


def _find_position(state: State, message: ThreadMessage) -> int | None:
    """Return where the message is in the current history, with whatever content it had then; None if it is not."""
    history, prefix = state.full_history, message.id_prefix
    return next((at for at in range(len(history) - 1, -1, -1) if history[at].id.startswith(prefix)), None)


def _should_interrupt(state: State) -> bool:
    """Return whether a new message ends the current run: the front end can no longer answer what it waits for.

    A run whose calls were only proposed is left to the engine, which has the model read whether the message confirms.
    """
    if state.run is None or state.run.suspended_at is None:
        return False
    waiting = [call for call in state.calls.values() if call.phase != "closed"]
    return not all(call.phase == "asking" and call.call.confirm == "ask" for call in waiting)


def _waits(runs: OpenRuns, call_id: str, awaited: str) -> bool:
    """Return whether a call of the current run waits for an approval, or for its client."""
    call = runs.front.calls.get(call_id) if runs.front is not None and runs.front.stop is None else None
    return call is not None and call.awaited == awaited


def _check_repeated(answer: Entry | None, decision: CallDecision) -> None:
    """Raise Refused unless the call was decided before, in the same way."""
    match answer.event if answer is not None else None:
        case CallApproved(by=by):
            was_approved = True
        case CallDenied(by=by):
            was_approved = False
        case CallEnded():
            raise Refused(f"call {decision.call_id[:80]!r} no longer waits for an approval: it has ended")
        case _:
            raise Refused(f"call {decision.call_id[:80]!r} does not wait for an approval here: there is no such call")
    if was_approved != decision.approved:
        how = "approved" if was_approved else "denied"
        raise Refused(f"call {decision.call_id[:80]!r} was {how} before, by {by!r}")
