"""`toolyard mcp`: serve a yard to an MCP host, as its child process, over standard input and output.

Only one process can have a store open. If a server has it, or if `--server` names one, messages go to that server.
Threads read and write the lines, because event loops cannot wait for files and terminals on every system.
"""

import argparse
import asyncio
import os
import threading
from collections.abc import AsyncGenerator

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import (
    Commands,
    add_caller_flags,
    add_command,
    add_config_flags,
    add_server_flags,
    build_caller,
    load_setup,
)
from toolyard.cli.server_client import find_owner_url
from toolyard.core.errors import Misconfigured, install_command
from toolyard.server.wiring import build_wiring
from toolyard.yard import Yard

EXAMPLES = """  toolyard mcp                                    with toolyard.toml of this folder, as `toolyard serve`
  toolyard mcp --tools ./my_tools.py --store memory:
  toolyard mcp --role viewer                      the host may use only the tools of this role
  toolyard mcp --server https://yard.example --key … use a server that runs elsewhere

MCP hosts start this command themselves. In the configuration of most hosts, the entry looks like this:
  {"mcpServers": {"yard": {"command": "toolyard", "args": ["mcp", "--config", "/home/me/toolyard.toml"]}}}
"""
MAX_LINE_BYTES = 8 * 1024 * 1024
PIECE_BYTES = 64 * 1024
UNREADABLE_LINE = b"{"
"""Stands for a line that is too long. It is no valid JSON, so that the protocol answers with a parse error."""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "mcp", run, COMMANDS["mcp"], EXAMPLES)
    add_caller_flags(parser)
    add_config_flags(parser, "store", "tools")
    add_server_flags(parser)


def run(options: argparse.Namespace) -> None:
    asyncio.run(_serve(options, LineWriter(claim_stdout())))


async def _serve(options: argparse.Namespace, output: "LineWriter") -> None:
    try:
        from toolyard.cli.mcp_bridge import Bridge
        from toolyard.surfaces.mcp.stdio import serve_lines
    except ImportError as error:
        raise Misconfigured(f"this needs more packages: {install_command('server')} ({error})") from None
    setup = load_setup(options, "info")
    try:
        if not options.url:
            caller = build_caller(options)
            async with Yard.from_wiring(build_wiring(setup.config, setup.base)) as yard:
                await serve_lines(yard.service, caller, read_lines(), output.write)
            return
        url = options.url
    except Misconfigured as error:
        url = find_owner_url(setup.config.store, error)
    await Bridge(url, options.key, output.write).forward_lines(read_lines())


def claim_stdout() -> int:
    """Return a new descriptor for standard output, and send all other output to standard error.

    A tool that prints would otherwise write between the lines of the protocol.
    """
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


class LineWriter:
    """Write lines one after another, in threads: a pipe that is full must not block the event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = asyncio.Lock()

    async def write(self, line: bytes) -> None:
        async with self._lock:
            await asyncio.to_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        remaining = memoryview(line)
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]


async def read_lines(descriptor: int = 0) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an input until it ends, and UNREADABLE_LINE for a line that is too long."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=16)

    def read() -> None:
        piece = b"-"
        while piece:
            try:
                piece = os.read(descriptor, PIECE_BYTES)
            except OSError:
                piece = b""
            try:
                # Waits while the queue is full, so that a fast writer cannot fill the memory.
                asyncio.run_coroutine_threadsafe(pieces.put(piece), loop).result()
            except RuntimeError:
                return  # the event loop is closed

    threading.Thread(target=read, daemon=True, name="standard input").start()
    unfinished, skipping = b"", False
    while piece := await pieces.get():
        *lines, unfinished = (unfinished + piece).split(b"\n")
        for line in lines:
            yield UNREADABLE_LINE if skipping else line
            skipping = False
        if len(unfinished) > MAX_LINE_BYTES:
            unfinished, skipping = b"", True
    if unfinished and not skipping:
        yield unfinished
