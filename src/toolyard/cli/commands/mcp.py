"""`toolyard mcp`: serve a yard to an MCP host, as its child process, over standard input and output.

Only one process can have a store open. If a server has it, or if `--server` names one, messages go to that server.
"""

import argparse
import asyncio

from toolyard.cli.common import (
    Commands,
    add_caller_flags,
    add_command,
    add_config_flags,
    add_server_flags,
    build_caller,
    load_setup,
)
from toolyard.cli.pipes import LineWriter, claim_stdout, read_lines
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


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands, "mcp", run, "serve the tools to an MCP host over standard input and output", EXAMPLES
    )
    add_caller_flags(parser)
    add_config_flags(parser, "store", "tools")
    add_server_flags(parser)


def run(options: argparse.Namespace) -> None:
    asyncio.run(_serve(options, LineWriter(claim_stdout())))


async def _serve(options: argparse.Namespace, output: LineWriter) -> None:
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
