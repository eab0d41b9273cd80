"""The cluster example: the balancers' configurations, and three replicas that are started, killed and stopped."""

import asyncio
import importlib.util
import os
import re
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Generator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
START_S = 90.0


def load_balancer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cluster_balancer", CLUSTER / "balancer.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its own module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        ("build_caddy", ["127.0.0.1:8081 127.0.0.1:8082", "health_uri /readyz", "flush_interval -1", "http://:8080"]),
        ("build_haproxy", ["server replica-8082 127.0.0.1:8082", "option httpchk GET /readyz", "bind 127.0.0.1:8080"]),
        ("build_nginx", ["server 127.0.0.1:8081", "proxy_buffering off", "http_503", "listen 127.0.0.1:8080"]),
    ],
)
def test_each_balancer_notices_who_is_not_ready_and_passes_streams_on(build: str, parts: Sequence[str]) -> None:
    config = getattr(load_balancer(), build)(8080, [8081, 8082], Path("/run/cluster"))
    assert [part for part in parts if part not in config] == []
    assert config.count("{") == config.count("}")


def ask_replica(url: str) -> str:
    """Return the id of the replica that answers."""
    with urllib.request.urlopen(f"{url}/readyz", timeout=10) as response:
        return response.headers["x-toolyard-replica"]


async def read_until(output: asyncio.StreamReader, pattern: str) -> re.Match[str]:
    async with asyncio.timeout(START_S):
        while line := (await output.readline()).decode():
            if match := re.search(pattern, line):
                return match
    raise AssertionError(f"the cluster ended without {pattern!r}")


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that the database can use as another user; those of pytest are private."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path) / "cluster"


async def test_three_replicas_are_started_and_one_that_is_killed_comes_back_and_ctrl_c_ends_all(folder: Path) -> None:
    command = [sys.executable, str(CLUSTER / "cluster.py"), "--port", "0", "--folder", str(folder)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        victim = int((await read_until(process.stdout, r"replica-1 +process (\d+)"))[1])
        urls = re.findall(r"http://[\d.:]*\d", (await read_until(process.stdout, r"Open .*")).string)[-3:]
        assert len({await asyncio.to_thread(ask_replica, url) for url in urls}) == 3
        os.kill(victim, signal.SIGKILL)
        restarted = await read_until(process.stdout, r"replica-1 +process (\d+)")
        assert int(restarted[1]) != victim
        process.send_signal(signal.SIGINT)
        await read_until(process.stdout, "Stopped.")
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
