"""`toolyard usage`: what models and tools were used and cost."""

import argparse
import asyncio
import time
from collections.abc import Sequence
from urllib.parse import urlencode

import msgspec

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, add_command, add_config_flags, add_server_flags, load_setup
from toolyard.cli.server_client import open_server_or_store
from toolyard.cli.terminal import format_table
from toolyard.cli.usage import UsageError
from toolyard.client.http import ServerClient
from toolyard.core.store import UsageQuery
from toolyard.core.store.ledger import UsageDimension
from toolyard.observability.usage_report import (
    MAX_LINES,
    UsageLine,
    build_lines,
    describe_cut,
    format_day,
    parse_day,
    parse_dimensions,
    render_csv,
)

EXAMPLES = """  toolyard usage
  toolyard usage --by user,model --from 2027-01-01 --to 2027-01-31
  toolyard usage --by day --csv

Days are those of UTC. If no server runs, the store is read. If one runs, the command asks it, with --key or
TOOLYARD_KEY: an operator or administrator sees all users. A cost that is unknown is shown as ?, never as zero.
"""
DEFAULT_DAYS = 30
DAY_S = 86_400


class _UsageReport(msgspec.Struct):
    usage: list[UsageLine]
    complete: bool = True


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "usage", run_usage, COMMANDS["usage"], EXAMPLES)
    parser.add_argument(
        "--by",
        default="model",
        metavar="NAMES",
        help="some of user, key, tenant, model, tool, preset, day, with commas; default: model",
    )
    parser.add_argument("--from", dest="first", default="", metavar="DAY", help="the first day; default: 30 days ago")
    parser.add_argument("--to", dest="last", default="", metavar="DAY", help="the last day; default: today")
    parser.add_argument("--csv", action="store_true", help="print CSV")
    add_config_flags(parser, "store")
    add_server_flags(parser)


def run_usage(options: argparse.Namespace) -> None:
    try:
        dimensions = parse_dimensions(options.by)
    except ValueError as error:
        raise UsageError(f"--by: {error}") from None
    last = _parse_day(options.last, "--to", int(time.time() // DAY_S))
    first = _parse_day(options.first, "--from", max(0, last - DEFAULT_DAYS + 1))
    query = UsageQuery(first_day=first, last_day=last, group_by=dimensions, limit=MAX_LINES + 1)
    report = asyncio.run(_read_report(options, query))
    lines = report.usage
    if options.csv:
        print(render_csv(lines, dimensions, is_complete=report.complete), end="")
    elif not lines:
        print(f"Nothing was used from {format_day(first)} to {format_day(last)}.")
    else:
        columns = (*dimensions, "turns", "uses", "input", "cached", "output", "cost")
        print(format_table(columns, [_build_row(line, dimensions) for line in lines]))
        if not report.complete:
            print(describe_cut(lines))


async def _read_report(options: argparse.Namespace, query: UsageQuery) -> _UsageReport:
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key, if_missing="refuse") as target:
        if not isinstance(target, ServerClient):
            rows = await target.read_usage(query)
            return _UsageReport(build_lines(rows[:MAX_LINES], query.group_by), complete=len(rows) <= MAX_LINES)
        parameters = {
            "from": format_day(query.first_day),
            "to": format_day(query.last_day),
            "group_by": ",".join(query.group_by),
            "format": "json",
        }
        return await target.request("GET", f"/usage?{urlencode(parameters)}", _UsageReport)


def _build_row(line: UsageLine, dimensions: Sequence[UsageDimension]) -> tuple[str, ...]:
    names = [getattr(line, name) or "-" for name in dimensions]
    counts = (line.turns, line.uses, line.input_tokens, line.cached_tokens, line.output_tokens)
    cost = "?" if line.cost is None else f"{line.cost:.6f} {line.currency}{'~' * bool(line.estimated_costs)}"
    return (*names, *map(str, counts), cost)


def _parse_day(text: str, flag: str, default: int) -> int:
    if not text:
        return default
    try:
        return parse_day(text)
    except ValueError:
        raise UsageError(f"{flag} must be a date from 1970 on, such as 2027-01-31") from None
