"""`toolyard models`: list the models that can be used on this machine, and why others cannot."""

import argparse
import asyncio
import os

from toolyard.cli.available_models import list_available_models
from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, Setup, add_command, add_config_flags, load_setup
from toolyard.core.masking import mask_addresses

EXAMPLES = """  toolyard models
  toolyard serve --model ollama:qwen3             use a model that the list marks with ✓
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "models", run, COMMANDS["models"], EXAMPLES)
    add_config_flags(parser, "model")


def run(options: argparse.Namespace) -> None:
    asyncio.run(_print_models(load_setup(options)))


async def _print_models(setup: Setup) -> None:
    async for model in list_available_models(setup.config, os.environ):
        line = f"{'✓' if model.usable else '✗'} {model.name:<32} {model.text}"
        print(mask_addresses(line, every_parameter=True), flush=True)
