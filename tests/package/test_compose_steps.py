"""The commands that the pages give for deploy/compose.yaml, run as they are, with a `docker` that starts processes."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import asyncpg

from cli.process import build_environment
from postgres import PostgresServer, find_free_port, find_program, start_own_server

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^ *```\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
TIMEOUT_S = 120.0
# `exec -T postgres` runs a program of PostgreSQL, `run ... replica-1` the command; the others are noted in a file.
DOCKER = """#!/bin/sh
[ "$1 $2 $3" = "compose -f deploy/compose.yaml" ] || exit 64
shift 3
case "$1" in
    exec) [ "$2 $3" = "-T postgres" ] || exit 64; program="$4"; shift 4; exec "$PROGRAMS/$program" "$@" ;;
    run) while [ "$1" != replica-1 ]; do shift; done; shift; exec "$PYTHON" -m toolyard "$@" ;;
    *) echo "$BUILD_COMMIT $*" >> "$NOTES" ;;
esac
"""
GIT = """#!/bin/sh
[ "$1" = rev-parse ] && echo 0123 || echo " git $*" >> "$NOTES"
"""


def read_blocks(page: str, heading: str) -> list[str]:
    """Return the commands of a section, block by block."""
    _, _, rest = (PAGES / page).read_text("utf-8").partition(f"\n## {heading}\n")
    section, _, _ = rest.partition("\n## ")
    return [dedent(block) for block in BLOCK.findall(section)]


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder with the programs that the commands need, and a database."""

    folder: Path
    database: PostgresServer

    def set_up(self) -> None:
        for name, script in (("docker", DOCKER), ("git", GIT)):
            program = self.folder / name
            program.write_text(script)
            program.chmod(0o755)

    def run(self, commands: str) -> str:
        """Run commands until one fails, and return what they print."""
        address = f"127.0.0.1:{self.database.port}"
        environment = build_environment(
            self.folder,
            PATH=f"{self.folder}:{os.environ['PATH']}",
            PROGRAMS=str(Path(find_program("psql")).parent),
            PYTHON=sys.executable,
            NOTES=str(self.folder / "notes"),
            BUILD_COMMIT="",
            PGHOST="127.0.0.1",
            PGPORT=str(self.database.port),
            TOOLYARD_STORE=f"postgresql://toolyard@{address}/toolyard",
            TOOLYARD_PORT=str(find_free_port()),
        )
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", commands],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def take_notes(self) -> list[str]:
        """Return what `docker` and `git` were asked for besides, since the last time."""
        notes = self.folder / "notes"
        lines = notes.read_text().splitlines()
        notes.unlink()
        return [line.strip() for line in lines]


async def create_database(database: PostgresServer) -> None:
    connection = await asyncpg.connect(database.url)
    await connection.execute("CREATE DATABASE toolyard")
    await connection.close()


async def test_the_commands_of_the_pages_deploy_back_up_restore_and_upgrade(tmp_path: Path) -> None:
    async with start_own_server() as database:
        await create_database(database)
        machine = Machine(tmp_path, database)
        machine.set_up()
        deploy_block = next(block for block in read_blocks("deploy.md", "With Docker Compose") if " migrate" in block)
        assert machine.run(deploy_block)
        assert machine.take_notes() == ["0123 build replica-1"]

        dump, restore = read_blocks("backup.md", "Docker Compose")
        machine.run(dump)
        assert (tmp_path / "toolyard.dump").stat().st_mode & 0o777 == 0o600
        add_late = "docker compose -f deploy/compose.yaml run --rm replica-1 keys add late --user late"
        list_keys = "docker compose -f deploy/compose.yaml run --rm replica-1 keys list"
        machine.run(add_late)
        assert "late" in machine.run(list_keys)
        machine.run(restore)
        restored = machine.run(list_keys)
        assert "me" in restored.split() and "late" not in restored
        assert machine.take_notes() == ["stop replica-1 replica-2 replica-3", "up -d --wait postgres", "up -d"]

        (upgrade,) = read_blocks("upgrade.md", "Docker Compose")
        assert "All is well" in machine.run(upgrade)
        assert (tmp_path / "before-upgrade.dump").stat().st_size > 0
        assert machine.take_notes() == [
            "git pull --rebase --autostash",
            "0123 build replica-1",
            *(f"up -d --no-deps --wait replica-{number}" for number in (1, 2, 3)),
            "up -d",
        ]
