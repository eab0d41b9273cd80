"""Three replicas of the household example on one PostgreSQL, behind the load balancer that is installed.

`make cluster`, or `python examples/cluster/cluster.py --port 8080`. Everything is in the folder `.cluster`. Ctrl-C ends
all of it. A replica that dies is started again: kill one with the command that is printed and go on with a chat.
"""

import argparse
import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from balancer import write_config
from local_postgres import LocalPostgres, find_free_port

ROOT = Path(__file__).parents[2]
HOUSEHOLD = ROOT / "examples" / "household" / "toolyard.toml"
MAX_START_S = 60.0
MAX_STOP_S = 10.0
RESTART_S = 1.0
POLL_S = 0.1


class Child:
    """A process that is started again when it ends, until it is stopped."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self.name = name
        self._command = command
        self._log = folder / f"{name}.log"
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None

    async def supervise(self) -> None:
        while True:
            with self._log.open("ab") as log:
                # In a session of its own: Ctrl-C reaches this program only, which then stops all in order.
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, stdout=log, stderr=log, env=self._environment, start_new_session=True
                )
            print(f"  {self.name:<10} process {self._process.pid}, log {self._log}", flush=True)
            code = await self._process.wait()
            print(f"  {self.name:<10} ended with {code} and is started again", flush=True)
            await asyncio.sleep(RESTART_S)

    async def stop(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        # SIGINT, as a person at a terminal: replicas do not wait for load balancers then.
        self._process.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(MAX_STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def run_cluster(folder: Path, port: int, replicas: int) -> None:
    ports = [port + number if port else find_free_port() for number in range(replicas + 1)]
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    database = LocalPostgres(folder / "postgres")
    await asyncio.to_thread(database.start)
    children = build_replicas(folder, database.url, ports[1:])
    try:
        balancer = write_config(folder, ports[0], ports[1:])
        if balancer:
            children.append(Child("balancer", balancer, folder, dict(os.environ)))
        async with asyncio.TaskGroup() as tasks:
            supervisors = [tasks.create_task(child.supervise()) for child in children]
            announced = tasks.create_task(announce(ports, bool(balancer)))
            await stopped.wait()
            for task in (announced, *supervisors):
                task.cancel()
    finally:
        print("Stopping ...", flush=True)
        await asyncio.gather(*(child.stop() for child in children))
        await asyncio.to_thread(database.stop)
    print("Stopped.", flush=True)


def build_replicas(folder: Path, store: str, ports: Sequence[int]) -> list[Child]:
    environment = {**os.environ, "HOUSEHOLD_DB": str(folder / "household.db")}
    serve = [sys.executable, "-m", "toolyard", "serve", "--config", str(HOUSEHOLD), "--store", store]
    return [
        Child(f"replica-{number}", [*serve, "--port", str(port)], folder, environment)
        for number, port in enumerate(ports, 1)
    ]


async def announce(ports: Sequence[int], has_balancer: bool) -> None:
    """Print where the cluster is, once its replicas are ready."""
    for port in ports[1:]:
        await wait_until_ready(port)
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    if has_balancer:
        print(f"Open {addresses[0]}, which leads to any of {', '.join(addresses[1:])}.", flush=True)
    else:
        print(f"No Caddy, HAProxy or nginx is installed. Open any of {', '.join(addresses[1:])}:", flush=True)
        print("they show the same conversations.", flush=True)
    print("The page shows below your name which replica answered. Kill one with kill -9; Ctrl-C ends all.", flush=True)


async def wait_until_ready(port: int) -> None:
    for _ in range(int(MAX_START_S / POLL_S)):
        if await asyncio.to_thread(is_ready, port):
            return
        await asyncio.sleep(POLL_S)
    raise SystemExit(f"the replica on port {port} did not get ready in {MAX_START_S:g} s; see its log")


def is_ready(port: int) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as response:
        return response.status == 200
    return False


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8080, help="of the balancer; the replicas have the next ones")
    options.add_argument("--replicas", type=int, default=3)
    options.add_argument("--folder", type=Path, default=ROOT / ".cluster")
    chosen = options.parse_args()
    folder = chosen.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run_cluster(folder, chosen.port, chosen.replicas))


if __name__ == "__main__":
    main()
