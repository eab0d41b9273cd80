"""The figures of the conformance suite, as docs/reference/conformance.md has them and as a run comes to."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"
NOT_RUN = "–"
Counts = tuple[int, int]
"""Checks that passed, and that failed."""
Figures = dict[str, dict[str, Counts]]
"""By column (a revision, or a revision and the era of the server behind), by scenario."""
SERVER_TABLE, CLIENT_TABLE = "### Scenarios for servers", "### Scenarios for clients"
_CELL = re.compile(r"(\d+)/(\d+)")
_ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


def read_figures(heading: str, page: str | None = None) -> Figures:
    """Return the figures of the table under this heading of the page."""
    text = PAGE.read_text("utf-8") if page is None else page
    section = text.partition(f"{heading}\n")[2].partition("\n#")[0]
    rows = [[cell.strip().strip("`") for cell in row.split("|")] for row in _ROW.findall(section)]
    if not rows:
        return {}
    (_, *columns), figures = rows[0], Figures()
    for scenario, *cells in rows[2:]:
        for column, cell in zip(columns, cells, strict=True):
            if counts := _CELL.fullmatch(cell):
                figures.setdefault(column, {})[scenario] = int(counts[1]), int(counts[2])
    return figures


def write_table(figures: Figures) -> str:
    """Return the figures as a table with a row for each scenario."""
    scenarios = dict.fromkeys(scenario for column in figures.values() for scenario in column)
    lines = [f"| scenario | {' | '.join(figures)} |", f"|---|{'---|' * len(figures)}"]
    for scenario in scenarios:
        cells = [_cell(column.get(scenario)) for column in figures.values()]
        lines.append(f"| `{scenario}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(counts: Counts | None) -> str:
    return NOT_RUN if counts is None else f"{counts[0]}/{counts[1]}"


def replace_table(page: str, heading: str, table: str) -> str:
    """Return the page with this table under its heading."""
    before, _, after = page.partition(f"{heading}\n")
    old = after.partition("\n#")[0]
    return f"{before}{heading}\n\n{table}\n{after[len(old) :]}"


def differences(measured: Figures, expected: Figures) -> Iterator[str]:
    """Yield each scenario that came to something else than the page says, and each that is missing on either side."""
    for column in dict.fromkeys((*expected, *measured)):
        measured_column, expected_column = measured.get(column, {}), expected.get(column, {})
        for scenario in dict.fromkeys((*expected_column, *measured_column)):
            if measured_column.get(scenario) != expected_column.get(scenario):
                measured_cell, expected_cell = (
                    _cell(measured_column.get(scenario)),
                    _cell(expected_column.get(scenario)),
                )
                yield f"{column}, {scenario}: {measured_cell} (the page says {expected_cell})"


def totals(counts: Iterable[Counts]) -> Counts:
    passed, failed = zip(*counts, strict=True)
    return sum(passed), sum(failed)


def failing(figures: Mapping[str, Mapping[str, Counts]]) -> set[str]:
    """Return the scenarios of which a check failed anywhere."""
    return {scenario for column in figures.values() for scenario, (_, failed) in column.items() if failed}
