"""`/conversations/{id}/messages` and `…/context`: what the model is told. It starts nothing."""

from collections.abc import Sequence
from typing import Annotated, Literal

from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta, Struct

from toolyard.core.commands import AddMessage, RemoveMessage
from toolyard.core.errors import NotFound
from toolyard.core.items import Item, ModelText, SystemText, TextPart, UserMessage
from toolyard.core.ports import Mint
from toolyard.core.settings import Note, Settings, SettingsChange
from toolyard.engine.service import Service
from toolyard.surfaces._answers import ERRORS
from toolyard.surfaces._errors import invalid
from toolyard.surfaces._known import PathId, state_of
from toolyard.surfaces._messages import Message, grouped, removable, to_messages, told
from toolyard.surfaces._notes import MOST_NOTES, NoteBody, note_body
from toolyard.surfaces._tolerance import SeedBody
from toolyard.surfaces._visit import Visitor, visit_of

MESSAGES = "/conversations/{conversation_id:str}/messages"
CONTEXT = "/conversations/{conversation_id:str}/context"


class NewMessage(SeedBody, kw_only=True):
    role: Literal["user", "assistant", "system"]
    content: Annotated[str, Meta(min_length=1, max_length=1_000_000)]


class MessageAnswer(Struct, kw_only=True):
    message: Message
    result_message: str
    success: bool = True


class MessageList(Struct, kw_only=True):
    """Oldest first. `next` is the `after` of the next page, null on the last one."""

    messages: list[Message]
    count: int
    total: int
    next: str | None
    success: bool = True


class MessageDeleted(Struct, kw_only=True):
    """`deleted` names the messages that went: calls and their results go together."""

    deleted: list[str]
    message: str
    success: bool = True


class ContextAnswer(Struct, kw_only=True):
    context_id: str
    context: NoteBody
    message: str
    success: bool = True


class ContextList(Struct, kw_only=True):
    """By id."""

    context: dict[str, NoteBody]
    count: int
    success: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    return [*_message_routes(service), *_context_routes(service)]


def _message_routes(service: Service) -> list[HTTPRouteHandler]:
    @get(MESSAGES, responses=ERRORS, tags=["messages"])
    async def list_messages(
        request: Visitor,
        conversation_id: PathId,
        limit: Annotated[int, QueryParameter(ge=1, le=10_000)] = 1000,
        after: Annotated[str, QueryParameter(max_length=1000, description="The id of the last message seen")] = "",
    ) -> MessageList:
        """All messages, calls and results among them, oldest first."""
        state = await state_of(service, conversation_id, visit_of(request.scope).caller, "see")
        return page(state.whole, limit, after)

    @post(MESSAGES, responses=ERRORS, tags=["messages"])
    async def add_message(request: Visitor, conversation_id: PathId, data: JSONBody[NewMessage]) -> MessageAnswer:
        """Add a message without asking the model. Refused while a run is open."""
        visit = visit_of(request.scope)
        await state_of(service, conversation_id, visit.caller)
        item = parse_message(data, service.mint)
        await service.submit(
            conversation_id, AddMessage(by=visit.caller, correlation_id=visit.correlation_id, item=item)
        )
        return MessageAnswer(message=told([item]), result_message="Message added")

    @delete(f"{MESSAGES}/{{message_id:str}}", status_code=200, responses=ERRORS, tags=["messages"])
    async def delete_message(request: Visitor, conversation_id: PathId, message_id: PathId) -> MessageDeleted:
        """Delete a message. An assistant's goes with its calls and their results, a tool's with its call."""
        visit = visit_of(request.scope)
        state = await state_of(service, conversation_id, visit.caller)
        ids = removable(state.whole, message_id)
        if not ids:
            raise NotFound(f"there is no message {message_id[:80]!r} in this conversation")
        before = [message.id for message in to_messages(state.whole)]
        await service.submit(
            conversation_id, RemoveMessage(by=visit.caller, correlation_id=visit.correlation_id, ids=ids)
        )
        left = {message.id for message in to_messages((await service.state(conversation_id)).whole)}
        return MessageDeleted(deleted=[id for id in before if id not in left], message="Message deleted")

    return [list_messages, add_message, delete_message]


def _context_routes(service: Service) -> list[HTTPRouteHandler]:
    @get(CONTEXT, responses=ERRORS, tags=["context"])
    async def list_context(request: Visitor, conversation_id: PathId) -> ContextList:
        """The named texts that the model is given beside the prompt."""
        state = await state_of(service, conversation_id, visit_of(request.scope).caller, "see")
        notes = {note_id: note_body(note) for note_id, note in state.settings.context.items()}
        return ContextList(context=notes, count=len(notes))

    @get(f"{CONTEXT}/{{context_id:str}}", responses=ERRORS, tags=["context"])
    async def show_context(request: Visitor, conversation_id: PathId, context_id: PathId) -> ContextAnswer:
        """One of them."""
        state = await state_of(service, conversation_id, visit_of(request.scope).caller, "see")
        note = note_of(state.settings, context_id)
        return ContextAnswer(context_id=context_id, context=note_body(note), message="Context found")

    @post(CONTEXT, responses=ERRORS, tags=["context"])
    async def add_context(request: Visitor, conversation_id: PathId, data: JSONBody[NoteBody]) -> ContextAnswer:
        """Give the model a named text from the next turn on."""
        visit, context_id = visit_of(request.scope), service.mint.id("context")
        await state_of(service, conversation_id, visit.caller)
        await service.change(
            conversation_id,
            visit.caller,
            lambda settings: with_note(settings, context_id, data),
            correlation_id=visit.correlation_id,
        )
        return ContextAnswer(context_id=context_id, context=data, message="Context added")

    @delete(f"{CONTEXT}/{{context_id:str}}", status_code=200, responses=ERRORS, tags=["context"])
    async def delete_context(request: Visitor, conversation_id: PathId, context_id: PathId) -> ContextAnswer:
        """Take a named text away; the answer shows what it was."""
        visit = visit_of(request.scope)
        state = await state_of(service, conversation_id, visit.caller)
        note = note_of(state.settings, context_id)
        await service.change(
            conversation_id,
            visit.caller,
            lambda settings: without_note(settings, context_id),
            correlation_id=visit.correlation_id,
        )
        return ContextAnswer(context_id=context_id, context=note_body(note), message="Context deleted")

    return [list_context, show_context, add_context, delete_context]


def page(items: Sequence[Item], limit: int, after: str) -> MessageList:
    groups = grouped(items)
    ids = [told(group).id for group in groups] if after else []
    if after and after not in ids:
        raise invalid("after", "there is no such message in this conversation")
    start = ids.index(after) + 1 if after else 0
    shown = [told(group) for group in groups[start : start + limit]]
    more = start + limit < len(groups)
    return MessageList(messages=shown, count=len(shown), total=len(groups), next=shown[-1].id if more else None)


def parse_message(data: NewMessage, mint: Mint) -> Item:
    item_id, at = mint.id("item"), mint.now()
    match data.role:
        case "user":
            return UserMessage(id=item_id, at=at, parts=(TextPart(text=data.content),))
        case "assistant":
            return ModelText(id=item_id, at=at, text=data.content)
        case "system":
            return SystemText(id=item_id, at=at, text=data.content)


def note_of(settings: Settings, context_id: str) -> Note:
    note = settings.context.get(context_id)
    if note is None:
        raise NotFound(f"there is no context {context_id[:80]!r} in this conversation")
    return note


def with_note(settings: Settings, context_id: str, data: NoteBody) -> SettingsChange:
    if len(settings.context) >= MOST_NOTES:
        raise invalid("context", f"a conversation has at most {MOST_NOTES}; delete one first")
    note = Note(name=data.descriptive_name, text=data.content)
    return SettingsChange(context={**settings.context, context_id: note})


def without_note(settings: Settings, context_id: str) -> SettingsChange:
    return SettingsChange(context={key: note for key, note in settings.context.items() if key != context_id})
