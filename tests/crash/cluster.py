"""A cluster for tests: replicas as processes on one database, each through a proxy of its own, and faults for them."""

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from crash.cluster_check import Fault, FaultKind
from crash.ledger import LedgerReader
from crash.tcp_proxy import TcpProxy
from forked_python import ForkedPython
from ports import reserve_port
from postgres import PostgresServer, create_database, start_own_server

CHILD = Path(__file__).with_name("cluster_child.py")
LEASE_S = 2.0
LONGER = (1.3, 2.0)
"""Of the lease, for how long a replica is stopped or cut off so that others take over."""
SHORTER = (0.1, 0.5)
"""Of the lease, for how long it is cut off so that they do not: it has at least two thirds left when the cut begins."""
START_S = 60.0
STOP_S = 30.0
WAIT_FOR_CALL_S = 10.0
POLL_S = 0.005
MAX_LOG_CHARS = 3000


class ReplicaProcess:
    """A process of the cluster, which can be started again under the same address."""

    def __init__(self, name: str, port: int, proxy: TcpProxy, words: Sequence[str], log: Path) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self.proxy = proxy
        self.lock = asyncio.Lock()
        """Held while a fault is on: a replica has one at a time."""
        self._words = words
        self._log = log
        self._process: ForkedPython | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start the process, and return once it listens."""
        with self._log.open("ab") as log:
            self._process = await asyncio.to_thread(
                ForkedPython, self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        with self._process.stdout as output:  # the child prints one line
            async with asyncio.timeout(START_S):
                line = await asyncio.to_thread(output.readline)
        assert line, f"{self.name} did not start:\n{self.read_log()[-MAX_LOG_CHARS:]}"

    def read_log(self) -> str:
        """Return what the process logged."""
        return self._log.read_text()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def wait(self) -> int:
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, STOP_S)

    async def end(self) -> None:
        """Kill the process if it runs."""
        if self._process is not None:
            self._process.kill()
            await self.wait()

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None


class Cluster:
    """Replicas on one database, what was done to them, and the ledger of what they did."""

    def __init__(
        self, server: PostgresServer, database_url: str, replicas: Sequence[ReplicaProcess], ledger: LedgerReader
    ) -> None:
        self.server = server
        self.database_url = database_url
        self.replicas = replicas
        self.ledger = ledger
        self.lease_s = LEASE_S
        self.faults: list[Fault] = []

    @property
    def urls(self) -> list[str]:
        return [replica.url for replica in self.replicas]

    async def revive(self, report: Callable[[str], None]) -> None:
        """Start replicas again that ended by themselves, and report how each of them ended."""
        for replica in self.replicas:
            if replica.has_ended and not replica.lock.locked():
                async with replica.lock:
                    self.ledger.forget_process(replica.pid)
                    report(f"{replica.name} ended by itself: {replica.read_log()[-MAX_LOG_CHARS:]}")
                    await replica.start()

    async def strike(self, kind: FaultKind) -> bool:
        """Do something to a replica, or to the database. Return whether a call was in flight there."""
        if kind == "database":
            return await self._restart_database()
        replica = random.choice([replica for replica in self.replicas if not replica.lock.locked()] or self.replicas)
        async with replica.lock:
            await self._wait_for_call([replica])
            match kind:
                case "kill":
                    return await self._kill(replica)
                case "term":
                    return await self._terminate(replica)
                case "stop":
                    return await self._pause(replica)
                case "long cut" | "short cut":
                    return await self._cut(replica, kind)

    async def _wait_for_call(self, replicas: Sequence[ReplicaProcess]) -> None:
        """Wait until a replica is in a call, and then for a random part of the call."""
        deadline = time.monotonic() + WAIT_FOR_CALL_S
        while time.monotonic() < deadline:
            if any(self.ledger.list_in_flight(replica.pid) for replica in replicas):
                await asyncio.sleep(random.uniform(0, 0.04))
                return
            await asyncio.sleep(POLL_S)

    async def _kill(self, replica: ReplicaProcess) -> bool:
        pid, at = replica.pid, time.time()
        replica.send(signal.SIGKILL)
        await replica.wait()
        return await self._replace(replica, Fault("kill", pid, at, time.time()))

    async def _terminate(self, replica: ReplicaProcess) -> bool:
        pid, at = replica.pid, time.time()
        replica.send(signal.SIGTERM)
        has_call = bool(self.ledger.list_in_flight(pid))
        code = await replica.wait()
        assert code == 0, f"{replica.name} ended with {code} after SIGTERM"
        await self._replace(replica, Fault("term", pid, at, time.time()))
        return has_call

    async def _replace(self, replica: ReplicaProcess, fault: Fault) -> bool:
        self.faults.append(fault)
        has_call = bool(self.ledger.list_in_flight(fault.pid))
        self.ledger.forget_process(fault.pid)
        await replica.start()
        return has_call

    async def _pause(self, replica: ReplicaProcess) -> bool:
        at = time.time()
        replica.send(signal.SIGSTOP)
        has_call = bool(self.ledger.list_in_flight(replica.pid))
        await asyncio.sleep(LEASE_S * random.uniform(*LONGER))
        replica.send(signal.SIGCONT)
        self.faults.append(Fault("stop", replica.pid, at, time.time()))
        return has_call

    async def _cut(self, replica: ReplicaProcess, kind: FaultKind) -> bool:
        at = time.time()
        replica.proxy.cut()
        has_call = bool(self.ledger.list_in_flight(replica.pid))
        await asyncio.sleep(LEASE_S * random.uniform(*(SHORTER if kind == "short cut" else LONGER)))
        replica.proxy.mend()
        self.faults.append(Fault(kind, replica.pid, at, time.time()))
        # Several short cuts without a heartbeat between them would be a long one.
        await asyncio.sleep(LEASE_S / 2)
        return has_call

    async def _restart_database(self) -> bool:
        async with AsyncExitStack() as locks:
            for replica in self.replicas:
                await locks.enter_async_context(replica.lock)
            await self._wait_for_call(self.replicas)
            at = time.time()
            has_call = any(self.ledger.list_in_flight(replica.pid) for replica in self.replicas)
            await asyncio.to_thread(self.server.restart, "immediate")
            self.faults.append(Fault("database", 0, at, time.time()))
            await asyncio.sleep(LEASE_S / 2)
            return has_call


@asynccontextmanager
async def start_cluster(folder: Path, *controls: str, has_proxies: bool = True) -> AsyncGenerator[Cluster]:
    """Yield a cluster of three replicas on a new database server. `controls` are those of `cluster_child.py`.

    The proxies belong to the event loop: where it does not run all the time, the replicas need to do without them.
    """
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(start_own_server())
        database_url = await stack.enter_async_context(create_database(server.url))
        started: list[ReplicaProcess] = []
        ledger = LedgerReader(folder / "ledger")
        stack.callback(ledger.close)
        for number in range(3):
            name, port = f"replica-{number + 1}", stack.enter_context(reserve_port())
            proxy = TcpProxy(server.port)
            await proxy.open()
            stack.push_async_callback(proxy.close)
            store = _replace_port(database_url, proxy.port) if has_proxies else database_url
            words = [CHILD, store, folder / "ledger", name, port, LEASE_S, *controls]
            replica = ReplicaProcess(name, port, proxy, [*map(str, words)], folder / f"{name}.log")
            stack.push_async_callback(replica.end)
            started.append(replica)
        async with asyncio.TaskGroup() as starts:
            for replica in started:
                starts.create_task(replica.start())
        yield Cluster(server, database_url, started, ledger)


def _replace_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
