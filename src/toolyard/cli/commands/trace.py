"""`toolyard trace`: draw runs over time, as the server that has the store open or the store itself records them."""

import argparse
import asyncio
import shutil
import sys
from urllib.parse import quote

import msgspec

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, add_command, add_config_flags, add_server_flags, load_setup
from toolyard.cli.server_client import open_server_or_store
from toolyard.client.http import ServerClient
from toolyard.core.errors import Misconfigured, NotFound, install_command
from toolyard.core.store import Store
from toolyard.observability.trace import Trace, build_trace

EXAMPLES = """  toolyard trace trace_0f3a…                      the id is in the header X-Correlation-ID of a response
  toolyard trace my-request-17 --server http://127.0.0.1:8080 --key KEY
"""


class _TracedRuns(msgspec.Struct):
    runs: list[Trace]


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "trace", run, COMMANDS["trace"], EXAMPLES)
    parser.add_argument("id", help="the correlation id of a request")
    add_server_flags(parser)
    add_config_flags(parser, "store")


def run(options: argparse.Namespace) -> None:
    try:
        from rich.console import Console

        from toolyard.cli.waterfall import draw
    except ImportError as error:
        raise Misconfigured(f"drawing needs more packages: {install_command('server')} ({error})") from None
    traces = asyncio.run(_load_traces(options))
    width = shutil.get_terminal_size((100, 24)).columns
    Console(file=sys.stdout, width=width, highlight=False).print(draw(traces, width))


async def _load_traces(options: argparse.Namespace) -> list[Trace]:
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key, if_missing="refuse") as target:
        if isinstance(target, ServerClient):
            return (await target.request("GET", f"/traces/{quote(options.id, safe='')}", _TracedRuns)).runs
        return await _read_stored_traces(target, options.id)


async def _read_stored_traces(store: Store, correlation_id: str) -> list[Trace]:
    runs = await store.find_runs(correlation_id)
    built = [build_trace(await store.read(conversation), run_id) for conversation, run_id in runs]
    if not (traces := [trace for trace in built if trace is not None]):
        raise NotFound(f"there is no trace {correlation_id[:128]!r} in this store")
    return traces
