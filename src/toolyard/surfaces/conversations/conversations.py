"""`/conversations`: create, list, search, show, change and delete conversations."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import JSONBody, QueryParameter
from msgspec import UNSET, Meta, Struct
from msgspec.structs import replace

from toolyard.core.conversation.branches import Branch
from toolyard.core.conversation.commands import Change, Delete, Open
from toolyard.core.conversation.history import History
from toolyard.core.conversation.search_texts import Passage
from toolyard.core.conversation.settings import Place, Settings, SettingsChange
from toolyard.core.conversation.state import State
from toolyard.core.items import Call, Item, Reasoning
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.options import Options, check_options
from toolyard.core.store import KEPT, LISTED, CardPlace, ConversationCard
from toolyard.core.tools.web_search_rule import SearchMode
from toolyard.engine.access.presets import ALL_TOOLS
from toolyard.engine.service import Service
from toolyard.surfaces.conversations.context import NoteBody, to_note_body
from toolyard.surfaces.http.authorization import PathId, load_state, resolve_max_turns
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.idempotency import REPLAYED_HEADERS, read_request_key
from toolyard.surfaces.http.list_position import encode_position, parse_position
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.answer_options import WebSearchFields
from toolyard.surfaces.shared.chat_messages import ChatMessage, to_iso_time, to_messages, to_messages_in_steps
from toolyard.surfaces.shared.tool_views import AllowedTools, EnabledTool, list_allowed_tools, list_enabled_tools

Title = Annotated[str, Meta(min_length=1, max_length=500)]
Description = Annotated[str, Meta(max_length=10_000)]
Prompt = Annotated[str, Meta(max_length=100_000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Turns = Annotated[int, Meta(ge=1, le=1_000_000_000)]
ModelName = Annotated[str, Meta(max_length=500)]
ToolNames = Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=1000)]
PageSize = Annotated[int, QueryParameter(ge=1, le=200, description="How many at most")]
PageAfter = Annotated[str, QueryParameter(max_length=1000, description="The `next` of the page before")]
Whose = Annotated[
    Literal["mine", "tenant"], QueryParameter(description="`tenant` lists everybody's, for operators and approvers")
]


PlaceFilter = Annotated[
    Literal["listed", "pinned", "archived", "any"],
    QueryParameter(description="Which of them: `listed` are all but the archived ones"),
]
_PLACES: dict[str, tuple[CardPlace, ...]] = {
    "listed": LISTED,
    "pinned": ("pinned",),
    "archived": ("archived",),
    "any": KEPT,
}


class NewConversation(WebSearchFields, kw_only=True):
    """The settings of a new conversation; the server's defaults apply to those that are left out."""

    title: Title
    auto_title: bool = False
    """Whether a model replaces the title once the first answer is there, unless somebody sets another one before."""
    description: Description = ""
    system_prompt: Prompt = ""
    max_turns: Turns | None = None
    max_tokens: Count = 0
    max_messages: Count = 0
    model: ModelName = ""
    language: str = ""
    options: Options | None = None
    """The options of all answers; a request may still set its own."""
    tools: ToolNames | None = None
    """The names of the tools that it may use, or `["*"]` for all that the caller may use."""


class ConversationChange(WebSearchFields, kw_only=True):
    """New values for some settings; those that are null or left out stay unchanged."""

    title: Title | None = None
    place: Place | None = None
    """`pinned`, `archived`, or empty for neither."""
    description: Description | None = None
    system_prompt: Prompt | None = None
    max_turns: Turns | None = None
    max_tokens: Count | None = None
    max_messages: Count | None = None
    model: ModelName | None = None
    language: str | None = None
    options: Options | None = None
    """The options of all answers, in place of the earlier ones; a request may still set its own."""
    tools: ToolNames | None = None
    """The names of all tools that it may use from now on, or `["*"]` for all that the caller may use."""


class ConversationSummary(Struct, kw_only=True):
    id: str
    user: str
    title: str
    description: str
    created_at: str
    updated_at: str
    place: CardPlace = ""
    """`pinned`, `archived`, or empty for neither. Lists leave out the archived ones."""
    passage: Passage | None = None
    """In the results of a search: the first message with the text; null if only the title or description has it."""


class ForkOrigin(Struct, kw_only=True):
    conversation_id: str
    after: str


class BranchSummary(Struct, kw_only=True):
    """Messages that the conversation had before it was rewound."""

    head: str
    """The id to rewind to in order to continue this branch."""
    parent: str | None
    """The id of the last message that it shares with the current messages; null if it shares none."""
    first: str
    """The id of the first message of its own."""
    messages: int
    """How many messages are its own."""
    left_at: str


class Conversation(ConversationSummary, kw_only=True):
    auto_title: bool
    """Whether a model is still to write the title, after the first answer."""
    system_prompt: str
    max_turns: int
    max_tokens: int | None
    max_messages: int | None
    """How many messages of the history the model is shown at most; null means no limit."""
    model: str
    language: str
    """The language of texts that the server writes itself; empty if the request, division or server decides."""
    web_search: SearchMode
    """Where web searches run, unless a request says otherwise; empty if not set."""
    options: Options
    """How the model is to answer, unless a request says otherwise."""
    status: Literal["idle", "running", "waiting"]
    enabled_tools: list[EnabledTool]
    tools: list[str]
    """The names of the tools that it may use, also of those that are gone; `["*"]` if it may use all."""
    context: dict[str, NoteBody]
    messages_in_context: int
    """How many messages the model is shown: fewer than there are once the history has been compacted."""
    tokens_in_context: int
    """The estimated number of tokens of those messages."""
    messages: list[ChatMessage]
    branches: list[BranchSummary]
    """Messages that were left by a rewind, which can be returned to."""
    forked_from: ForkOrigin | None
    """Where this conversation was forked from; null if it was not."""


class ConversationAnswer(Struct, kw_only=True):
    conversation: Conversation
    message: str
    success: bool = True


class ConversationList(Struct, kw_only=True):
    """One page of conversations. `next` is the `after` of the next page, null on the last one."""

    conversations: list[ConversationSummary]
    count: int
    next: str | None
    message: str
    success: bool = True


class ConversationDeleted(Struct, kw_only=True):
    message: str
    success: bool = True


async def list_page(
    request: HttpRequest, limit: int, after: str, whose: str, place: str, text: str = ""
) -> ConversationList:
    caller, position = get_request_context(request.scope).caller, parse_position(after)
    conversations = request.backend.service.conversations
    cards = await conversations.list_cards(
        caller, text=text, after=position, limit=limit + 1, everyone=whose == "tenant", places=_PLACES[place]
    )  # one more than requested, to know whether there is another page
    return build_list(cards, limit, await conversations.find_passages(cards[:limit], text) if text else {})


@post("/conversations", responses=ERRORS, tags=["conversations"])
async def create(request: HttpRequest, data: JSONBody[NewConversation]) -> Response[ConversationAnswer]:
    """Create a conversation."""
    service = request.backend.service
    context, conversation_id = get_request_context(request.scope), service.clock.new_id("conversation")
    command = Open(
        by=context.caller,
        correlation_id=context.correlation_id,
        request=await read_request_key(request),
        settings=parse_new(data, service.default_settings, service.runs.limits_for(context.caller)),
    )
    record = await service.conversations.submit_once(conversation_id, command)
    created = record.conversation if record else conversation_id
    answer = await load_answer(service, request, created, f"Conversation {data.title!r} created")
    return Response(answer, status_code=201, headers=REPLAYED_HEADERS if record else {})


@get("/conversations", responses=ERRORS, tags=["conversations"])
async def list_all(
    request: HttpRequest,
    limit: PageSize = 50,
    after: PageAfter = "",
    whose: Whose = "mine",
    place: PlaceFilter = "listed",
) -> ConversationList:
    """List conversations, the most recently changed first."""
    return await list_page(request, limit, after, whose, place)


@get("/conversations/search", responses=ERRORS, tags=["conversations"])
async def search(
    request: HttpRequest,
    q: Annotated[str, QueryParameter(min_length=1, max_length=500)],
    limit: PageSize = 50,
    after: PageAfter = "",
    whose: Whose = "mine",
    place: PlaceFilter = "listed",
) -> ConversationList:
    """List conversations that have a text in the title, the description or a message, ignoring case."""
    return await list_page(request, limit, after, whose, place, q)


@get("/conversations/{conversation_id:str}", responses=ERRORS, tags=["conversations"])
async def show(request: HttpRequest, conversation_id: PathId) -> ConversationAnswer:
    """Return a conversation with its messages."""
    return await load_answer(request.backend.service, request, conversation_id, "Conversation found")


@put("/conversations/{conversation_id:str}", responses=ERRORS, tags=["conversations"])
async def change(
    request: HttpRequest, conversation_id: PathId, data: JSONBody[ConversationChange]
) -> ConversationAnswer:
    """Change some settings of a conversation. They apply from the next run on."""
    service = request.backend.service
    context = get_request_context(request.scope)
    await load_state(service, conversation_id, context.caller)
    change = parse_change(data, service.runs.limits_for(context.caller))
    await service.conversations.submit(
        conversation_id, Change(by=context.caller, correlation_id=context.correlation_id, change=change)
    )
    return await load_answer(service, request, conversation_id, "Conversation changed")


@delete("/conversations/{conversation_id:str}", status_code=200, responses=ERRORS, tags=["conversations"])
async def remove(
    request: HttpRequest,
    conversation_id: PathId,
    undo: Annotated[bool, QueryParameter(description="Whether it can be restored for 30 seconds")] = False,
) -> ConversationDeleted:
    """Delete a conversation with everything that belongs to it. Its run is stopped."""
    context = get_request_context(request.scope)
    delete = Delete(by=context.caller, correlation_id=context.correlation_id, can_be_undone=undo)
    await request.backend.service.conversations.submit(conversation_id, delete)
    return ConversationDeleted(message=f"Conversation {conversation_id!r} deleted")


@post("/conversations/{conversation_id:str}/restore", status_code=200, responses=ERRORS, tags=["conversations"])
async def restore(request: HttpRequest, conversation_id: PathId) -> ConversationAnswer:
    """Undo a deletion with `undo` of the last 30 seconds. Runs that it stopped stay stopped."""
    service = request.backend.service
    await service.conversations.restore(conversation_id, get_request_context(request.scope).caller)
    return await load_answer(service, request, conversation_id, "Conversation restored")


ROUTES = (create, list_all, search, show, change, remove, restore)


async def load_answer(service: Service, request: HttpRequest, conversation_id: str, message: str) -> ConversationAnswer:
    caller = get_request_context(request.scope).caller
    card = await service.conversations.require(conversation_id, caller, "see")
    state = await load_state(service, conversation_id, caller, "see")
    allowed_tools = list_allowed_tools(service, caller, state.settings)
    messages = await to_messages_in_steps(state.full_history)
    conversation = build_conversation(card, state, service.runs.limits_for(caller), allowed_tools, messages)
    return ConversationAnswer(conversation=conversation, message=message)


def parse_new(data: NewConversation, default: Settings, server_limits: Limits) -> Settings:
    max_turns = check_max_turns(data.max_turns or resolve_max_turns(default, server_limits), server_limits)
    return replace(
        default,
        title=data.title,
        auto_title=data.auto_title,
        description=data.description,
        system_prompt=data.system_prompt or default.system_prompt,
        model=data.model or default.model,
        max_tokens=data.max_tokens or default.max_tokens,
        max_messages=data.max_messages or default.max_messages,
        web_search=data.search_mode or default.web_search,
        language=data.language,
        options=default.options if data.options is None else check_default_options(data.options),
        tools=default.tools if data.tools is None else parse_tools(data.tools),
        limits=replace(default.limits or server_limits, turns_per_request=max_turns),
    )


def parse_change(data: ConversationChange, server_limits: Limits) -> SettingsChange:
    return SettingsChange(
        title=UNSET if data.title is None else data.title,
        place=UNSET if data.place is None else data.place,
        description=UNSET if data.description is None else data.description,
        system_prompt=UNSET if data.system_prompt is None else data.system_prompt,
        model=UNSET if data.model is None else data.model,
        max_tokens=UNSET if data.max_tokens is None else data.max_tokens,
        max_messages=UNSET if data.max_messages is None else data.max_messages,
        web_search=data.search_mode or UNSET,
        language=UNSET if data.language is None else data.language,
        options=UNSET if data.options is None else check_default_options(data.options),
        tools=UNSET if data.tools is None else parse_tools(data.tools),
        max_turns=check_max_turns(data.max_turns or 0, server_limits),
        default_limits=server_limits,
    )


def parse_tools(names: Sequence[str]) -> frozenset[str] | None:
    """Return the tools of a conversation as its settings keep them. None means all that its caller may use."""
    return None if ALL_TOOLS in names else frozenset(names)


def check_default_options(options: Options) -> Options:
    """Return the options. Raise Invalid if no provider takes one of them, or if they are for a single request."""
    check_options(options)
    if options.output_schema is not None:
        raise invalid_field("options.output_schema", "belongs to a request, not to a conversation")
    return options


def check_max_turns(max_turns: int, server_limits: Limits) -> int:
    """Return the number of turns. Raise Invalid if the server allows fewer."""
    if max_turns > server_limits.turns_per_request:
        raise invalid_field("max_turns", f"this server allows at most {server_limits.turns_per_request}")
    return max_turns


def build_conversation(
    card: ConversationCard, state: State, server_limits: Limits, tools: AllowedTools, messages: list[ChatMessage]
) -> Conversation:
    settings, run, full_history, origin = state.settings, state.run, state.full_history, state.origin
    return Conversation(
        **msgspec.structs.asdict(build_summary(card)),
        auto_title=settings.auto_title,
        system_prompt=settings.system_prompt,
        max_turns=resolve_max_turns(settings, server_limits),
        max_tokens=settings.max_tokens or None,
        max_messages=settings.max_messages or None,
        model=settings.model,
        web_search=settings.web_search,
        language=settings.language,
        options=settings.options,
        status="idle" if run is None else "running" if run.suspended_at is None else "waiting",
        enabled_tools=list_enabled_tools(tools, settings),
        tools=[ALL_TOOLS] if settings.tools is None else sorted(settings.tools),
        context={note_id: to_note_body(note) for note_id, note in settings.context.items()},
        messages_in_context=state.history.messages,
        tokens_in_context=state.history.tokens,
        messages=messages,
        branches=build_branch_summaries(full_history, state.branches),
        forked_from=ForkOrigin(conversation_id=origin.conversation, after=origin.after) if origin else None,
    )


def build_summary(card: ConversationCard, passage: Passage | None = None) -> ConversationSummary:
    return ConversationSummary(
        id=card.id,
        user=card.user,
        title=card.title,
        description=card.description,
        created_at=to_iso_time(card.created_at),
        updated_at=to_iso_time(card.updated_at),
        place=card.place,
        passage=passage,
    )


def build_list(cards: Sequence[ConversationCard], limit: int, passages: Mapping[str, Passage]) -> ConversationList:
    page = cards[:limit]
    return ConversationList(
        conversations=[build_summary(card, passages.get(card.id)) for card in page],
        count=len(page),
        next=encode_position(page[-1].position) if len(cards) > limit else None,
        message=f"{len(page)} conversations" + (", and there are more" if len(cards) > limit else ""),
    )


def build_branch_summaries(history: History, branches: Sequence[Branch]) -> list[BranchSummary]:
    """Return the branches, oldest first."""
    return [_build_branch_summary(history, branch) for branch in branches]


def _build_branch_summary(history: History, branch: Branch) -> BranchSummary:
    shared = _count_shared(history, branch.history)
    path = branch.history
    own_ids = (path[at].id for at in range(shared, len(path)) if not isinstance(path[at], Reasoning))
    return BranchSummary(
        head=branch.head,
        parent=_find_last_message(path.first(shared)),
        first=next(own_ids, ""),
        messages=path.messages - path.sum_first(shared)[1],
        left_at=to_iso_time(branch.left_at),
    )


def _find_last_message(history: History) -> str | None:
    """Return the id of the last message. Only the items from the last one that begins a message on are read."""
    positions = range(len(history) - 1, -1, -1)
    start = next((at for at in positions if not isinstance(history[at], Call | Reasoning)), 0)
    messages = to_messages(history.items_from(start))
    return messages[-1].id if messages else None


def _count_shared(first: Sequence[Item], second: Sequence[Item]) -> int:
    """Return how many items two histories of one conversation share: those before the first difference."""
    differs = range(min(len(first), len(second)))
    return bisect_left(differs, True, key=lambda at: first[at].id != second[at].id)
