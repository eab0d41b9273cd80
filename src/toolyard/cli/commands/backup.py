"""`toolyard backup`: copy a SQLite store to a file, also while a server is using it."""

import argparse
import sqlite3
import sys
from pathlib import Path
from urllib.parse import urlsplit

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, add_command, add_config_flags, load_setup
from toolyard.cli.usage import UsageError
from toolyard.core.errors import StoreDown
from toolyard.stores.postgres_settings import is_postgres
from toolyard.stores.sqlite.backup import copy_file

EXAMPLES = """  toolyard backup /var/backups/toolyard.db
  toolyard backup --store sqlite:////srv/toolyard/toolyard.db toolyard-monday.db

The server need not be stopped. The copy is of the moment at which the command began, and opens as a store. To restore
it, stop the server, move the store's FILE, FILE-wal and FILE-shm away, and put the copy in the place of FILE.
"""
_TENTHS = 10


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "backup", run, COMMANDS["backup"], EXAMPLES)
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to write, which must not exist yet")
    add_config_flags(parser, "store")


def run(options: argparse.Namespace) -> None:
    source, target = _find_file(load_setup(options).config.store), options.file
    if target.exists():
        raise UsageError(f"{target} exists already: name a new file, or remove it first")
    try:
        copy_file(source, target, _ProgressPrinter())
    except (sqlite3.Error, OSError) as error:
        raise StoreDown(f"it could not be copied to {target}: {error}", address=str(source)) from error
    print(f"Copied {source} to {target} ({target.stat().st_size:,} bytes).")


def _find_file(store: str) -> Path:
    if is_postgres(store):
        raise UsageError("a PostgreSQL store is copied with its own tools: pg_dump --format=custom --file=FILE")
    if store == "memory:":
        raise UsageError("a store in memory has no file to copy: name the store with --store sqlite:///path/to/file.db")
    path = Path(urlsplit(store).path[1:]).expanduser()
    if not path.is_file():
        raise UsageError(f"there is no file {path}: name the store that the server uses with --store")
    return path


class _ProgressPrinter:
    """Prints each tenth of the copy that is done."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done: int, total: int) -> None:
        tenths = done * _TENTHS // max(total, 1)
        if tenths > self._tenths:
            self._tenths = tenths
            print(f"{tenths * 100 // _TENTHS} % of {total:,} pages ...", file=sys.stderr, flush=True)
