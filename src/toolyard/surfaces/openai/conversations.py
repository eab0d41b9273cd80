"""`/v1/conversations`: OpenAI's conversations and their items, which are ours and their messages."""

from collections.abc import Iterable
from typing import Annotated, Literal

from litestar import delete, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.conversation.commands import AddMessage, Change, Delete, Open, RemoveMessage
from toolyard.core.conversation.history import History, find_trailing_calls
from toolyard.core.conversation.settings import SettingsChange
from toolyard.core.errors import NotFound
from toolyard.core.items import Call, Item
from toolyard.engine.service import Service
from toolyard.surfaces.http.authorization import PathId, load_state
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_body import LenientBody
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.openai.errors import OPENAI_ERRORS
from toolyard.surfaces.openai.responses.input_items import InputItemList, StoredItem, build_items, build_page
from toolyard.surfaces.openai.responses.output import OutputItem
from toolyard.surfaces.openai.responses.parse import InputReader, check_metadata
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.surfaces.shared.history import ItemBuilder

PATH = "/v1/conversations"
ONE = f"{PATH}/{{conversation_id:str}}"
ITEMS = f"{ONE}/items"
MAX_ITEMS = 20
"""How many items a request may add, as at OpenAI."""
InputItems = Annotated[list[dict[str, object]], Meta(max_length=MAX_ITEMS)]


class NewConversationBody(LenientBody, kw_only=True):
    """A new conversation, with its first items and up to 16 texts about it."""

    items: InputItems | None = None
    metadata: dict[str, str] | None = None


class MetadataBody(LenientBody, kw_only=True):
    metadata: dict[str, str] | None = None


class ItemsBody(LenientBody, kw_only=True):
    items: InputItems


class OpenAIConversation(Struct, kw_only=True):
    id: str
    created_at: int
    metadata: dict[str, str]
    object: Literal["conversation"] = "conversation"


class DeletedConversation(Struct, kw_only=True):
    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool = True


class StoredConversations:
    """Reads and changes conversations for the routes below."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def load(self, request: HttpRequest, conversation_id: str) -> OpenAIConversation:
        caller = get_request_context(request.scope).caller
        card = await self._service.conversations.require(conversation_id, caller, "see")
        state = await load_state(self._service, conversation_id, caller, "see")
        return OpenAIConversation(id=card.id, created_at=int(card.created_at), metadata=state.settings.metadata)

    async def load_items(self, request: HttpRequest, conversation_id: str) -> list[StoredItem]:
        caller = get_request_context(request.scope).caller
        state = await load_state(self._service, conversation_id, caller, "see")
        return list_items(conversation_id, state.full_history)

    async def create(self, request: HttpRequest, data: NewConversationBody) -> OpenAIConversation:
        service, context = self._service, get_request_context(request.scope)
        metadata, conversation_id = check_metadata(data.metadata), service.clock.new_id("conversation")
        settings = replace(service.default_settings, title=metadata.get("title", ""), metadata=metadata)
        items = self._read_items(data.items, History()) if data.items else ()
        opening = Open(by=context.caller, correlation_id=context.correlation_id, settings=settings)
        await service.conversations.submit(conversation_id, opening)
        if items:
            await self._add(request, conversation_id, items)
        return await self.load(request, conversation_id)

    async def add(self, request: HttpRequest, conversation_id: str, data: InputItems) -> list[StoredItem]:
        state = await load_state(self._service, conversation_id, get_request_context(request.scope).caller)
        items = self._read_items(data, state.history)
        await self._add(request, conversation_id, items)
        ids = {item.id for item in items}
        return [stored for stored in await self.load_items(request, conversation_id) if stored.item.id in ids]

    def _read_items(self, data: InputItems, history: History) -> tuple[Item, ...]:
        """Return what a client adds as items. A result may answer a call that the history ends with. Raise Invalid."""
        builder, reader = ItemBuilder(self._service.clock, field="items"), InputReader()
        builder.expect_results(find_trailing_calls(history))
        for index, item in enumerate(data):
            reader.add(builder, index, item)
        if not builder.items:
            raise invalid_field("items", "has nothing that is kept: send messages, calls or results")
        return self._service.runs.redact_items(builder.list_items())

    async def _add(self, request: HttpRequest, conversation_id: str, items: tuple[Item, ...]) -> None:
        context = get_request_context(request.scope)
        command = AddMessage(by=context.caller, correlation_id=context.correlation_id, items=items, may_open=False)
        await self._service.conversations.submit(conversation_id, command)

    async def update(self, request: HttpRequest, conversation_id: str, data: MetadataBody) -> OpenAIConversation:
        context = get_request_context(request.scope)
        await self._service.conversations.require(conversation_id, context.caller, "own")
        change = SettingsChange(metadata=check_metadata(data.metadata))
        command = Change(by=context.caller, correlation_id=context.correlation_id, change=change)
        await self._service.conversations.submit(conversation_id, command)
        return await self.load(request, conversation_id)

    async def remove(self, request: HttpRequest, conversation_id: str) -> None:
        context = get_request_context(request.scope)
        await self._service.conversations.submit(
            conversation_id, Delete(by=context.caller, correlation_id=context.correlation_id)
        )

    async def remove_item(self, request: HttpRequest, conversation_id: str, item_id: str) -> OpenAIConversation:
        context = get_request_context(request.scope)
        await self._service.conversations.require(conversation_id, context.caller, "own")
        item = find_item(await self.load_items(request, conversation_id), item_id).item
        command = RemoveMessage(by=context.caller, correlation_id=context.correlation_id, ids=frozenset({item.id}))
        await self._service.conversations.submit(conversation_id, command)
        return await self.load(request, conversation_id)


@post(PATH, status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def create(request: HttpRequest, data: JSONBody[NewConversationBody]) -> OpenAIConversation:
    """Create a conversation. `/v1/responses` goes on in it if it is named there."""
    conversations = StoredConversations(request.backend.service)
    return await conversations.create(request, data)


@get(ONE, responses=OPENAI_ERRORS, tags=["openai"])
async def retrieve(request: HttpRequest, conversation_id: PathId) -> OpenAIConversation:
    """Return a conversation without its items."""
    conversations = StoredConversations(request.backend.service)
    return await conversations.load(request, conversation_id)


@post(ONE, status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def update(request: HttpRequest, conversation_id: PathId, data: JSONBody[MetadataBody]) -> OpenAIConversation:
    """Replace the metadata of a conversation."""
    conversations = StoredConversations(request.backend.service)
    return await conversations.update(request, conversation_id, data)


@delete(ONE, status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def remove(request: HttpRequest, conversation_id: PathId) -> DeletedConversation:
    """Delete a conversation with everything in it."""
    conversations = StoredConversations(request.backend.service)
    await conversations.remove(request, conversation_id)
    return DeletedConversation(id=conversation_id)


@post(ITEMS, status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def add_items(request: HttpRequest, conversation_id: PathId, data: JSONBody[ItemsBody]) -> InputItemList:
    """Add items without asking the model. Refused while a run is open."""
    conversations = StoredConversations(request.backend.service)
    added = await conversations.add(request, conversation_id, data.items)
    return build_page(added, order="asc", limit=len(added))


@get(ITEMS, responses=OPENAI_ERRORS, tags=["openai"])
async def list_page(
    request: HttpRequest,
    conversation_id: PathId,
    order: FromQuery[Literal["asc", "desc"]] = "desc",
    limit: Annotated[int, QueryParameter(ge=1, le=100)] = 20,
    after: Annotated[str, QueryParameter(max_length=200)] = "",
) -> InputItemList:
    """Return a page of the items, the last one first unless `order` is `asc`."""
    conversations = StoredConversations(request.backend.service)
    return build_page(await conversations.load_items(request, conversation_id), order=order, limit=limit, after=after)


@get(f"{ITEMS}/{{item_id:str}}", responses=OPENAI_ERRORS, tags=["openai"])
async def retrieve_item(request: HttpRequest, conversation_id: PathId, item_id: PathId) -> OutputItem:
    """Return an item."""
    conversations = StoredConversations(request.backend.service)
    return find_item(await conversations.load_items(request, conversation_id), item_id).body


@delete(f"{ITEMS}/{{item_id:str}}", status_code=200, responses=OPENAI_ERRORS, tags=["openai"])
async def remove_item(request: HttpRequest, conversation_id: PathId, item_id: PathId) -> OpenAIConversation:
    """Remove an item: a call with its result, a result with its call."""
    conversations = StoredConversations(request.backend.service)
    return await conversations.remove_item(request, conversation_id, item_id)


ROUTES = (create, retrieve, update, remove, add_items, list_page, retrieve_item, remove_item)


def list_items(conversation: str, history: Iterable[Item]) -> list[StoredItem]:
    """Return the items with their bodies. Calls have the ids under which the client knows them."""
    items = list(history)
    call_ids = {item.id: _get_call_id(conversation, item) for item in items if isinstance(item, Call)}
    return build_items(items, call_ids)


def _get_call_id(conversation: str, call: Call) -> str:
    handed_out = encode_call_id(conversation, call.id)
    return handed_out if handed_out != call.id else call.provider_id or call.id


def find_item(items: Iterable[StoredItem], item_id: str) -> StoredItem:
    """Return the item with this id. Raise NotFound."""
    for stored in items:
        if stored.body["id"] == item_id:
            return stored
    raise NotFound(f"there is no item {item_id[:80]!r} in this conversation")
