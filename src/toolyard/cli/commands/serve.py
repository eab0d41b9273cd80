"""`toolyard serve`: the server, and the lines that it prints when it starts."""

import argparse
import asyncio
import gc
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import msgspec
from msgspec.structs import replace

from toolyard.app import Wiring
from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, add_command, add_config_flags, load_setup
from toolyard.core.errors import Misconfigured, install_command
from toolyard.core.masking import mask_addresses
from toolyard.core.settings.models.names import OFFLINE
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import ServerCard
from toolyard.core.tools.templates import fill_examples
from toolyard.observability.telemetry import mask_secrets
from toolyard.server.config import Config
from toolyard.server.secret_file import make_secret
from toolyard.server.wiring import build_model_settings, build_wiring
from toolyard.stores.postgres_settings import describe_store
from toolyard.venues.function import as_tool
from toolyard.yard import Yard

EXAMPLES = """  toolyard serve                                  with toolyard.toml of this folder, if there is one
  toolyard serve --config shop/toolyard.toml
  toolyard serve --tools ./my_tools.py --model openai:gpt-4o-mini
  toolyard serve --port 0 --store memory:         use a free port, and save nothing

SIGTERM or Ctrl-C stops the server: current runs have 5 seconds to end, and others continue at the next start.
"""
FIRST_TOOL = """none yet. Put a typed function into a file, say my_tools.py:

             from toolyard import tool

             @tool(read_only=True)
             def opening_hours(day: str) -> str:
                 "When the shop is open on a day of the week."
                 return "closed" if day.lower() == "sunday" else "9 to 18"

           and start with: toolyard serve --tools ./my_tools.py"""
NO_MODEL = f"""{OFFLINE}: no language model is configured. This helper finds the tool that you mean, and
           asks unless your order is clear. To connect a language model, start with
           --model openai:gpt-4o-mini and OPENAI_API_KEY set, or --model ollama:qwen3 without any key."""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "serve", run, COMMANDS["serve"], EXAMPLES)
    add_config_flags(parser, "host", "port", "model", "store", "tools")


def run(options: argparse.Namespace) -> None:
    # What a start makes stays: to look for garbage in it took a tenth of its time. The server turns this on again.
    gc.disable()
    try:
        _serve(options)
    finally:
        gc.enable()


def _serve(options: argparse.Namespace) -> None:
    setup = load_setup(options, "info")
    make_secret(setup.config.store, os.environ)
    wiring = build_wiring(setup.config, setup.base, setup.layers)
    try:
        from toolyard.server.serving import serve
    except ImportError as error:
        raise Misconfigured(f"the server needs more packages: {install_command('server')} ({error})") from None

    nearby = () if setup.config.model_names else _find_ollama_models(setup.config)

    def announce(url: str, yard: Yard) -> None:
        cards, default = yard.servers.cards(), yard.service.models.default
        # A server whose file names no model may have one in its store.
        config = (
            setup.config if setup.config.model_names or default == OFFLINE else replace(setup.config, model=default)
        )
        lines = build_welcome(config, wiring, url, asks_for_keys=not yard.access.is_local, nearby=nearby, servers=cards)
        print("\n".join(lines), flush=True)

    serve(wiring, setup.config.host, setup.config.port, announce)
    print("Stopped.", flush=True)


def _find_ollama_models(config: Config) -> Sequence[str]:
    """Return the models of the Ollama on this machine. A server with a model does without the client."""
    from toolyard.cli.available_models import find_ollama_address, list_ollama_models

    return asyncio.run(list_ollama_models(find_ollama_address(build_model_settings(config, os.environ)))) or ()


def build_welcome(
    config: Config,
    wired: Wiring,
    url: str,
    *,
    asks_for_keys: bool,
    nearby: Sequence[str] = (),
    servers: Sequence[ServerCard] = (),
) -> Iterator[str]:
    """Yield the lines that the server prints when it starts: what it uses, and how to try it."""
    tools = [as_tool(tool).definition for tool in wired.tools]
    everybody = "everybody on this machine, as administrator; `toolyard keys add --help` explains how to add others"
    yield f"Toolyard {version('toolyard')} listens on {url}"
    yield f"  model    {mask_addresses(', then '.join(config.model_names), every_parameter=True) or NO_MODEL}"
    if nearby:
        yield f"           An Ollama runs here: start with --model ollama:{nearby[0]} to use it ({len(nearby)} models)."
    starting = [server.id for server in servers if server.status == "starting" and not server.tools]
    yield f"  tools    {describe_tools(tools, servers) or ('none yet' if starting else FIRST_TOOL)}"
    if starting:
        yield f"  servers  {', '.join(starting)} still starting: their tools come when they have started"
    if wired.code:
        yield "  programs of models may call these tools, with run_code"
    for server in servers:
        if server.error:
            yield f"  server   {server.id} is {server.status}: {mask_secrets(server.error)}"
    yield f"  store    {describe_store(config.store)}"
    others = " or a token" * bool(config.jwt) + (f", or who sign in at {config.oidc.issuer}" if config.oidc else "")
    yield f"  callers  {'those with a key' + others if asks_for_keys else everybody}"
    yield ""
    key = " with TOOLYARD_KEY set to your key" if asks_for_keys else ""
    yield f"Open {url} in a browser, or try it from another terminal{key}:"
    yield f"  {build_curl(url, tools, asks_for_keys)}"
    yield f"  {find_own_command()} chat --server {url}"


def describe_tools(tools: Sequence[Tool], servers: Sequence[ServerCard]) -> str:
    """Return how many tools there are, their names, and how many each server has; empty if there are none."""
    counts = {server.id: sum(tool.state == "accepted" for tool in server.tools) for server in servers}
    names = [*(tool.name for tool in tools), *(f"{count} of {server}" for server, count in counts.items() if count)]
    return f"{len(tools) + sum(counts.values())}: {', '.join(names)}" if names else ""


def find_own_command() -> str:
    """Return a command that starts this program from another terminal, where its environment may not be active."""
    return "toolyard" if shutil.which("toolyard") else f"{shlex.quote(sys.executable)} -m toolyard"


def build_curl(url: str, tools: Sequence[Tool], asks_for_keys: bool) -> str:
    """Return a curl command that can be pasted into a terminal as it is."""
    harmless_first = sorted(tools, key=lambda tool: not tool.read_only)
    prompt = next((example for tool in harmless_first for example in fill_examples(tool)), "hello")
    key = ' -H "Authorization: Bearer $TOOLYARD_KEY"' if asks_for_keys else ""
    body = shlex.quote(msgspec.json.encode({"prompt": prompt}).decode())
    return f"curl -N {url}/ai/respond{key} -H 'Content-Type: application/json' -d {body}"
