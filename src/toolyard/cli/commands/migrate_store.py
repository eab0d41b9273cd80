"""`toolyard migrate-store`: copy a store to another one, such as a SQLite file to PostgreSQL."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolyard.app import open_store
from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, add_command, add_config_flags, load_setup
from toolyard.cli.usage import UsageError
from toolyard.core.errors import Misconfigured
from toolyard.core.store import CopyableStore, Export, Store
from toolyard.stores.copy import CopyCounts, EncodeRecord, copy_store
from toolyard.stores.postgres_settings import PostgresSettings, describe_store
from toolyard.venues.mcp.auth.grants import SEALED_KINDS
from toolyard.venues.mcp.auth.sealed_records import SECRET_VARIABLE, SealedRecords

EXAMPLES = """  toolyard migrate-store sqlite:///toolyard.db postgresql://toolyard@db.example/toolyard

Stop the server first, and start replicas on the target only when the copy is complete. The source is not changed. The
target must be empty; after a failure, make it empty again and repeat the command. Tokens of MCP servers are encrypted
with TOOLYARD_SECRET, which must be the one of the replicas. A configuration is read for its [postgres] settings.
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "migrate-store", run, COMMANDS["migrate-store"], EXAMPLES)
    parser.add_argument("source", help="the store to copy, such as sqlite:///toolyard.db")
    parser.add_argument("target", help="the store to copy to, such as postgresql://user@host/database")
    add_config_flags(parser)


def run(options: argparse.Namespace) -> None:
    _require_file(options.source)
    # No message is awaited here, and `listen_url` could fit one of two databases only.
    settings = replace(load_setup(options).config.postgres, listen_url="")
    counts = asyncio.run(_copy(options.source, options.target, settings))
    print(
        f"Copied {counts.conversations} conversations with {counts.entries} entries and {counts.blobs} blobs, "
        f"{counts.audit} entries of the audit log, {counts.keys} keys and {counts.records} records "
        f"to {describe_store(options.target)}."
    )


def _require_file(source: str) -> None:
    """Raise UsageError for a SQLite file that does not exist: opening it would create an empty one."""
    url = urlsplit(source)
    if url.scheme == "sqlite" and not Path(url.path[1:]).is_file():
        raise UsageError(f"there is no file {url.path[1:]}: name the store that the server used")


async def _copy(source_name: str, target_name: str, settings: PostgresSettings) -> CopyCounts:
    source = await open_store(source_name, settings, may_migrate=False)
    try:
        target = await open_store(target_name, settings)
        try:
            encode_record = build_record_encoder(target, os.environ.get(SECRET_VARIABLE, ""))
            return await copy_store(_check_copyable(source), _check_copyable(target), _print_progress, encode_record)
        finally:
            await target.close()
    finally:
        await source.close()


def build_record_encoder(target: Store, secret: str) -> EncodeRecord:
    """Return a function that encrypts the records which the target does not store in the clear."""
    sealed_records = SealedRecords(target, secret)

    def encode_record(kind: str, name: str, body: bytes) -> bytes:
        return sealed_records.seal(kind, name, body) if kind in SEALED_KINDS else body

    return encode_record


def _check_copyable(store: Store) -> CopyableStore:
    if not isinstance(store, Export):
        raise Misconfigured("a store in memory cannot be copied: name a SQLite file or a PostgreSQL database")
    return cast(CopyableStore, store)


def _print_progress(counts: CopyCounts) -> None:
    print(f"{counts.conversations} conversations, {counts.entries} entries ...", file=sys.stderr, flush=True)
