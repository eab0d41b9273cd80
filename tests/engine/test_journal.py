"""How the journal stores what was emitted: at once, when the store has room, or not at all."""

import asyncio
from collections.abc import Coroutine, Sequence

import pytest

from support import STAFF
from toolyard.app import SystemClock
from toolyard.core.conversation.events import ConversationChanged, ConversationOpened, Entry
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import StoreDown
from toolyard.core.store import Append, Claim, CommandAnswer
from toolyard.engine.log.journal import Journal


class FullStore:
    """A store that has room only when it says so."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.batches: list[list[int]] = []
        self.answers: list[list[int]] = []
        self.fails = False
        self.append_requested = asyncio.Event()

    def begin_append(self, append: Append) -> asyncio.Future[bool] | None:
        return None

    async def append(self, append: Append) -> bool:
        self.append_requested.set()
        await self.room.wait()
        if self.fails:
            raise OSError("no more paper")
        self.batches.append([entry.seq for entry in append.entries])
        self.answers.append([answer.number for answer in append.answers])
        return False

    async def read(self, conversation: str, after: int = 0, limit: int = 0) -> Sequence[Entry]:
        return ()


def open_journal(store: FullStore, tasks: asyncio.TaskGroup) -> Journal:
    def spawn(work: Coroutine[None, None, None]) -> None:
        tasks.create_task(work)

    return Journal(
        Claim(conversation="c", epoch=1),
        State(),
        log=store,
        clock=SystemClock(),
        spawn=spawn,
        observe=lambda entry: None,
    )


async def test_what_is_emitted_while_the_store_has_no_room_is_stored_in_order_when_it_has() -> None:
    async def test() -> list[list[int]]:
        store = FullStore()
        async with asyncio.TaskGroup() as tasks:
            journal = open_journal(store, tasks)
            journal.emit(ConversationOpened(owner=STAFF, settings=Settings()))
            await store.append_requested.wait()
            journal.emit(ConversationChanged(settings=Settings(title="one")))
            journal.emit(ConversationChanged(settings=Settings(title="two")))
            assert journal.readers.stored == 0 and journal.is_busy
            store.room.set()
            await journal.wait_committed()
            assert journal.readers.stored == 3
        assert not journal.is_busy
        return store.batches

    assert (await test()) == [[1], [2, 3]]


async def test_the_outcome_of_a_command_is_stored_with_its_own_events_and_not_with_those_before() -> None:
    store = FullStore()
    async with asyncio.TaskGroup() as tasks:
        journal = open_journal(store, tasks)
        journal.emit(ConversationOpened(owner=STAFF, settings=Settings()))
        await store.append_requested.wait()  # it reads the append later, as PostgreSQL's writer does
        journal.emit(ConversationChanged(settings=Settings(title="one")), answer=CommandAnswer(number=7, outcome=b"ok"))
        store.room.set()
        await journal.wait_committed()
    assert (store.batches, store.answers) == ([[1], [2]], [[], [7]])


async def test_a_store_that_fails_in_its_own_way_breaks_the_conversation_and_says_why() -> None:
    store = FullStore()
    store.fails = True
    store.room.set()
    async with asyncio.TaskGroup() as tasks:
        journal = open_journal(store, tasks)
        journal.emit(ConversationOpened(owner=STAFF, settings=Settings()))
        with pytest.raises(StoreDown, match="no more paper"):
            await journal.wait_committed()
    assert isinstance(journal.broken, StoreDown) and not journal.is_busy
