"""The official conformance suite against a running Toolyard: installed as its lock file says, run, and counted."""

import fcntl
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from cli.process import start_server
from real_servers import find_node

Era = Literal["both", "legacy", "modern"]
HERE = Path(__file__).parent
THERE = Path(sys.prefix) / "conformance"
TIMEOUT_S = 600.0
_LINE = re.compile(r"[✓✗] (\S+): (\d+) passed, (\d+) failed")


ERA_NAMES: dict[Era, str] = {"legacy": "2025-11-25", "modern": "2026-07-28", "both": "both"}


def column(revision: str, era: Era) -> str:
    """Return the heading of the page's column for clients of a revision with a server of an era behind us."""
    return f"{revision} → {ERA_NAMES[era]}"


def install_suite() -> list[str]:
    """The command of the suite."""
    THERE.mkdir(exist_ok=True)
    with (THERE / "installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock_bytes, ready = (HERE / "package-lock.json").read_bytes(), THERE / "ready"
        if not ready.exists() or ready.read_bytes() != lock_bytes:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(HERE / file, THERE / file)
            command = [*find_node(), "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
            subprocess.run(command, cwd=THERE, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
            ready.write_bytes(lock_bytes)
    return [find_node()[0], str(THERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")]


@contextmanager
def serve_fixtures(folder: Path, era: Era) -> Generator[str]:
    """The address of a Toolyard that has the suite's fixtures behind it, on a server of that era."""
    (folder / "toolyard.toml").write_text(
        f"""
store = "memory:"
[limits]
requests_per_minute = 100000
[servers.fixtures]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(HERE / "fixtures.py"))}, "--era", "{era}"]
trust = true
pin = "off"
"""
    )
    with start_server(folder) as server:
        yield f"{server.url}/mcp"


def run(*words: str) -> str:
    """What the suite says."""
    done = subprocess.run(
        [*install_suite(), *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=THERE
    )
    return done.stdout + done.stderr


def parse_scores(output: str) -> dict[str, tuple[int, int]]:
    """Return the checks that passed and failed, by scenario, of a run of everything that a revision requires."""
    scenarios = {name: (int(passed), int(failed)) for name, passed, failed in _LINE.findall(output)}
    assert scenarios, output[-3000:]
    return scenarios


def count_checks(url: str, scenario: str, revision: str) -> tuple[int, int]:
    """Return how many checks of one scenario passed, and how many failed."""
    output = run("server", "--url", url, "--scenario", scenario, "--spec-version", revision)
    counts = re.search(r"Passed: (\d+)/(\d+)", output)
    assert counts is not None, output
    return int(counts[1]), int(counts[2]) - int(counts[1])
