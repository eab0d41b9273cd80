"""`/conversations/{id}/context`: named texts that the model receives besides the prompt."""

from typing import Annotated

from litestar import Response, delete, get, post, put
from litestar.params import JSONBody
from msgspec import UNSET, Meta, Struct
from msgspec.structs import asdict

from toolyard.core.conversation.commands import Change
from toolyard.core.conversation.context.notes import MAX_NAME_CHARS, MAX_NOTE_CHARS, Note, NoteEdit
from toolyard.core.conversation.events import ConversationChanged
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import NotFound
from toolyard.core.store import RequestRecord
from toolyard.engine.service import Service
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, read_request_key
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_body import LenientBody
from toolyard.surfaces.http.request_context import HttpRequest, RequestContext, get_request_context

NoteName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
NoteText = Annotated[str, Meta(max_length=MAX_NOTE_CHARS)]
Related = Annotated[list[Annotated[str, Meta(max_length=500)]], Meta(max_length=100)]


class NoteBody(LenientBody, Struct, kw_only=True):
    """A named text that the model receives besides the prompt."""

    descriptive_name: NoteName
    content: NoteText
    related_keywords: Related = []
    related_files: Related = []


class NoteChange(LenientBody, Struct, kw_only=True):
    """New values for some fields of a named text; those that are left out stay unchanged."""

    descriptive_name: NoteName | None = None
    content: NoteText | None = None
    related_keywords: Related | None = None
    related_files: Related | None = None


def to_note_body(note: Note) -> NoteBody:
    return NoteBody(
        descriptive_name=note.name,
        content=note.text,
        related_keywords=list(note.keywords),
        related_files=list(note.files),
    )


def parse_note(body: NoteBody) -> Note:
    return Note(
        name=body.descriptive_name,
        text=body.content,
        keywords=tuple(body.related_keywords),
        files=tuple(body.related_files),
    )


def parse_note_edit(body: NoteChange) -> NoteEdit:
    return NoteEdit(
        name=UNSET if body.descriptive_name is None else body.descriptive_name,
        text=UNSET if body.content is None else body.content,
        keywords=UNSET if body.related_keywords is None else tuple(body.related_keywords),
        files=UNSET if body.related_files is None else tuple(body.related_files),
    )


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


@get(CONTEXT_PATH, responses=ERRORS, tags=["context"])
async def list_context(request: HttpRequest, conversation_id: PathId) -> ContextList:
    """List the named texts that the model receives besides the prompt."""
    state = await load_state(request.backend.service, conversation_id, get_request_context(request.scope).caller, "see")
    notes = {note_id: to_note_body(note) for note_id, note in state.settings.context.items()}
    items = [ContextItem(id=note_id, **asdict(note)) for note_id, note in notes.items()]
    return ContextList(context=items, contexts=notes, count=len(notes))


@get(f"{CONTEXT_PATH}/{{context_id:str}}", responses=ERRORS, tags=["context"])
async def show_context(request: HttpRequest, conversation_id: PathId, context_id: PathId) -> ContextAnswer:
    """Return one named text."""
    state = await load_state(request.backend.service, conversation_id, get_request_context(request.scope).caller, "see")
    note = find_note(state.settings, context_id)
    return ContextAnswer(context_id=context_id, context=to_note_body(note), message="Context found")


@post(CONTEXT_PATH, responses=ERRORS, tags=["context"])
async def add_context(
    request: HttpRequest, conversation_id: PathId, data: JSONBody[NoteBody]
) -> Response[ContextAnswer]:
    """Add a named text, which the model receives from the next turn on."""
    service = request.backend.service
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
    service = request.backend.service
    context = get_request_context(request.scope)
    find_note((await load_state(service, conversation_id, context.caller)).settings, context_id)
    change = SettingsChange(note_edits={context_id: parse_note_edit(data)})
    await submit_change(service, context, conversation_id, change)
    note = find_note((await service.conversations.view(conversation_id)).settings, context_id)
    return ContextAnswer(context_id=context_id, context=to_note_body(note), message="Context changed")


@delete(f"{CONTEXT_PATH}/{{context_id:str}}", status_code=200, responses=ERRORS, tags=["context"])
async def delete_context(request: HttpRequest, conversation_id: PathId, context_id: PathId) -> ContextAnswer:
    """Delete a named text, and return it."""
    service = request.backend.service
    context = get_request_context(request.scope)
    state = await load_state(service, conversation_id, context.caller)
    note = find_note(state.settings, context_id)
    await submit_change(service, context, conversation_id, SettingsChange(notes={context_id: None}))
    return ContextAnswer(context_id=context_id, context=to_note_body(note), message="Context deleted")


ROUTES = (list_context, show_context, add_context, change_context, delete_context)


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
