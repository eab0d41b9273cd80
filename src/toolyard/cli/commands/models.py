"""`toolyard models`: which models can be used here and now, and why not the others."""

import argparse
import asyncio
import os

from toolyard.cli.available_models import available
from toolyard.cli.common import Commands, Setup, add_config_flags, command, set_up
from toolyard.core.masking import mask_addresses

EXAMPLES = """  toolyard models
  toolyard serve --model ollama:qwen3             with one of those that are listed with ✓
"""


def add_to(commands: Commands) -> None:
    made = command(commands, "models", run, "list the models that can be used here and now", EXAMPLES)
    add_config_flags(made, "model")


def run(options: argparse.Namespace) -> None:
    asyncio.run(_list(set_up(options)))


async def _list(setup: Setup) -> None:
    async for one in available(setup.config, os.environ):
        line = f"{'✓' if one.usable else '✗'} {one.name:<32} {one.said}"
        print(mask_addresses(line, every_parameter=True), flush=True)
