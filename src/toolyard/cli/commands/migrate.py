"""`toolyard migrate`: bring the tables of a PostgreSQL store to the version of this code, or say what is missing."""

import argparse
import asyncio

from toolyard.app import require_postgres_driver
from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, add_command, add_config_flags, load_setup
from toolyard.cli.usage import UsageError
from toolyard.server.config import Config
from toolyard.stores.postgres_settings import is_postgres

EXAMPLES = """  toolyard migrate --store postgresql://toolyard@db.example.org/toolyard
  toolyard migrate --check                        exit with 1 if steps are missing; change nothing
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "migrate", run, COMMANDS["migrate"], EXAMPLES)
    parser.add_argument(
        "--check", action="store_true", help="only list the missing steps, and exit with 1 if there are any"
    )
    add_config_flags(parser, "store")


def run(options: argparse.Namespace) -> int:
    config = load_setup(options).config
    if not is_postgres(config.store):
        raise UsageError(
            "only a PostgreSQL store is migrated by a command: give --store postgresql://user@host/database"
        )
    return asyncio.run(_check(config) if options.check else _migrate(config))


async def _check(config: Config) -> int:
    with require_postgres_driver():
        from toolyard.stores.postgres import find_missing_steps
    missing = await find_missing_steps(config.store, config.postgres)
    if missing:
        print(f"{missing} {'step' if missing == 1 else 'steps'} of the migration missing: run toolyard migrate")
        return 1
    print("the tables are up to date")
    return 0


async def _migrate(config: Config) -> int:
    with require_postgres_driver():
        from toolyard.stores.postgres import migrate
    await migrate(config.store, config.postgres)
    print("the tables are up to date")
    return 0
