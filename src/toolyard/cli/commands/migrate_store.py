"""`toolyard migrate-store`: copy a store to another one, such as a SQLite file to PostgreSQL."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from toolyard.app import open_store
from toolyard.cli.common import Commands, UsageError, add_command
from toolyard.core.errors import Misconfigured
from toolyard.core.masking import mask_addresses
from toolyard.core.store import CopyableStore, Export, Store
from toolyard.stores.copy import CopyCounts, copy_store

EXAMPLES = """  toolyard migrate-store sqlite:///toolyard.db postgresql://toolyard@db.example/toolyard

Stop the server first, and start replicas on the target only when the copy is complete. The source is not changed. The
target must be empty; after a failure, make it empty again and repeat the command.
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "migrate-store", run, "copy everything of a store to another, empty one", EXAMPLES)
    parser.add_argument("source", help="the store to copy, such as sqlite:///toolyard.db")
    parser.add_argument("target", help="the store to copy to, such as postgresql://user@host/database")


def run(options: argparse.Namespace) -> None:
    _require_file(options.source)
    counts = asyncio.run(_copy(options.source, options.target))
    print(
        f"Copied {counts.conversations} conversations with {counts.entries} entries and {counts.blobs} blobs, "
        f"{counts.keys} keys and {counts.records} records to {mask_addresses(options.target)}."
    )


def _require_file(source: str) -> None:
    """Raise UsageError for a SQLite file that does not exist: opening it would create an empty one."""
    url = urlsplit(source)
    if url.scheme == "sqlite" and not Path(url.path[1:]).is_file():
        raise UsageError(f"there is no file {url.path[1:]}: name the store that the server used")


async def _copy(source_name: str, target_name: str) -> CopyCounts:
    source = await open_store(source_name)
    try:
        target = await open_store(target_name)
        try:
            return await copy_store(_check_copyable(source), _check_copyable(target), _print_progress)
        finally:
            await target.close()
    finally:
        await source.close()


def _check_copyable(store: Store) -> CopyableStore:
    if not isinstance(store, Export):
        raise Misconfigured("a store in memory cannot be copied: name a SQLite file or a PostgreSQL database")
    return cast(CopyableStore, store)


def _print_progress(counts: CopyCounts) -> None:
    print(f"{counts.conversations} conversations, {counts.entries} entries ...", file=sys.stderr, flush=True)
