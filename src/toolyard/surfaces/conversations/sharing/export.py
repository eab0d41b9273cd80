"""`/conversations/{id}/export`: a conversation as a file, to read or to keep."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from litestar import Response, get
from litestar.params import QueryParameter
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.conversation.events import CallApproved, CallDenied, CallEnded, CallsRequested, Entry
from toolyard.core.conversation.state import State
from toolyard.core.items import ApprovalRecord, Item
from toolyard.engine.service.feedback import RunFeedback
from toolyard.surfaces.conversations.conversations import Conversation, build_conversation
from toolyard.surfaces.conversations.sharing.transcript import TranscriptContent, build_transcript, render_markdown
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.openapi import ERRORS, ExportOperation
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.chat_messages import to_iso_time, to_messages_in_steps
from toolyard.surfaces.shared.tool_views import list_allowed_tools

ExportFormat = Annotated[Literal["markdown", "json"], QueryParameter(description="Markdown to read, JSON to keep")]


class ExportedBranch(Struct, kw_only=True):
    """The items of a branch that was left by a rewind, without those that it shares with the conversation."""

    head: str
    items: list[Item]


class ConversationExport(Struct, kw_only=True):
    """Everything of a conversation that its reader may see. `items` are its history in full, oldest first."""

    exported_at: str
    conversation: Conversation
    items: list[Item]
    branches: list[ExportedBranch]
    feedback: dict[str, RunFeedback]
    """What its owner thinks of its runs, by the id of the run."""
    program_calls: dict[str, list[Item]]
    """The calls that programs made, and their results, by the id of the program's own call."""
    format: Literal["toolyard.conversation.1"] = "toolyard.conversation.1"


@get(
    "/conversations/{conversation_id:str}/export",
    responses=ERRORS,
    operation_class=ExportOperation,
    tags=["conversations"],
)
async def export(request: HttpRequest, conversation_id: PathId, format: ExportFormat = "markdown") -> Response[bytes]:
    """Return a conversation as a file: Markdown to read, or JSON with everything that the caller may see."""
    service = request.backend.service
    caller = get_request_context(request.scope).caller
    card = await service.conversations.require(conversation_id, caller, "see")
    state = await load_state(service, conversation_id, caller, "see")
    await service.auditor.write("conversation.export", conversation_id, by=caller)
    if format == "markdown":
        content = TranscriptContent(arguments=True, system=True)
        feedback = await service.feedback.read(conversation_id)
        transcript = build_transcript(card, state.full_history, content)
        body = render_markdown(transcript, list(feedback.values())).encode()
        return build_file(body, "text/markdown", f"{card.id}.md")
    tools = list_allowed_tools(service, caller, state.settings)
    messages = await to_messages_in_steps(state.full_history)
    answer = ConversationExport(
        exported_at=to_iso_time(service.clock.now()),
        conversation=build_conversation(card, state, service.runs.limits_for(caller), tools, messages),
        items=list(state.full_history),
        branches=list_branches(state),
        feedback=dict(await service.feedback.read(conversation_id)),
        program_calls=collect_program_calls(await service.conversations.read_entries(conversation_id)),
    )
    return build_file(msgspec.json.encode(answer), "application/json", f"{card.id}.json")


ROUTES = (export,)


def list_branches(state: State) -> list[ExportedBranch]:
    shown = {item.id for item in state.full_history}
    return [
        ExportedBranch(head=branch.history[-1].id, items=[item for item in branch.history if item.id not in shown])
        for branch in state.branches
        if branch.history
    ]


def collect_program_calls(entries: Iterable[Entry]) -> dict[str, list[Item]]:
    """Return the calls of programs and their results, in the order of the log. The history does not hold them."""
    items_by_program: dict[str, list[Item]] = {}
    programs: dict[str, str] = {}
    decisions = defaultdict[str, list[ApprovalRecord]](list)
    for entry in entries:
        match entry.event:
            case CallsRequested(parent=program, calls=calls):
                items_by_program.setdefault(program, []).extend(calls)
                programs |= {call.id: program for call in calls}
            case (
                CallApproved(call_id=call_id, by=by, reason=reason) | CallDenied(call_id=call_id, by=by, reason=reason)
            ):
                approved = isinstance(entry.event, CallApproved)
                decisions[call_id].append(ApprovalRecord(by=by, approved=approved, reason=reason))
            case CallEnded(result=result) if result.call_id in programs:
                decided = replace(result, decisions=tuple(decisions[result.call_id]))
                items_by_program[programs[result.call_id]].append(decided)
            case _:
                pass
    return items_by_program


def build_file(body: bytes, media_type: str, name: str) -> Response[bytes]:
    safe_name = "".join(character if character.isalnum() or character in "-_." else "_" for character in name)
    headers = {"content-disposition": f'attachment; filename="{safe_name.encode("ascii", "replace").decode()}"'}
    return Response(body, media_type=media_type, headers=headers)
