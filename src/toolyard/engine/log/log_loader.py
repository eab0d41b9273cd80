"""Loads the state of a conversation: the last snapshot, and the entries since. Saves snapshots of long logs.

All work is done in small steps, so that a long conversation does not keep the event loop from others.
"""

import asyncio
import logging
import secrets
from collections import OrderedDict
from contextlib import suppress
from functools import partial

from msgspec import Struct

from toolyard.core.conversation.state import State, apply
from toolyard.core.errors import Refused, StoreDown
from toolyard.core.ports import Spawn
from toolyard.core.store import Store
from toolyard.engine.log.memory_estimate import StateSize, estimate_bytes
from toolyard.engine.log.snapshots import StoredSnapshot, UnreadableSnapshot, build_update, restore_state

SNAPSHOT_EVERY = 500
"""How many entries since the last snapshot lead to another one. Shorter logs have none."""
FOLD_STEP = 200
"""Entries that are read and folded, or items that are measured, before other tasks get their turn."""
MAX_SAVE_S = 5.0
"""How long a process that stops waits for its snapshots. They are a cache, so that none has to be saved."""
MAX_STORED = 2048
"""Snapshots that the next one can go on from. For any other conversation the next one is written anew."""

_log = logging.getLogger("toolyard.snapshots")


class LogView(Struct, frozen=True, eq=False):
    """The state of a conversation after the entry number `seq` of its log."""

    state: State = State()
    seq: int = 0
    size: StateSize = StateSize()
    memo: dict[str, object] = {}
    """The memo of the journal that this process had, for the next one."""


class LogLoader:
    """Reads states from the store. One load of a conversation at a time: two would extend the same list of items."""

    def __init__(self, store: Store, spawn: Spawn, snapshot_every: int = SNAPSHOT_EVERY) -> None:
        self._store = store
        self._spawn = spawn
        self._snapshot_every = snapshot_every
        self._stored: OrderedDict[str, StoredSnapshot] = OrderedDict()
        self._saving: dict[str, asyncio.Event] = {}

    async def load(self, conversation: str, view: LogView | None) -> LogView:
        """Return the view after all stored entries, going on from `view` if it is still right. Raises StoreDown."""
        if view is not None and view.seq and (current := await self._extend(conversation, view)) is not None:
            return current
        current = await self._load_from_snapshot(conversation)
        if current is None:
            self._stored.pop(conversation, None)
            current = await self._extend(conversation, LogView()) or LogView()
        self.save_if_due(conversation, current.state, current.seq)
        return current

    def save_if_due(self, conversation: str, state: State, seq: int) -> None:
        """Save a snapshot soon if many entries came since the last one. The state must be stored up to `seq`."""
        stored = self._stored.get(conversation)
        is_due = seq - (stored.seq if stored else 0) >= self._snapshot_every
        if is_due and conversation not in self._saving and not state.settings.ephemeral:
            self._saving[conversation] = asyncio.Event()
            self._spawn(self._save(conversation, state, seq))

    async def wait_for_snapshots(self) -> None:
        """Wait until the snapshots that are being saved are stored, or for MAX_SAVE_S."""
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_SAVE_S):
                for saved in list(self._saving.values()):
                    await saved.wait()

    async def _load_from_snapshot(self, conversation: str) -> LogView | None:
        try:
            head = await self._store.read_snapshot(conversation)
            if head is None:
                return None
            read_pieces = partial(self._store.read_snapshot_pieces, conversation)
            state, stored = await restore_state(head, read_pieces)
            restored = LogView(state, head.seq, await _measure(state))
            current = await self._extend(conversation, restored)
        except (UnreadableSnapshot, StoreDown) as error:
            _log.debug("the snapshot of conversation %s is not used: %s", conversation, error)
            return None
        if current is not None:
            self._remember(conversation, stored)
        return current

    async def _extend(self, conversation: str, view: LogView) -> LogView | None:
        """Return the view after all stored entries; None if `view` is of another conversation with the same id."""
        state, seq, size = view.state, view.seq, view.size
        # The last entry is read again: if it is another one, the conversation was deleted and opened anew.
        page = await self._store.read(conversation, max(0, seq - 1), FOLD_STEP)
        if seq:
            last, *page = page or (None,)
            if last is None or (last.seq, last.at, last.epoch) != (seq, state.last_at, state.epoch):
                return None
        while page:
            try:
                for entry in page:
                    state = apply(state, entry)
            except Refused as error:
                raise StoreDown(f"the log of conversation {conversation!r} is inconsistent: {error}") from None
            seq = page[-1].seq
            size = size.update(state)
            state.history.scan()
            await asyncio.sleep(0)
            page = await self._store.read(conversation, seq, FOLD_STEP)
        return view if seq == view.seq else LogView(state, seq, size, view.memo)

    async def _save(self, conversation: str, state: State, seq: int) -> None:
        try:
            before = self._stored.pop(conversation, None)
            built = await build_update(state, seq, secrets.token_hex(6), before)
            if built is not None and await self._store.save_snapshot(conversation, built[0]):
                self._remember(conversation, built[1])
        except Exception as error:  # a snapshot is a cache: without one the log is folded
            is_bug = not isinstance(error, StoreDown)
            _log.warning("no snapshot of conversation %s: %s", conversation, error, exc_info=is_bug)
        finally:
            self._saving.pop(conversation).set()

    def _remember(self, conversation: str, stored: StoredSnapshot) -> None:
        self._stored[conversation] = stored
        self._stored.move_to_end(conversation)
        while len(self._stored) > MAX_STORED:
            self._stored.popitem(last=False)


async def _measure(state: State) -> StateSize:
    """Return the size of a state that was restored, measured in steps."""
    sizes = list[int]()
    for history in (state.history, state.window.past, *(branch.history for branch in state.branches)):
        size = 0
        for start in range(0, len(history), FOLD_STEP):
            size += estimate_bytes(history[start : start + FOLD_STEP])
            await asyncio.sleep(0)
        sizes.append(size)
    history = state.history
    return StateSize(sizes[0], sum(sizes[1:]), history.root, len(history), state.window.past, state.branches)
