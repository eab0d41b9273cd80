"""Measure replicas on a PostgreSQL of their own: cost of a turn, turns per second, wake-ups, text, take-over, rest.

Processes of this machine share its cores with the database, so that times say less than CPU and ratios.
"""

import argparse
import asyncio
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import asyncpg

from postgres import start_own_server
from toolyard import Caller, ModelRequest, Yard, tool
from toolyard.app import Wiring, open_store
from toolyard.core.conversation.events import (
    CallJudged,
    CallStarted,
    Entry,
    ModelDelta,
    RunEnded,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import ModelText, Result
from toolyard.engine.log.readers import Reader
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.postgres_settings import PostgresSettings
from toolyard.testing import Scripted, Turn, call, say

CALLER = Caller(user="local", roles=frozenset({"admin"}))
TURNS = 5
CALLS = 3
LEASE_S = 10.0


@tool
async def note(text: str) -> str:
    """Note a text."""
    return text


@tool(approval="always")
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@tool
async def hang() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return ""


THREE_CALLS = Turn(calls=tuple(turn.calls[0] for turn in [call("note", text="x")] * CALLS))


def five_turns(request: ModelRequest) -> Turn:
    return say("done") if request.turn % (TURNS + 1) == 0 else THREE_CALLS


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def database_cpu_s() -> float:
    """Return the CPU of all processes of PostgreSQL on this machine so far."""
    ticks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/comm").read_text().startswith("postgres"):
                fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
                ticks += sum(map(int, fields[11:13]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def open_yard(store: object, script: object = five_turns, tools: Sequence[object] = (note, pay, hang)) -> Yard:
    model = Scripted(script) if callable(script) else script
    return Yard.from_wiring(Wiring(model=model, tools=tools, opened_store=store))


async def run_turns(yard: Yard, name: str, conversations: int, together: int) -> None:
    limit = asyncio.Semaphore(together)

    async def run(number: int) -> None:
        async with limit:
            await yard.ask("go", conversation=f"{name}-{number}")

    await asyncio.gather(*map(run, range(conversations)))


async def measure_turn_cost(url: str, conversations: int, rounds: int) -> dict[str, float]:
    """CPU of this process for a turn with three calls, on SQLite and on PostgreSQL in alternation; medians in µs."""
    costs: dict[str, list[float]] = {"sqlite": [], "postgres": [], "database": []}
    for number in range(rounds):
        for kind in ("sqlite", "postgres"):
            with tempfile.TemporaryDirectory() as directory:
                store = await open_store(f"sqlite:///{directory}/yard.db" if kind == "sqlite" else url)
                async with open_yard(store) as yard:
                    await run_turns(yard, f"warm-{number}", 20, 20)
                    before, database_before = cpu_s(), database_cpu_s()
                    await run_turns(yard, f"cost-{number}", conversations, 50)
                    turns = conversations * (TURNS + 1)
                    costs[kind].append((cpu_s() - before) / turns * 1e6)
                    if kind == "postgres":
                        costs["database"].append((database_cpu_s() - database_before) / turns * 1e6)
    return {kind: round(statistics.median(values)) for kind, values in costs.items()}


def spawn(role: str, url: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--role", role, "--url", url, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def measure_throughput(url: str, replicas: int, conversations: int) -> float:
    """Turns per second of all replicas together."""
    processes = [spawn("runner", url, "--name", f"t{replicas}-{number}") for number in range(replicas)]
    for process in processes:
        assert read_line(process) == "ready"
    began = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{conversations // replicas}\n")
        process.stdin.flush()
    for process in processes:
        assert read_line(process) == "done"
    took = time.perf_counter() - began
    for process in processes:
        process.kill()
        process.wait()
    return conversations * (TURNS + 1) / took


async def run_as_runner(url: str, name: str) -> None:
    async with open_yard(await open_store(url)) as yard:
        await run_turns(yard, f"{name}-warm", 5, 5)
        print("ready", flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        await run_turns(yard, name, int(line), 50)
        print("done", flush=True)
        await asyncio.Event().wait()


async def read_until(reader: Reader, kind: type[object]) -> Entry:
    async for item in reader:
        if isinstance(item, Entry) and isinstance(item.event, kind):
            return item
    raise RuntimeError("the reader ended")


def pay_beside_hanging(request: ModelRequest) -> Turn:
    calls = (*call("hang").calls, *call("pay", amount=1).calls)
    return say("done") if isinstance(request.history[-1], Result) else Turn(calls=calls)


async def measure_wake_up(url: str, times: int) -> list[float]:
    """Milliseconds from an approval at one replica until it is decided and stored by the owner, another replica."""
    took: list[float] = []
    owner = open_yard(await open_store(url), pay_beside_hanging)
    async with open_yard(await open_store(url), pay_beside_hanging) as other, owner:
        for number in range(times):
            conversation = f"wake-{number}"
            reader = await other.follow(conversation)
            owner_run = asyncio.create_task(owner.run("go", conversation=conversation).wait_for_rest())
            asked = ""
            while not asked:
                event = (await read_until(reader, CallJudged)).event
                asked = event.call_id if isinstance(event, CallJudged) and event.verdict == "ask" else ""
            began = time.perf_counter()
            await other.approve(conversation, asked)
            took.append((time.perf_counter() - began) * 1000)
            await other.stop(conversation)
            await owner_run
            reader.detach()
    return sorted(took)


class SlowWriter:
    """A model that writes a delta with the time every 20 ms."""

    def __init__(self, deltas: int) -> None:
        self._deltas = deltas

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        pieces: list[str] = []
        offset = 0
        for _ in range(self._deltas):
            await asyncio.sleep(0.02)
            pieces.append(f"{time.perf_counter():.6f} ")
            yield TextAppended(turn=request.turn, offset=offset, text=pieces[-1])
            offset += len(pieces[-1])
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="".join(pieces))
        yield TurnEnded(items=(text,), finish="stop")

    async def close(self) -> None:
        pass


async def measure_text(url: str, streams: int, deltas: int) -> list[float]:
    """Milliseconds from a delta of the model at its owner until a reader at another replica has it."""
    took: list[float] = []

    async def read(reader: Reader) -> None:
        async for item in reader:
            if isinstance(item, TextAppended):
                now = time.perf_counter()
                took.extend((now - float(word)) * 1000 for word in item.text.split())
            elif isinstance(item, Entry) and isinstance(item.event, RunEnded):
                return

    async with open_yard(await open_store(url), SlowWriter(deltas)) as owner, open_yard(await open_store(url)) as other:
        readers = [await other.follow(f"text-{number}") for number in range(streams)]
        reading = asyncio.gather(*map(read, readers))
        await asyncio.gather(*(owner.ask("go", conversation=f"text-{number}") for number in range(streams)))
        await reading
        for reader in readers:
            reader.detach()
    return sorted(took)


def hang_first(request: ModelRequest) -> Turn:
    return say("done") if isinstance(request.history[-1], Result) else call("hang")


async def measure_take_over(url: str, conversations: int) -> dict[str, float]:
    """Seconds after the end of a hung replica's lease until all its conversations are claimed and recovered."""
    hung = spawn("hanger", url, "--name", "hung", "--conversations", str(conversations))
    owner, last_seq = read_line(hung).split()
    store = await PostgresStore.open(url, PostgresSettings(lease_s=LEASE_S))
    os.kill(hung.pid, signal.SIGSTOP)  # not killed: the death of a process on the same machine is noticed at once
    probe = await asyncpg.connect(url)
    await probe.execute("UPDATE replicas SET alive_until = clock_timestamp() WHERE id = $1", owner)
    ended = time.perf_counter()
    took = {"claimed_s": 0.0, "recovered_s": 0.0}
    async with open_yard(store, hang_first), asyncio.timeout(120):
        while not all(took.values()):
            claimed, recovered = await probe.fetchrow(_COUNT_TAKEN, owner, int(last_seq))
            for name, number in (("claimed_s", claimed), ("recovered_s", recovered)):
                if number == conversations:
                    took[name] = took[name] or round(time.perf_counter() - ended, 2)
            await asyncio.sleep(0.05)
    await probe.close()
    hung.kill()
    hung.wait()
    return took


_COUNT_TAKEN = """SELECT count(*) FILTER (WHERE replica <> $1), count(*) FILTER (WHERE last_seq > $2)
FROM conversations WHERE id LIKE 'hung-%'"""


async def run_as_hanger(url: str, name: str, conversations: int) -> None:
    store = await open_store(url)
    async with open_yard(store, hang_first) as yard:
        runs = [asyncio.create_task(yard.ask("go", conversation=f"{name}-{number}")) for number in range(conversations)]
        last_seq = 0
        for number in range(conversations):
            reader = await yard.follow(f"{name}-{number}", "1")
            last_seq = (await read_until(reader, CallStarted)).seq
            reader.detach()
        print(store.replica, last_seq, flush=True)
        await asyncio.gather(*runs)


async def measure_rest(url: str, waiting: int, seconds: float) -> dict[str, float]:
    """CPU of a replica and of the database while many runs wait for people, in percent of a core."""
    store = await PostgresStore.open(url, PostgresSettings(lease_s=LEASE_S))
    probe = await asyncpg.connect(url)
    await probe.execute(
        """INSERT INTO conversations (id, epoch, last_seq, wake_at)
        SELECT 'rest-' || n, 1, 0, extract(epoch FROM now()) + 86400 FROM generate_series(1, $1::int) n""",
        waiting,
    )
    await probe.close()
    async with open_yard(store):
        await asyncio.sleep(2)
        before, database_before = cpu_s(), database_cpu_s()
        await asyncio.sleep(seconds)
        replica_s, database_s = cpu_s() - before, database_cpu_s() - database_before
    return {
        "replica_percent": round(replica_s / seconds * 100, 2),
        "database_percent": round(database_s / seconds * 100, 2),
    }


async def measure_due(url: str) -> float:
    """Milliseconds of the query for due work: 10,000 driven, 50,000 waiting, 200,000 at rest; the median of many."""
    store = await PostgresStore.open(url, PostgresSettings(lease_s=LEASE_S))
    probe = await asyncpg.connect(url)
    await probe.execute(
        """INSERT INTO conversations (id, epoch, last_seq, wake_at, replica)
        SELECT 'due-' || n, 1, 9, CASE WHEN n <= 10000 THEN 0 WHEN n <= 60000 THEN 4e9 + n END,
        CASE WHEN n <= 10000 THEN $1 ELSE '' END FROM generate_series(1, 260000) n""",
        store.replica,
    )
    await probe.execute("ANALYZE conversations")
    took: list[float] = []
    for _ in range(200):
        began = time.perf_counter()
        await store.find_due(time.time(), 50)
        took.append((time.perf_counter() - began) * 1000)
    await probe.execute("DELETE FROM conversations WHERE id LIKE 'due-%'")
    await probe.close()
    await store.close()
    return round(statistics.median(took), 2)


def percentile(values: Sequence[float], percent: float) -> float:
    return round(values[min(len(values) - 1, int(len(values) * percent / 100))], 1)


def report(name: str, value: object) -> None:
    print(json.dumps({name: value}), flush=True)


async def measure_all(quick: bool) -> None:
    async with start_own_server({"fsync": "on", "synchronous_commit": "on"}) as server:
        url = server.url
        report(
            "CPU per turn with three calls, µs", await measure_turn_cost(url, 100 if quick else 300, 2 if quick else 4)
        )
        for replicas in (1, 3):
            speed = await measure_throughput(url, replicas, 300 if quick else 900)
            report(f"turns per second, {replicas} replicas", round(speed))
        wake_ups = await measure_wake_up(url, 50 if quick else 200)
        report("approval at another replica, ms p50, p99", [percentile(wake_ups, 50), percentile(wake_ups, 99)])
        texts = await measure_text(url, 20, 50 if quick else 200)
        report("text at another replica, ms p50, p99", [percentile(texts, 50), percentile(texts, 99)])
        report("take-over", await measure_take_over(url, 1000 if quick else 3000))
        report("due work among 260,000, ms", await measure_due(url))
        report("10,000 waiting, percent of a core", await measure_rest(url, 10_000, 10 if quick else 30))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--role", choices=["runner", "hanger"], help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--conversations", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "runner":
        asyncio.run(run_as_runner(options.url, options.name))
    elif options.role == "hanger":
        asyncio.run(run_as_hanger(options.url, options.name, options.conversations))
    else:
        asyncio.run(measure_all(options.quick))


if __name__ == "__main__":
    main()
