"""The usage of models and tools as lines of a report, and as CSV. Pure."""

import csv
import io
from collections.abc import Sequence
from datetime import date, timedelta
from typing import get_args

from msgspec import UNSET, Struct, UnsetType

from toolyard.core.settings.prices import MICROS
from toolyard.core.store.ledger import USAGE_COUNTS, UsageDimension, UsageRow

DIMENSIONS: tuple[UsageDimension, ...] = get_args(UsageDimension)
MAX_LINES = 10_000
"""The lines of a report at most."""
_EPOCH = date(1970, 1, 1)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class UsageLine(Struct, frozen=True, kw_only=True):
    """The usage of one group. A dimension that it is not grouped by is left out."""

    day: str | UnsetType = UNSET
    """The date, UTC."""
    tenant: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    """The model's configured name."""
    tool: str | UnsetType = UNSET
    """The provider's own tool, or the tool with a price; empty for the tokens of models."""
    preset: str | UnsetType = UNSET
    currency: str | None
    """Null if the cost is unknown."""
    cost: float | None
    """In units of the currency; null if it is unknown, which is never counted as zero."""
    cost_micros: int | None
    """The exact cost in millionths."""
    turns: int
    input_tokens: int
    cached_tokens: int
    cache_writes_5m: int
    cache_writes_1h: int
    output_tokens: int
    reasoning_tokens: int
    uses: int
    unknown_costs: int
    estimated_costs: int


def build_lines(rows: Sequence[UsageRow], group_by: Sequence[UsageDimension]) -> list[UsageLine]:
    """Return the lines of a report with these dimensions."""
    return [_build_line(row, group_by) for row in rows]


def _build_line(row: UsageRow, group_by: Sequence[UsageDimension]) -> UsageLine:
    counts = {name: getattr(row, name) for name in USAGE_COUNTS if name != "cost_micros"}
    groups = {name: format_day(row.day) if name == "day" else getattr(row, name) for name in group_by}
    is_known = bool(row.currency)
    return UsageLine(
        **groups,
        currency=row.currency or None,
        cost=row.cost_micros / MICROS if is_known else None,
        cost_micros=row.cost_micros if is_known else None,
        **counts,
    )


def render_csv(lines: Sequence[UsageLine], group_by: Sequence[UsageDimension], *, is_complete: bool = True) -> str:
    """Return the lines as CSV with a heading. An unknown cost is an empty cell.

    If the lines are not complete, a last one says so: nobody is to take the sum of a part for the whole.
    """
    columns = (*group_by, *(name for name in UsageLine.__struct_fields__ if name not in DIMENSIONS))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_format_cell(getattr(line, name)) for name in columns] for line in lines)
    if not is_complete:
        writer.writerow([describe_cut(lines)])
    return text.getvalue()


def describe_cut(lines: Sequence[UsageLine]) -> str:
    """Return the words for lines that are not all."""
    return f"only the first {len(lines):,} lines: choose fewer days or groups"


def _format_cell(value: object) -> object:
    """Return a value as a cell. A spreadsheet must not take a name that a user chose for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def parse_dimensions(text: str) -> tuple[UsageDimension, ...]:
    """Return the dimensions that a text lists with commas. Raise ValueError with what is wrong."""
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    dimensions: dict[str, UsageDimension] = {name: name for name in DIMENSIONS}
    if wrong := [name for name in names if name not in dimensions]:
        raise ValueError(f"{wrong[0][:40]!r} is none of {', '.join(DIMENSIONS)}")
    return tuple(dimensions[name] for name in names)


def parse_day(text: str) -> int:
    """Return the number of a day such as 2027-01-31. Raise ValueError."""
    number = (date.fromisoformat(text) - _EPOCH).days
    if number < 0:
        raise ValueError("is before 1970")
    return number


def format_day(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).isoformat()
