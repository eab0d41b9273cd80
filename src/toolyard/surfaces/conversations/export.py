"""`/conversations/{id}/export`: a conversation as a file, to read or to keep."""

from typing import Annotated, Literal

import msgspec
from litestar import Response, get
from litestar.params import QueryParameter
from msgspec import Struct

from toolyard.core.conversation.state import State
from toolyard.core.items import Item
from toolyard.surfaces.conversations.conversations import Conversation, build_conversation
from toolyard.surfaces.conversations.transcript import TranscriptContent, build_transcript, render_markdown
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
        body = render_markdown(build_transcript(card, state.full_history, content)).encode()
        return build_file(body, "text/markdown", f"{card.id}.md")
    tools = list_allowed_tools(service, caller, state.settings)
    messages = await to_messages_in_steps(state.full_history)
    answer = ConversationExport(
        exported_at=to_iso_time(service.clock.now()),
        conversation=build_conversation(card, state, service.runs.limits_for(caller), tools, messages),
        items=list(state.full_history),
        branches=list_branches(state),
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


def build_file(body: bytes, media_type: str, name: str) -> Response[bytes]:
    safe_name = "".join(character if character.isalnum() or character in "-_." else "_" for character in name)
    headers = {"content-disposition": f'attachment; filename="{safe_name.encode("ascii", "replace").decode()}"'}
    return Response(body, media_type=media_type, headers=headers)
