"""`toolyard audit`: list the audit log, and verify that nobody has changed it."""

import argparse
import asyncio
import re
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import get_args
from urllib.parse import urlencode

import msgspec

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import (
    Commands,
    add_command,
    add_config_flags,
    add_server_flags,
    load_setup,
    parse_time,
)
from toolyard.cli.server_client import open_server_or_store
from toolyard.cli.terminal import format_table
from toolyard.cli.usage import UsageError
from toolyard.client.http import ServerClient
from toolyard.core.store import Store
from toolyard.core.store.audit_chain import AuditAction, AuditEntry, AuditOutcome, AuditQuery, ChainCheck

EXAMPLES = """  toolyard audit list
  toolyard audit list --actor ann --limit 500
  toolyard audit list --action key.add --since 2026-05-01
  toolyard audit list --outcome refused --since 12h --json
  toolyard audit verify
  toolyard audit verify --contains HASH           also require an entry whose hash a log line has shown

If no server runs, the store is read. If one runs, the command asks it, which needs the key of an administrator without
a tenant (--key or TOOLYARD_KEY) as soon as there is any key. `verify` exits with 1 if the chain of hashes is broken.
"""
PAGE_SIZE = 1000
MAX_TARGET_CHARS = 40
"""How much of a target the table shows; `--json` shows all."""
_HASH = re.compile(r"[0-9a-f]{64}")


class _AuditPage(msgspec.Struct):
    entries: list[AuditEntry]


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "audit", run_list, COMMANDS["audit"], EXAMPLES)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    list_entries = add_command(actions, "list", run_list, "list entries, the newest first", EXAMPLES)
    list_entries.add_argument(
        "--action",
        default="",
        choices=get_args(AuditAction),
        metavar="ACTION",
        help="only entries of this action, such as key.add",
    )
    list_entries.add_argument("--actor", default="", help="only entries of this user")
    list_entries.add_argument(
        "--outcome", default="", choices=get_args(AuditOutcome), help="only entries with this outcome"
    )
    list_entries.add_argument(
        "--since", default="", metavar="TIME", help="only entries from 2026-05-01 on, or of the last 30m, 12h or 1d"
    )
    list_entries.add_argument("--limit", type=int, default=100, help="how many entries; default: 100")
    list_entries.add_argument("--json", action="store_true", help="print each whole entry as a line of JSON")
    verify = add_command(actions, "verify", run_verify, "check that no entry was changed or removed", EXAMPLES)
    verify.add_argument(
        "--contains",
        default="",
        metavar="HASH",
        help="the hash of an entry that must be there, from a log line: entries removed at the end leave no gap",
    )
    for action in (list_entries, verify):
        add_config_flags(action, "store")
        add_server_flags(action)


def run_list(options: argparse.Namespace) -> None:
    if not 1 <= options.limit <= PAGE_SIZE:
        raise UsageError(f"--limit must be from 1 to {PAGE_SIZE}")
    query = AuditQuery(
        actor=options.actor,
        action=options.action,
        outcome=options.outcome,
        since=max(0.0, parse_time(options.since, is_past=True)),
        limit=options.limit,
    )
    entries = asyncio.run(_list_entries(options, query))
    if options.json:
        for entry in entries:
            print(msgspec.json.encode(entry).decode())
        return
    columns = ("number", "time", "action", "target", "outcome", "actor", "tenant", "key", "address", "count")
    print(format_table(columns, map(_build_row, entries)) if entries else "There are no entries.")


def run_verify(options: argparse.Namespace) -> int:
    contained_hash = options.contains.strip().lower()
    if contained_hash and not _HASH.fullmatch(contained_hash):
        raise UsageError(f"{options.contains[:80]!r} is not a hash of an entry: it has 64 hexadecimal digits")
    problem, check = asyncio.run(_verify(options, contained_hash))
    if problem:
        print(f"The audit log is broken: {problem}.")
        return 1
    end = f" The last one is {check.last.number} with the hash {check.last.hash}." if check.last else ""
    print(f"The audit log is whole: {check.count} entries.{end}")
    return 0


async def _list_entries(options: argparse.Namespace, query: AuditQuery) -> list[AuditEntry]:
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key, if_missing="refuse") as target:
        return await _read_page(target, query)


async def _verify(options: argparse.Namespace, contained_hash: str) -> tuple[str, ChainCheck]:
    """Return what is wrong, and what was checked so far."""
    check = ChainCheck()
    is_found = not contained_hash
    first = 1
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key, if_missing="refuse") as target:
        async for page in _iter_pages(target):
            first = page[0].number if check.last is None else first
            if problem := check.add(page):
                return problem, check
            is_found = is_found or any(entry.hash == contained_hash for entry in page)
    if (problem := check.find_gap()) or is_found:
        return problem, check
    trimmed = f" (the {first - 1} oldest ones were trimmed)" if first > 1 else ""
    return f"it has no entry with the hash {contained_hash}: entries were removed or replaced{trimmed}", check


async def _iter_pages(target: ServerClient | Store) -> AsyncGenerator[list[AuditEntry]]:
    cursor = 0
    while page := await _read_page(target, AuditQuery(cursor=cursor, oldest_first=True, limit=PAGE_SIZE)):
        yield page
        if len(page) < PAGE_SIZE:
            return
        cursor = page[-1].number


async def _read_page(target: ServerClient | Store, query: AuditQuery) -> list[AuditEntry]:
    if not isinstance(target, ServerClient):
        return list(await target.read_audit(query))
    parameters = {
        "action": query.action,
        "actor": query.actor,
        "outcome": query.outcome,
        "since": query.since,
        "order": "oldest" if query.oldest_first else "newest",
        "limit": query.limit,
        "after": query.cursor or "",
    }
    return (await target.request("GET", f"/audit?{urlencode(parameters)}", _AuditPage)).entries


def _build_row(entry: AuditEntry) -> tuple[str, ...]:
    at = datetime.fromtimestamp(entry.at).strftime("%Y-%m-%d %H:%M:%S")
    outcome = f"{entry.outcome} (of {entry.cause})" if entry.cause else entry.outcome
    references = (entry.actor, entry.tenant, entry.key, entry.address)
    target = f"{entry.target[: MAX_TARGET_CHARS - 1]}…" if len(entry.target) > MAX_TARGET_CHARS else entry.target
    cells = (target or "-", outcome, *(reference or "-" for reference in references))
    return (str(entry.number), at, entry.action, *cells, str(entry.count))
