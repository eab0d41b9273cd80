"""Conversations as this process reads them without owning them: folded from the log, and followed as it grows.

Nothing is claimed here, so that reading a conversation never disturbs its owner. `ownership` claims and writes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial

from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.state import State
from toolyard.core.errors import Fenced, Invalid, ToolyardError
from toolyard.core.ports import Spawn
from toolyard.core.store import Claim, Store
from toolyard.engine.log.journal import Journal
from toolyard.engine.log.log_loader import LogLoader, LogView
from toolyard.engine.log.log_tail import LogTail
from toolyard.engine.log.readers import Reader, Readers

MAX_VIEWS = 512
MAX_VIEW_BYTES = 32 * 1024 * 1024
"""Memory of all cached views together. A view that is not cached is loaded from its snapshot and the log."""


class Views:
    """Views of logs, each brought up to date when it is used, and the tails that live readers follow."""

    def __init__(
        self, store: Store, spawn: Spawn, find_journal: Callable[[str], Journal | None], max_views: int = MAX_VIEWS
    ) -> None:
        """`find_journal` returns the journal of a conversation that this process owns: it is ahead of any view."""
        self._store = store
        self._spawn = spawn
        self._find_journal = find_journal
        self._max_views = max_views
        self._loader = LogLoader(store, spawn)
        self.save_snapshot_if_due = self._loader.save_if_due
        self.wait_for_snapshots = self._loader.wait_for_snapshots
        self._cache: OrderedDict[str, LogView] = OrderedDict()
        self._cached_bytes = 0
        self._loading: dict[str, asyncio.Event] = {}
        self._tails: dict[str, LogTail] = {}
        self._closed: ToolyardError | None = None

    async def read_state(self, conversation: str) -> State:
        """Return the current state of a conversation; an empty one if it does not exist. Raises StoreDown."""
        journal = self._find_journal(conversation)
        if journal is not None and self._store.is_shared:
            # A process that was stopped for a while may have lost the conversation and not know it yet.
            await self._store.ensure_lease()
            journal = None if journal.is_lost else self._find_journal(conversation)
        return journal.state if journal is not None else (await self._load(conversation)).state

    async def take(self, claim: Claim) -> LogView:
        """Return the view of a conversation that was claimed, and forget it here: a journal will extend its state."""
        if not claim.last_seq:
            self._drop(claim.conversation)
            return LogView()
        conversation, view = claim.conversation, self._cache.get(claim.conversation)
        # If this process was the last owner and nobody has claimed the conversation since, nothing was added.
        is_current = view is not None and (view.seq, view.state.epoch + 1) == (claim.last_seq, claim.epoch)
        if view is None or not is_current or conversation in self._loading:
            view = await self._load(conversation)
        # States share the list of their items. A journal may add items to it that are never stored, and a view that
        # went on from the same list would take the stored ones for duplicates.
        self._drop(conversation)
        return view

    async def follow(self, conversation: str, after: Cursor | None, *, include_argument_deltas: bool) -> Reader:
        """Return a reader of the entries after the cursor, or from now on. Raises Invalid for one beyond the end."""
        attach = partial(self._find_readers, conversation)
        readers = await attach()
        end = readers.stored
        cursor = Cursor(end) if after is None else after
        reader = Reader(readers, cursor, include_argument_deltas=include_argument_deltas, find_readers=attach)
        # Another process may have stored entries that are not published here yet.
        if cursor.seq > end and not await self._store.read(conversation, cursor.seq - 1, 1):
            reader.detach()
            raise Invalid(f"the place {str(cursor)!r} is beyond the end of this conversation's log, which is at {end}")
        return reader

    def put(self, journal: Journal) -> None:
        """Keep the state of a journal whose conversation was released, and let its readers follow the log."""
        state = journal.state
        self._keep(
            journal.conversation,
            LogView(state, journal.readers.stored, journal.measure(), memo=journal.memo),
        )
        journal.readers.fail(Fenced("this process has released the conversation"))

    @property
    def tails(self) -> Mapping[str, LogTail]:
        return self._tails

    def move_readers(self, conversation: str) -> None:
        """Let the readers of a tail follow the journal that this process has opened instead."""
        if tail := self._tails.pop(conversation, None):
            tail.close(Fenced("this process owns the conversation now"))

    def fail_readers(self, conversation: str, why: ToolyardError) -> None:
        """End the tail of a conversation. Its readers get `why`."""
        self._drop(conversation)
        if tail := self._tails.pop(conversation, None):
            tail.close(why)

    def close(self, why: ToolyardError) -> None:
        """End all tails, and those that are about to be made. Their readers get `why`."""
        self._closed = why
        for conversation in list(self._tails):
            self.fail_readers(conversation, why)

    @property
    def open_streams(self) -> int:
        return sum(tail.readers.attached for tail in self._tails.values())

    async def _load(self, conversation: str) -> LogView:
        """Return the view after all stored entries. One load at a time: two would extend the same list of items."""
        while loading := self._loading.get(conversation):
            await loading.wait()
        self._loading[conversation] = loaded = asyncio.Event()
        try:
            view = await self._loader.load(conversation, self._cache.get(conversation))
            self._keep(conversation, view)
        except BaseException:
            self._drop(conversation)
            raise
        finally:
            del self._loading[conversation]
            loaded.set()
        return view

    def _keep(self, conversation: str, view: LogView) -> None:
        self._drop(conversation)
        if not view.seq:
            return
        self._cache[conversation] = view
        self._cached_bytes += view.size.total
        while len(self._cache) > self._max_views or (self._cached_bytes > MAX_VIEW_BYTES and len(self._cache) > 1):
            self._drop(next(iter(self._cache)))

    def _drop(self, conversation: str) -> None:
        if (view := self._cache.pop(conversation, None)) is not None:
            self._cached_bytes -= view.size.total

    async def _find_readers(self, conversation: str) -> Readers:
        """Return what a reader follows: the journal if this process owns the conversation, else a tail of the log."""
        view: LogView | None = None
        while True:
            if self._closed is not None:
                raise self._closed
            if (journal := self._find_journal(conversation)) is not None:
                return journal.readers
            if (tail := self._tails.get(conversation)) is not None and not tail.readers.broken:
                return tail.readers
            if view is not None:
                turn = view.state.turn
                self._tails[conversation] = tail = LogTail(
                    conversation,
                    view.seq,
                    view.state.epoch,
                    turn,
                    store=self._store,
                    spawn=self._spawn,
                    find_tail=self._tails.get,
                )
                tail.readers.on_idle = partial(self._close_idle, conversation, tail)
                return tail.readers
            view = await self._load(conversation)

    def _close_idle(self, conversation: str, tail: "LogTail") -> None:
        if self._tails.get(conversation) is tail:
            del self._tails[conversation]
        tail.close(None)
