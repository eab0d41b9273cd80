"""Yards on one memory database, as replicas of each other, with tools and a model that wait for the test."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S, wait_until
from toolyard import Caller, ModelRequest, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import (
    CallEnded,
    CallJudged,
    Entry,
    ModelDelta,
    Published,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import ModelText, Result
from toolyard.engine.log.readers import Reader
from toolyard.testing import Script, Scripted, Turn, call, say

OWNER = Caller(user="local", roles=frozenset({"admin"}))


class Gate:
    """Lets a tool wait for the test, and the test for the tool."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.entered, self.opened = asyncio.Event(), asyncio.Event()
        self.passed = 0


gate = Gate()


@tool
async def hold() -> str:
    """Wait until the test lets it go on."""
    gate.entered.set()
    await gate.opened.wait()
    gate.passed += 1
    return "held"


@tool(approval="always")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class HalvingModel:
    """A model that writes two halves of a text, and between them waits for the test."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        halves = ("Grüße an ", "die andere Replik 👋" * 500)
        yield TextAppended(turn=request.turn, offset=0, text=halves[0])
        gate.entered.set()
        await gate.opened.wait()
        yield TextAppended(turn=request.turn, offset=len(halves[0].encode()), text=halves[1])
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="".join(halves))
        yield TurnEnded(items=(text,), finish="stop")

    async def close(self) -> None:
        pass


class HungStore(SharedMemoryStore):
    """The store of a replica that hangs: it reads no forwarded commands until the test lets it hear again."""

    is_deaf = True

    def receive(self, body: bytes) -> None:
        if not self.is_deaf:
            super().receive(body)

    async def find_forwarded(self) -> Sequence[str]:
        return () if self.is_deaf else await super().find_forwarded()


class SweepingStore(SharedMemoryStore):
    """A store that tells when its replica has looked for due work."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self._sweeps = 0

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        self._sweeps += 1
        return await super().find_due(now, limit)

    async def wait_for_sweep(self) -> None:
        """Wait until a search for due work that begins from now on has been dealt with."""
        seen = self._sweeps
        await wait_until(lambda: self._sweeps >= seen + 3)


class MemoryReplica:
    """A yard with its store."""

    def __init__(self, yard: Yard, store: SharedMemoryStore) -> None:
        self.yard, self.store = yard, store


def build_yard(script: Script | HalvingModel, store: SharedMemoryStore, tools: Sequence[object]) -> Yard:
    model = script if isinstance(script, HalvingModel) else Scripted(script)
    return Yard.from_wiring(Wiring(model=model, tools=tools, opened_store=store, grace_s=0.1))


@asynccontextmanager
async def open_replicas(
    script: Script | HalvingModel,
    stores: Sequence[type[SharedMemoryStore]] = (SharedMemoryStore, SharedMemoryStore),
    tools: Sequence[object] = (),
) -> AsyncGenerator[list[MemoryReplica]]:
    gate.reset()
    database = MemoryDatabase()
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        replicas: list[MemoryReplica] = []
        for make_store in stores:
            store = make_store(database)
            yard = build_yard(script, store, tools or [hold, pay])
            replicas.append(MemoryReplica(await stack.enter_async_context(yard), store))
        yield replicas


def hold_then_answer(request: ModelRequest) -> Turn:
    return say("done") if isinstance(request.history[-1], Result) else call("hold")


async def read_until(reader: Reader, kind: type[object]) -> list[Published]:
    items: list[Published] = []
    async for item in reader:
        items.append(item)
        if isinstance(item, Entry) and isinstance(item.event, kind):
            return items
    raise AssertionError("the reader ended")


async def read_outcomes(store: SharedMemoryStore) -> list[str]:
    events = [entry.event for entry in await store.read("c")]
    return [event.result.outcome for event in events if isinstance(event, CallEnded)]


def find_asked_call(items: Sequence[Published]) -> str:
    """Return the id of the only call that asks for a decision."""
    events = [item.event for item in items if isinstance(item, Entry)]
    (call_id,) = [event.call_id for event in events if isinstance(event, CallJudged) and event.verdict == "ask"]
    return call_id


async def start(replica: MemoryReplica) -> "asyncio.Task[str]":
    run = asyncio.create_task(replica.yard.ask("go", conversation="c"))
    await gate.entered.wait()
    return run
