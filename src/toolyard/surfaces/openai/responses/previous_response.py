"""Finds where a request goes on that names an earlier response or a conversation."""

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, NotFound
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.openai.continuation import Continuation, find_in_conversation, find_waiting, load_runs
from toolyard.surfaces.openai.responses.ids import ResponseId, parse_response_id
from toolyard.surfaces.openai.responses.parse import ResponseBody

MISSING_PREVIOUS = "previous_response_not_found"
"""The code by which clients know that they have to send the whole history again."""


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
        return await find_in_conversation(service, body.conversation_id, caller)
    name = body.previous_response_id or ""
    previous = _parse_previous(name)
    try:
        await service.conversations.require(previous.conversation, caller)
    except NotFound:
        raise build_missing_error(name) from None
    runs = await load_runs(service, previous.conversation)
    last = runs.front or runs.last
    if last is not None and last.run_id == previous.run and not runs.views.keys() - {previous.run}:
        return Continuation(conversation=previous.conversation, waiting=find_waiting(runs))
    if not any(entry.run == previous.run for entry in await service.conversations.read_entries(previous.conversation)):
        raise build_missing_error(name)
    return Continuation(conversation=previous.conversation, fork_after=previous.run)


def build_missing_error(response_id: str) -> Invalid:
    """Return the error for a request that goes on from a response which is not there."""
    message = f"there is no response {response_id[:80]!r}: it was not stored, or deleted"
    return Invalid(message, {"field": "previous_response_id", "code": MISSING_PREVIOUS})


def _parse_previous(response_id: str) -> ResponseId:
    try:
        return parse_response_id(response_id)
    except NotFound:
        raise build_missing_error(response_id) from None
