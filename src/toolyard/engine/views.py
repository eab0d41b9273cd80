"""Conversations as this process reads them without owning them: folded from the log, and followed as it grows.

Nothing is claimed here, so that reading a conversation never disturbs its owner. `ownership` claims and writes.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial

from msgspec import Struct

from toolyard.core.cursor import Cursor
from toolyard.core.errors import Fenced, Invalid, NotFound, Refused, StoreDown, ToolyardError
from toolyard.core.memory_estimate import StateSize
from toolyard.core.state import State, apply
from toolyard.core.store import Store
from toolyard.engine.journal import Journal
from toolyard.engine.readers import PAGE_SIZE, Reader, Readers

MAX_VIEWS = 512
MAX_VIEW_BYTES = 32 * 1024 * 1024
"""Memory of all cached views together. A view that is not cached is folded from the whole log."""

_log = logging.getLogger("toolyard.views")

Spawn = Callable[[Coroutine[None, None, None]], None]


class LogView(Struct, frozen=True, eq=False):
    """The state of a conversation after the entry number `seq` of its log."""

    state: State = State()
    seq: int = 0
    size: StateSize = StateSize()


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
        self._cache: OrderedDict[str, LogView] = OrderedDict()
        self._cached_bytes = 0
        self._loading: dict[str, asyncio.Event] = {}
        self._tails: dict[str, LogTail] = {}
        self._closed: ToolyardError | None = None

    async def read_state(self, conversation: str) -> State:
        """Return the current state of a conversation; an empty one if it does not exist. Raises StoreDown."""
        journal = self._find_journal(conversation)
        return journal.state if journal is not None else (await self._load(conversation)).state

    async def take(self, conversation: str) -> LogView:
        """Return an up-to-date view, and forget it here: a journal is about to extend its state."""
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
            view = await self._bring_up_to_date(conversation, self._cache.get(conversation))
            self._keep(conversation, view)
        except BaseException:
            self._drop(conversation)
            raise
        finally:
            del self._loading[conversation]
            loaded.set()
        return view

    async def _bring_up_to_date(self, conversation: str, view: LogView | None) -> LogView:
        if view is None or not view.seq:
            entries = await self._store.read(conversation)
            view = LogView()
        else:
            # The last entry is read again: if it is another one, the conversation was deleted and opened anew.
            last, *entries = await self._store.read(conversation, view.seq - 1) or (None,)
            if last is None or (last.seq, last.at, last.epoch) != (view.seq, view.state.last_at, view.state.epoch):
                return await self._bring_up_to_date(conversation, None)
        state = view.state
        try:
            for entry in entries:
                state = apply(state, entry)
        except Refused as error:
            raise StoreDown(f"the log of conversation {conversation!r} is inconsistent: {error}") from None
        if not entries:
            return view
        return LogView(state, entries[-1].seq, view.size.update(state))

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
                self._tails[conversation] = tail = LogTail(conversation, view, self._store, self._spawn)
                tail.readers.on_idle = partial(self._close_idle, conversation, tail)
                return tail.readers
            view = await self._load(conversation)

    def _close_idle(self, conversation: str, tail: "LogTail") -> None:
        if self._tails.get(conversation) is tail:
            del self._tails[conversation]
        tail.close(None)


class LogTail:
    """Publishes new entries of a log to the readers in this process, while no journal of this process does."""

    def __init__(self, conversation: str, view: LogView, store: Store, spawn: Spawn) -> None:
        self.readers = Readers(partial(store.read, conversation), view.seq)
        self._conversation = conversation
        self._epoch = view.state.epoch
        """The owner that wrote the last published entry."""
        self._store = store
        self._spawn = spawn
        self._closed = False
        self._reading = False
        self._woken = False
        self._unsubscribe = store.subscribe(conversation, self._wake)
        self._wake()  # entries may have been stored since the view was read

    def close(self, why: ToolyardError | None) -> None:
        self._closed = True
        self._unsubscribe()
        if why is not None:
            self.readers.fail(why)

    def _wake(self) -> None:
        self._woken = True
        if not self._reading:
            self._reading = True
            self._spawn(self._read())

    async def _read(self) -> None:
        try:
            while self._woken and not self._closed:
                self._woken = False
                await self._publish_new()
        except Exception as error:  # ends the readers of this conversation only
            if not isinstance(error, ToolyardError):
                _log.error("conversation %s cannot be followed", self._conversation, exc_info=error)
                error = StoreDown(f"the log could not be read: {type(error).__name__}")
            if not self._closed:
                self.close(error)
        finally:
            self._reading = False

    async def _publish_new(self) -> None:
        stored = self.readers.stored
        # The last entry is read again, as in `Views`, to learn that the conversation was deleted or opened anew.
        entries = await self._store.read(self._conversation, max(0, stored - 1), PAGE_SIZE)
        if self._closed:
            return
        if stored and (not entries or (entries[0].seq, entries[0].epoch) != (stored, self._epoch)):
            raise NotFound("the conversation was deleted")
        for entry in entries:
            if entry.seq > stored:
                self._epoch = entry.epoch
                self.readers.publish(entry)
        self._woken = self._woken or len(entries) == PAGE_SIZE
