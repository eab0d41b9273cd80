"""`toolyard models`: which models can be used here and now, and why not the others."""

import argparse
import asyncio
import os

from toolyard.cli.available_models import list_available_models
from toolyard.cli.common import Commands, Setup, add_command, add_config_flags, load_setup
from toolyard.core.masking import mask_addresses

EXAMPLES = """  toolyard models
  toolyard serve --model ollama:qwen3             with one of those that are listed with ✓
"""


def add_to(commands: Commands) -> None:
    made = add_command(commands, "models", run, "list the models that can be used here and now", EXAMPLES)
    add_config_flags(made, "model")


def run(options: argparse.Namespace) -> None:
    asyncio.run(_print_models(load_setup(options)))


async def _print_models(setup: Setup) -> None:
    async for one in list_available_models(setup.config, os.environ):
        line = f"{'✓' if one.usable else '✗'} {one.name:<32} {one.text}"
        print(mask_addresses(line, every_parameter=True), flush=True)
