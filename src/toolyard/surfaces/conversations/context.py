"""`/conversations/{id}/context`: named texts that the model receives besides the prompt."""

from litestar import Response, delete, get, post, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Struct
from msgspec.structs import asdict

from toolyard.core.conversation.commands import Change
from toolyard.core.conversation.events import ConversationChanged
from toolyard.core.conversation.notes import Note
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import NotFound
from toolyard.core.store import RequestRecord
from toolyard.engine.service import Service
from toolyard.surfaces.conversations.notes import NoteBody, NoteChange, parse_note, parse_note_edit, to_note_body
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, read_request_key
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, RequestContext, get_request_context

CONTEXT_PATH = "/conversations/{conversation_id:str}/context"


class ContextAnswer(Struct, kw_only=True):
    context_id: str
    context: NoteBody
    message: str
    success: bool = True


class ContextItem(NoteBody, kw_only=True):
    """A named text with its id."""

    id: str


class ContextList(Struct, kw_only=True):
    """The named texts, as a list and by id."""

    context: list[ContextItem]
    contexts: dict[str, NoteBody]
    count: int
    success: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    return [*_read_routes(service), *_write_routes(service)]


def _read_routes(service: Service) -> list[HTTPRouteHandler]:
    @get(CONTEXT_PATH, responses=ERRORS, tags=["context"])
    async def list_context(request: HttpRequest, conversation_id: PathId) -> ContextList:
        """List the named texts that the model receives besides the prompt."""
        state = await load_state(service, conversation_id, get_request_context(request.scope).caller, "see")
        notes = {note_id: to_note_body(note) for note_id, note in state.settings.context.items()}
        items = [ContextItem(id=note_id, **asdict(note)) for note_id, note in notes.items()]
        return ContextList(context=items, contexts=notes, count=len(notes))

    @get(f"{CONTEXT_PATH}/{{context_id:str}}", responses=ERRORS, tags=["context"])
    async def show_context(request: HttpRequest, conversation_id: PathId, context_id: PathId) -> ContextAnswer:
        """Return one named text."""
        state = await load_state(service, conversation_id, get_request_context(request.scope).caller, "see")
        note = find_note(state.settings, context_id)
        return ContextAnswer(context_id=context_id, context=to_note_body(note), message="Context found")

    return [list_context, show_context]


def _write_routes(service: Service) -> list[HTTPRouteHandler]:
    @post(CONTEXT_PATH, responses=ERRORS, tags=["context"])
    async def add_context(
        request: HttpRequest, conversation_id: PathId, data: JSONBody[NoteBody]
    ) -> Response[ContextAnswer]:
        """Add a named text, which the model receives from the next turn on."""
        context, context_id = get_request_context(request.scope), service.clock.new_id("context")
        await load_state(service, conversation_id, context.caller)
        command = Change(
            by=context.caller,
            correlation_id=context.correlation_id,
            request=await read_request_key(request),
            change=SettingsChange(notes={context_id: parse_note(data)}),
        )
        record = await service.conversations.submit_once(conversation_id, command)
        if record is not None:
            context_id = await find_added_note(service, record)
        answer = ContextAnswer(context_id=context_id, context=data, message="Context added")
        return Response(answer, status_code=201, headers=REPLAYED_HEADERS if record else {})

    @put(f"{CONTEXT_PATH}/{{context_id:str}}", responses=ERRORS, tags=["context"])
    async def change_context(
        request: HttpRequest, conversation_id: PathId, context_id: PathId, data: JSONBody[NoteChange]
    ) -> ContextAnswer:
        """Change some fields of a named text; those that are left out stay unchanged."""
        context = get_request_context(request.scope)
        find_note((await load_state(service, conversation_id, context.caller)).settings, context_id)
        change = SettingsChange(note_edits={context_id: parse_note_edit(data)})
        await submit_change(service, context, conversation_id, change)
        note = find_note((await service.conversations.view(conversation_id)).settings, context_id)
        return ContextAnswer(context_id=context_id, context=to_note_body(note), message="Context changed")

    @delete(f"{CONTEXT_PATH}/{{context_id:str}}", status_code=200, responses=ERRORS, tags=["context"])
    async def delete_context(request: HttpRequest, conversation_id: PathId, context_id: PathId) -> ContextAnswer:
        """Delete a named text, and return it as it was."""
        context = get_request_context(request.scope)
        state = await load_state(service, conversation_id, context.caller)
        note = find_note(state.settings, context_id)
        await submit_change(service, context, conversation_id, SettingsChange(notes={context_id: None}))
        return ContextAnswer(context_id=context_id, context=to_note_body(note), message="Context deleted")

    return [add_context, change_context, delete_context]


async def find_added_note(service: Service, record: RequestRecord) -> str:
    """Return the id of the text that an earlier request with the same key has added: the last one at that time."""
    entry = await service.conversations.read_entry(record.conversation, record.seq)
    if entry is None or not isinstance(entry.event, ConversationChanged):
        raise NotFound("the context that was added with this Idempotency-Key was deleted")
    return list(entry.event.settings.context)[-1]


def find_note(settings: Settings, context_id: str) -> Note:
    note = settings.context.get(context_id)
    if note is None:
        raise NotFound(f"there is no context {context_id[:80]!r} in this conversation")
    return note


async def submit_change(service: Service, context: RequestContext, conversation: str, change: SettingsChange) -> None:
    await service.conversations.submit(
        conversation, Change(by=context.caller, correlation_id=context.correlation_id, change=change)
    )
