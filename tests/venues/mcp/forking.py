"""Processes of Python scripts, forked from one that has imported the MCP SDK: each would take a second for that."""

import atexit
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

PROGRAM = """
import json, os, runpy, signal, sys
import mcp.server.auth.settings, mcp.server.mcpserver, starlette.routing, uvicorn

def run(script, args, environment):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.environ.update(environment)
    sys.argv = [script, *args]
    sys.path.insert(0, os.path.dirname(script))
    runpy.run_path(script, run_name="__main__")

for line in sys.stdin:
    order = json.loads(line)
    if pid := order.get("kill"):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    elif not (pid := os.fork()):
        run(**order)
        os._exit(0)
    print(pid, flush=True)
"""


class ForkedScript:
    """A process that runs a script as `python SCRIPT ARGS` does."""

    def __init__(self, script: Path, args: Sequence[str], environment: Mapping[str, str]) -> None:
        self._pid = _open_parent().order({"script": str(script), "args": args, "environment": environment})

    def kill(self) -> None:
        """End the process, and return once it is gone."""
        _open_parent().order({"kill": self._pid})


class _Parent:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self._process.communicate)

    def order(self, order: object) -> int:
        """Send an order, and return the id of the process that it concerns."""
        assert self._process.stdin and self._process.stdout
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@cache
def _open_parent() -> _Parent:
    return _Parent()
