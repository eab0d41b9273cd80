"""Starts the run of a request that goes on from an earlier response or in a conversation."""

from collections.abc import Mapping

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.cursor import Cursor
from toolyard.core.errors import Invalid, NotFound
from toolyard.core.ports import Failure, Value
from toolyard.core.run_view import OpenRuns, RunView
from toolyard.engine.open_runs import load_open_runs
from toolyard.engine.service import Service
from toolyard.surfaces.call_ids import parse_call_id
from toolyard.surfaces.errors import invalid_field
from toolyard.surfaces.openai.responses.ids import ResponseId, is_own_conversation, parse_response_id
from toolyard.surfaces.openai.responses.parse import ResponseBody

MISSING_PREVIOUS = "previous_response_not_found"
"""The code by which clients know that they have to send the whole history again."""


class Continuation(Struct, frozen=True, kw_only=True):
    """The conversation that a request goes on in, and the run that its results are for."""

    conversation: str
    waiting: RunView | None = None
    """The run that waits now, for its client or for a person."""
    fork_after: str = ""
    """The run after which the conversation is to be forked, since others have gone on from there."""

    @property
    def waits_for_person(self) -> bool:
        """Return whether the run waits for a person only: nothing can be started before the decision."""
        waiting = self.waiting
        return waiting is not None and not any(call.awaited == "client" for call in waiting.open_calls)


def find_named_conversation(body: ResponseBody) -> str:
    """Return the conversation that a request names, by itself or by an earlier response; empty if none."""
    if body.conversation_id or not body.previous_response_id:
        return body.conversation_id
    return _parse_previous(body.previous_response_id).conversation


async def find_continuation(service: Service, body: ResponseBody, caller: Caller) -> Continuation:
    """Return where a request goes on that names a conversation or a response. Raise NotFound or Invalid.

    A request that goes on from a response which others have followed gets a fork of the conversation.
    """
    if body.conversation_id and body.previous_response_id:
        raise invalid_field("previous_response_id", "send it or a conversation, not both")
    if body.conversation_id:
        if not is_own_conversation(body.conversation_id):
            raise invalid_field("conversation", "has an id that its owner chose: responses cannot name it")
        await service.require_conversation(body.conversation_id, caller)
        return Continuation(
            conversation=body.conversation_id, waiting=_find_waiting(await _load_runs(service, body.conversation_id))
        )
    name = body.previous_response_id or ""
    previous = _parse_previous(name)
    try:
        await service.require_conversation(previous.conversation, caller)
    except NotFound:
        raise build_missing_error(name) from None
    runs = await _load_runs(service, previous.conversation)
    last = runs.front or runs.last
    if last is not None and last.run_id == previous.run and not runs.views.keys() - {previous.run}:
        return Continuation(conversation=previous.conversation, waiting=_find_waiting(runs))
    return Continuation(conversation=previous.conversation, fork_after=previous.run)


async def fork_if_needed(service: Service, continuation: Continuation, caller: Caller) -> str:
    """Return the conversation to go on in: a fork if others have gone on from there before."""
    if not continuation.fork_after:
        return continuation.conversation
    target = service.clock.new_id("conversation")
    await service.fork(continuation.conversation, target, caller, after=continuation.fork_after, unlisted=True)
    return target


def select_results(continuation: Continuation, outputs: Mapping[str, str]) -> dict[str, Value | Failure]:
    """Return the results for the calls that wait, by the calls' own ids. Raise Invalid if one is missing."""
    waiting = continuation.waiting
    awaited = {call.call.id for call in waiting.open_calls if call.awaited == "client"} if waiting else set[str]()
    results = {parse_call_id(call_id)[1]: Value(value=output) for call_id, output in outputs.items()}
    if missing := awaited - results.keys():
        names = ", ".join(sorted(missing))
        raise invalid_field("input", f"the calls {names} wait for their function_call_output: send them first")
    return {call_id: result for call_id, result in results.items() if call_id in awaited}


def build_missing_error(response_id: str) -> Invalid:
    """Return the error for a request that goes on from a response which is not there."""
    message = f"there is no response {response_id[:80]!r}: it was not stored, or deleted"
    return Invalid(message, {"field": "previous_response_id", "code": MISSING_PREVIOUS})


def _parse_previous(response_id: str) -> ResponseId:
    try:
        return parse_response_id(response_id)
    except NotFound:
        raise build_missing_error(response_id) from None


async def _load_runs(service: Service, conversation: str) -> OpenRuns:
    reader = await service.follow(conversation)
    try:
        return await load_open_runs(service, conversation, Cursor(reader.end))
    finally:
        reader.detach()


def _find_waiting(runs: OpenRuns) -> RunView | None:
    return runs.front if runs.front is not None and runs.front.status == "waiting" else None
