"""Conversations for surfaces: submit commands, follow and read logs, list what a caller may see."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from msgspec import UnsetType
from msgspec.structs import replace

from toolyard.codec import check_encodable, check_items, omit_long_text
from toolyard.core.caller import Caller
from toolyard.core.conversation.approvals import find_refusal
from toolyard.core.conversation.commands import (
    Approve,
    Change,
    Command,
    Delete,
    Deny,
    Fork,
    Open,
    RemoveMessage,
    Start,
    Stop,
)
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Entry, Origin, RequestKey
from toolyard.core.conversation.forks import find_fork_items
from toolyard.core.conversation.history import find_direct_calls
from toolyard.core.conversation.search_texts import Passage, PassageFinder
from toolyard.core.conversation.settings import AppliedPreset, Settings, SettingsChange
from toolyard.core.conversation.state import State
from toolyard.core.errors import (
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    RequestRepeated,
    Unavailable,
)
from toolyard.core.items import Item, Result
from toolyard.core.settings.models.names import PRESET_PREFIX
from toolyard.core.store import LISTED, CardPlace, CatalogQuery, ConversationCard, ListPosition, RequestRecord, Store
from toolyard.core.store.audit_chain import AuditAction, hash_content
from toolyard.engine.access.presets import Presets
from toolyard.engine.access.refusals import RefusedAttempts
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.readers import Reader
from toolyard.engine.replicas.command_delivery import CommandDelivery
from toolyard.engine.replicas.housekeeping import UNDO_S
from toolyard.engine.replicas.ownership import STOPPING, Driver
from toolyard.engine.replicas.requests import Requests
from toolyard.engine.tools.large_results import build_original_handle
from toolyard.observability.auditor import Auditor

MAX_ITEMS_PER_CHECK = 250
"""Items that are checked before the event loop runs other tasks: well under a millisecond."""
PASSAGE_STEP = 500
"""Entries of a log that are read at once for the passage of a search."""
MAX_PASSAGE_ENTRIES = 5_000
MAX_PASSAGES_S = 1.0
"""How long a search looks for passages: what it found is listed without the others."""
MAX_OPEN = 200
"""Conversations that `list_open` returns."""


class Conversations:
    """Commands to conversations, their logs, and the lists of them."""

    def __init__(
        self,
        deps: Deps,
        store: Store,
        driver: Driver,
        requests: Requests,
        delivery: CommandDelivery,
        auditor: Auditor,
        refused_attempts: RefusedAttempts,
        presets: Presets,
    ) -> None:
        self._deps = deps
        self._store = store
        self._driver = driver
        self._requests = requests
        self._delivery = delivery
        self._auditor = auditor
        self._refused_attempts = refused_attempts
        self._presets = presets

    async def view(self, conversation: str) -> State:
        """Return the state of a conversation without claiming it; an empty state if it does not exist, or no longer."""
        state = await self._driver.views.read_state(conversation)
        return State() if state.settings.deleted_at else state

    async def follow(
        self, conversation: str, after: Cursor | None = None, *, include_argument_deltas: bool = True
    ) -> Reader:
        """Return a reader of the entries after the cursor, or from now on, and of everything that follows.

        Detach the reader when done. Argument deltas are skipped unless `include_argument_deltas` is set.
        """
        if self._deps.draining:
            raise Unavailable(STOPPING)
        return await self._driver.views.follow(conversation, after, include_argument_deltas=include_argument_deltas)

    async def read_entries(self, conversation: str, *, after: int = 0, until: int = 0) -> Sequence[Entry]:
        """Return the stored entries after number `after` and up to `until`, or up to the last."""
        return await self._store.read(conversation, after, max(0, until - after))

    async def read_entry(self, conversation: str, seq: int) -> Entry | None:
        """Return the stored entry of that number, or None if there is none."""
        entries = await self.read_entries(conversation, after=seq - 1, until=seq)
        return entries[0] if entries else None

    async def read_blob(self, conversation: str, handle: str) -> bytes | None:
        """Return a whole result, or its form in the venue's own format, by a handle of its Result."""
        return await self._store.get_blob(conversation, handle)

    async def read_original(self, conversation: str, call_id: str) -> bytes | None:
        """Return the result of a call as it was before secrets were replaced; None if nothing was."""
        return await self._store.get_blob(conversation, build_original_handle(call_id))

    async def submit(self, conversation: str, command: Command) -> None:
        """Decide a command and store its events before returning.

        Raises Refused, Invalid or NotFound; or RequestRepeated if the command's request took effect before.
        """
        if self._deps.draining:
            raise Unavailable(STOPPING)
        if isinstance(command, Delete):
            await self._delete(conversation, command)
            return
        if isinstance(command, Start):
            command = await self._apply_preset(conversation, command)
            if self._deps.spending.budgets and not find_direct_calls(command.input):
                await self._require_price(conversation, command)
        elif isinstance(command, Change):
            command = await self._add_preset(conversation, command)
        elif isinstance(command, Open):
            await self._presets.find_named(command.by, command.settings.model)
        await _check_in_pieces(command)
        # A tuple, as a union would be built anew for each command, in 3 µs.
        if isinstance(command, (Approve, Deny, Change, RemoveMessage)) and (
            audited := await self._describe(conversation, command)
        ):
            action, target, content_hash = audited
            if isinstance(command, Approve | Deny):
                await self._require_decider(conversation, command, audited)
            async with self._auditor.record(action, target, by=command.by, content_hash=content_hash):
                await self._delivery.submit(conversation, command)
            return
        await self._delivery.submit(conversation, command)

    async def _apply_preset(self, conversation: str, command: Start) -> Start:
        """Return the command with the preset that it or its conversation names as the model, as it is now.

        A run keeps what it began with: the command, and with it the log, holds the settings of the preset.
        """
        state = await self.view(conversation)
        settings = state.settings if state.owner else command.settings
        preset = await self._find_preset(command.by, command.run.model or settings.model, settings)
        if preset is None:
            return command
        run = replace(command.run, model=preset.model, preset=preset.change)
        if state.owner:
            return replace(command, run=run)
        if not command.chooses_tools and settings.tools == self._deps.default_settings.tools:
            # A new conversation that chooses no tools has those of the preset, in place of the server's default.
            tools = preset.change.tools
            settings = replace(settings, tools=None if isinstance(tools, UnsetType) else tools)
        return replace(command, run=run, settings=settings)

    async def _require_price(self, conversation: str, command: Start) -> None:
        """Raise Invalid if a budget applies to the run and its model has no price."""
        state = await self.view(conversation)
        settings = state.settings if state.owner else command.settings
        preset = "" if command.run.preset is None else command.run.preset.apply_to(settings).preset
        model = command.run.model or settings.model or self._deps.default_model
        await self._deps.spending.require_price(model, command.by, preset)

    async def _add_preset(self, conversation: str, command: Change) -> Change:
        """Return the command with the preset that it makes the model of the conversation. Raises NotFound."""
        if not isinstance(model := command.change.model, str) or not model.startswith(PRESET_PREFIX):
            return command
        settings = command.change.apply_to((await self.view(conversation)).settings)
        return replace(command, preset=await self._find_preset(command.by, model, settings))

    async def _find_preset(self, caller: Caller, model: str, settings: Settings) -> AppliedPreset | None:
        """Return the preset that a model's name stands for, as a run applies it; None if it is the name of a model."""
        fields = await self._presets.find_named(caller, model)
        if fields is None:
            return None
        deps = self._deps
        name = model.removeprefix(PRESET_PREFIX)
        change = fields.build_change(name, settings, deps.division_for(caller).limits or deps.limits)
        return AppliedPreset(model=fields.model or deps.default_model, change=change)

    async def submit_once(self, conversation: str, command: Command) -> RequestRecord | None:
        """Submit a command, unless its request took effect before: then return the record of that."""
        try:
            await self.submit(conversation, command)
        except RequestRepeated:
            if record := await self.find_request(command.request):
                return record
            raise
        return None

    async def _require_decider(
        self, conversation: str, command: Approve | Deny, audited: tuple[AuditAction, str, str]
    ) -> None:
        """Raise Refused, after an entry that says so, if the caller may not decide a call that asks.

        That depends on the call alone, so it cannot have changed when the command is decided.
        """
        state = await self.view(conversation)
        call = state.calls.get(command.call_id)
        if call is None or call.phase != "asking" or not (refusal := find_refusal(state, call, command.by)):
            return
        action, target, content_hash = audited
        await self._refused_attempts.count(action, target, command.by, content_hash)
        raise Refused(refusal)

    async def _describe(
        self, conversation: str, command: Approve | Deny | Change | RemoveMessage
    ) -> tuple[AuditAction, str, str] | None:
        """Return what the audit log says of a command, which the log of the conversation holds in full; else None."""
        if isinstance(command, Change):
            prompt = command.change.system_prompt
            return None if isinstance(prompt, UnsetType) else ("prompt.change", conversation, hash_content(prompt))
        if isinstance(command, RemoveMessage):
            return "message.delete", f"{conversation}/{','.join(sorted(command.ids))}", ""
        call = (await self.view(conversation)).calls.get(command.call_id)
        edited = command.arguments if isinstance(command, Approve) else None
        decided = hash_content((call.call.tool, call.arguments if edited is None else edited)) if call else ""
        return (
            "call.approve" if isinstance(command, Approve) else "call.deny",
            f"{conversation}/{command.call_id}",
            decided,
        )

    async def _delete(self, conversation: str, command: Delete) -> None:
        """Delete a conversation and stop what runs in it. Its log is not read, so that a damaged one can be deleted."""
        await self.require(conversation, command.by)
        async with self._auditor.record("conversation.delete", conversation, by=command.by):
            if command.can_be_undone:
                await self._hide(conversation, command)
            else:
                await self._driver.delete(conversation, NotFound("the conversation was deleted"))

    async def _hide(self, conversation: str, command: Delete) -> None:
        """Stop what runs in a conversation and mark it as deleted. Housekeeping deletes it once it stays so."""
        state = await self.view(conversation)
        for run in (*state.queue, *((state.run,) if state.run else ())):
            with suppress(Refused):  # it has ended meanwhile
                stop = Stop(by=command.by, correlation_id=command.correlation_id, run_id=run.id)
                await self._delivery.submit(conversation, stop)
        await self._mark_deleted(conversation, command.by, self._deps.clock.now())

    async def restore(self, conversation: str, by: Caller) -> None:
        """Undo a deletion of the last `UNDO_S` seconds. Raises NotFound if there is none."""
        card = await self._store.card(conversation)
        state = await self._driver.views.read_state(conversation)
        is_late = self._deps.clock.now() > state.settings.deleted_at + UNDO_S
        if card is None or not by.owns(Caller(user=card.user, tenant=card.tenant)) or is_late:
            raise NotFound(f"there is no conversation {conversation[:80]!r} that was just deleted")
        async with self._auditor.record("conversation.restore", conversation, by=by):
            await self._mark_deleted(conversation, by, 0.0)

    async def _mark_deleted(self, conversation: str, by: Caller, at: float) -> None:
        await self._delivery.submit(conversation, Change(by=by, change=SettingsChange(deleted_at=at)))

    async def find_request(self, request: RequestKey | None) -> RequestRecord | None:
        """Return the record of a request that took effect before, if it has a key. Raises Invalid for another body."""
        return await self._requests.find(request)

    async def fork(
        self,
        source: str,
        target: str,
        by: Caller,
        *,
        after: str = "",
        correlation_id: str = "",
        request: RequestKey | None = None,
        unlisted: bool = False,
    ) -> RequestRecord | None:
        """Open the conversation `target` with the items of `source` up to the end of a run or up to an item.

        Without `after` all items are copied. Raises Refused for a place inside a turn, or if nothing is there. If the
        request took effect before, return its record, which names the conversation that was opened then.
        """
        if record := await self.find_request(request):
            return record
        state = await self.view(source)
        if state.owner is None or not by.owns(state.owner):
            raise NotFound(f"there is no conversation {source[:80]!r}")
        entries = await self.read_entries(source) if after else ()
        # Folding a long log takes long: other conversations go on meanwhile.
        items = tuple(await asyncio.to_thread(find_fork_items, state, after, entries))
        await self.copy_blobs(source, target, items)
        settings = replace(state.settings, ephemeral=False, unlisted=unlisted, place="")
        origin = Origin(conversation=source, after=after)
        command = Fork(
            by=by, correlation_id=correlation_id, request=request, origin=origin, items=items, settings=settings
        )
        try:
            record = await self.submit_once(target, command)
        except (Refused, Invalid):
            await self._drop_copies(target)
            raise
        # No other failure drops them: the fork may be on its way to the store.
        if record is not None:
            await self._drop_copies(target)
        return record

    async def _drop_copies(self, target: str) -> None:
        """Delete the blobs of a fork that was not made."""
        if await self._store.card(target) is None:
            await self._store.delete_conversation(target)

    async def copy_blobs(self, source: str, target: str, items: Sequence[Item]) -> None:
        """Copy the whole results of the items. Before the fork is stored: one that lacks them would have lost data."""
        results = [item for item in items if isinstance(item, Result)]
        originals = {build_original_handle(result.call_id) for result in results if result.redacted}
        for handle in {handle for result in results for handle in (result.handle, result.native)} | originals:
            if handle and (body := await self._store.get_blob(source, handle)) is not None:
                await self._store.put_blob(target, handle, body)

    async def list_cards(
        self,
        caller: Caller,
        *,
        text: str = "",
        after: ListPosition | None = None,
        limit: int = 50,
        everyone: bool = False,
        unlisted: bool = False,
        places: tuple[CardPlace, ...] = LISTED,
    ) -> Sequence[ConversationCard]:
        """Return the caller's conversations, newest change first.

        `everyone` includes those of other users and needs a role that may see them. `unlisted` includes conversations
        that a program made for one call.
        """
        if everyone:
            require_overseer(caller)
        if not everyone and not caller.user:
            return ()  # an empty user would select the conversations of everybody
        user = "" if everyone else caller.user
        return await self._store.cards(
            CatalogQuery(
                tenant=caller.tenant,
                user=user,
                text=text,
                after=after,
                limit=limit,
                unlisted=unlisted,
                places=places,
            )
        )

    async def find_passages(self, cards: Sequence[ConversationCard], text: str) -> dict[str, Passage]:
        """Return where a text stands in the messages of these conversations, by conversation.

        One whose title alone has the text is left out, and so are those that could not be read in time.
        """
        passages: dict[str, Passage] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_PASSAGES_S):
                for card in cards:
                    if passage := await self._find_passage(card.id, text):
                        passages[card.id] = passage
        return passages

    async def _find_passage(self, conversation: str, text: str) -> Passage | None:
        finder = PassageFinder(text)
        for after in range(0, MAX_PASSAGE_ENTRIES, PASSAGE_STEP):
            entries = await self._store.read(conversation, after, PASSAGE_STEP)
            finder.add(entry.event for entry in entries)
            if len(entries) < PASSAGE_STEP:
                break
        return finder.build_passage()

    async def require(
        self, conversation: str, caller: Caller, permission: Literal["see", "decide", "own"] = "own"
    ) -> ConversationCard:
        """Return the card of a conversation in which this caller has the permission. Raises NotFound otherwise."""
        card = await self._store.card(conversation)
        if card is not None and card.place != "deleted":
            owner = Caller(user=card.user, tenant=card.tenant)
            allowed = {"see": caller.may_see, "decide": caller.may_decide_for, "own": caller.owns}[permission]
            if allowed(owner):
                return card
        # The same error whether the conversation is missing or another user's: it must not reveal which ids exist.
        raise NotFound(f"there is no conversation {conversation[:80]!r}")

    async def list_open(self, caller: Caller, *, everyone: bool = False) -> Sequence[ConversationCard]:
        """Return up to MAX_OPEN conversations with an open run, among those that this caller may see."""
        if everyone:
            require_overseer(caller)
        if not everyone and not caller.user:
            return ()  # an empty user would select the conversations of everybody
        return await self._list_open(caller.tenant, "" if everyone else caller.user)

    async def list_waiting(self, caller: Caller) -> Sequence[ConversationCard]:
        """Return up to MAX_OPEN conversations of the tenant with an open run, for the calls that this caller decides.

        Permission is not checked here: it differs from call to call.
        """
        return await self._list_open(caller.tenant, "")

    async def _list_open(self, tenant: str, user: str) -> Sequence[ConversationCard]:
        return [card for card in await self._store.list_open(tenant, user, MAX_OPEN) if card.place != "deleted"]


async def _check_in_pieces(command: Command) -> None:
    """Raise Invalid for a command that could not be read back from the log.

    A long input is checked in pieces, so that other tasks can run in between.
    """
    items = command.input if isinstance(command, Start) else command.items if isinstance(command, Fork) else ()
    if len(items) <= MAX_ITEMS_PER_CHECK:
        check_encodable(_replace_items(command, [omit_long_text(item) for item in items]))
        return
    check_encodable(_replace_items(command, ()))
    for start in range(0, len(items), MAX_ITEMS_PER_CHECK):
        await asyncio.sleep(0)
        check_items(items[start : start + MAX_ITEMS_PER_CHECK])


def _replace_items(command: Command, items: Sequence[Item]) -> Command:
    if isinstance(command, Start):
        return replace(command, input=tuple(items))
    return replace(command, items=tuple(items)) if isinstance(command, Fork) else command


def require_overseer(caller: Caller) -> None:
    """Raise Forbidden for a caller who may see only their own conversations."""
    if not caller.may_see(Caller(user="", tenant=caller.tenant)):
        raise Forbidden("the conversations of other users are listed for operators and approvers only")
