"""Programs on several replicas: one goes on where another died, and only where programs are run."""

import asyncio
from collections.abc import Sequence

import pytest

from engine.replica_yards import Gate, read_until
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import TEST_TIMEOUT_S
from toolyard import Context, ModelRequest, Yard, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import CallEnded, RunEnded
from toolyard.core.errors import StoreDown
from toolyard.core.items import Call, Result
from toolyard.core.store import MAX_DEATHS, PROGRAM_FORMAT
from toolyard.testing import Scripted, Turn, call, say

CODE = "a = await build(part=1)\nb = await build(part=2)\n[a, b]"


class BuildingReplicas:
    """Replicas on one database, of which those without programs lack what runs them."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.gate = Gate()
        self.built: list[str] = []

        @tool(idempotent=True, untrusted=True)
        async def build(part: int, context: Context) -> str:
            """Build a part, the second one when the test lets it."""
            if part == 2:
                self.gate.entered.set()
                await self.gate.opened.wait()
            self.built.append(context.call_id.rpartition(".")[2])
            return f"part {part}"

        self._tools: Sequence[object] = [build]

    def make(self, *, programs: bool, code: str = CODE) -> tuple[Yard, SharedMemoryStore]:
        def script(request: ModelRequest) -> Turn:
            return say("done") if isinstance(request.history[-1], Result) else call("run_code", code=code)

        store = SharedMemoryStore(self.database)
        wiring = Wiring(model=Scripted(script), tools=self._tools, opened_store=store, code=programs, grace_s=0.1)  # pyright: ignore[reportArgumentType]
        return Yard.from_wiring(wiring), store


@pytest.mark.parametrize("by_model", [True, False])
async def test_a_replica_that_runs_no_programs_leaves_a_program_to_one_that_does(by_model: bool) -> None:
    replicas = BuildingReplicas()
    (first, first_store), (second, store), (third, _) = (replicas.make(programs=has) for has in (True, False, True))
    program = Call(id="p", at=0.0, tool="run_code", arguments={"code": CODE})
    async with asyncio.timeout(TEST_TIMEOUT_S), first, second:
        run = asyncio.create_task(first.run("go" if by_model else (program,), conversation="c").wait_for_rest())
        await replicas.gate.entered.wait()
        reader = await second.follow("c", "1")
        first_store.lose_lease()
        while replicas.database.conversations["c"].epoch < 2:  # noqa: ASYNC110 - until the one without programs takes it
            await asyncio.sleep(0)
        replicas.gate.opened.set()
        async with third:
            await read_until(reader, RunEnded)
        reader.detach()
        await run
        ended = [entry.event.result for entry in await store.read("c") if isinstance(entry.event, CallEnded)]
        assert [result.outcome for result in ended] == ["ok", "ok", "ok"]
        assert ended[-1].content == '{"value":["part 1","part 2"]}'
        assert replicas.built.count("0") == 1, "what had ended was not run again"


async def test_no_program_is_begun_while_a_replica_lives_that_could_not_read_its_log() -> None:
    replicas = BuildingReplicas()
    (first, store), (_, older) = replicas.make(programs=True, code="1 + 1"), replicas.make(programs=False)
    older.log_format = PROGRAM_FORMAT - 1
    async with asyncio.timeout(TEST_TIMEOUT_S), first:
        results: list[Result] = []
        for conversation in ("c", "d"):
            await first.ask("go", conversation=conversation)
            results += [
                entry.event.result for entry in await store.read(conversation) if isinstance(entry.event, CallEnded)
            ]
            older.lose_lease()
        refused, ended = results
        assert refused.error is not None
        assert refused.error.error_type == "unavailable"
        assert "a server of an earlier version" in refused.error.error
        assert ended.content == '{"value":2}'


async def test_a_program_that_is_given_up_tells_which_of_its_calls_have_run() -> None:
    replicas = BuildingReplicas()
    (first, first_store), (second, store) = replicas.make(programs=True), replicas.make(programs=True)
    async with asyncio.timeout(TEST_TIMEOUT_S), first, second:
        run = asyncio.create_task(first.run("go", conversation="c").wait_for_rest())
        await replicas.gate.entered.wait()
        replicas.database.sharing["c"].deaths = MAX_DEATHS - 1
        first_store.lose_lease()
        reader = await second.follow("c", "1")
        await read_until(reader, RunEnded)
        reader.detach()
        replicas.gate.opened.set()
        await run
        ended = [entry.event.result for entry in await store.read("c") if isinstance(entry.event, CallEnded)]
        assert [result.outcome for result in ended] == ["ok", "unknown", "unknown"]
        assert ended[-1].error is not None
        assert "taken effect" not in ended[-1].error.error
        assert ended[-1].untrusted == "the tool build"
        assert ended[-1].error.details["calls"] == [
            {"tool": "build", "arguments": {"part": 1}, "outcome": "ok"},
            {"tool": "build", "arguments": {"part": 2}, "outcome": "unknown"},
        ]


async def test_a_program_waits_for_a_store_that_is_down_when_it_needs_a_large_result() -> None:
    @tool(read_only=True)
    async def get_blob() -> str:
        """Return a long text."""
        return "x" * 50_000

    reads: list[str] = []

    class SickStore(SharedMemoryStore):
        async def get_blob(self, conversation: str, handle: str) -> bytes | None:
            reads.append(handle)
            if len(reads) == 1:
                raise StoreDown("the database cannot be reached")
            return await super().get_blob(conversation, handle)

    model = Scripted([call("run_code", code="len(await get_blob())"), say("done")])
    wiring = Wiring(model=model, tools=[get_blob], opened_store=SickStore(MemoryDatabase()), code=True, grace_s=0.1)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard:
        result = await yard.run("go").result()
        assert result.calls[0].content == '{"value":50000}'
