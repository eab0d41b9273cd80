"""Format figures as one table: for a terminal, and as Markdown for docs/reference/bench.md."""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from unicodedata import east_asian_width

from cases import NOT_MEASURED, Figure

HEAD = ("figure", "must be", "is", "")
METHOD = """\
Figures are process CPU time unless a row says otherwise: medians of interleaved runs on a shared machine, so compare
the ratios. `make bench` repeats the measurement. All libraries stream from the same mock model server and follow the
events; the tool is `async def add(a, b)`. A tool turn is a tenth of a run of ten tool turns and the closing text, one
run after the other. A chunk is what one more chunk adds to a run. In both chunk rows each chunk is a packet that is
read by itself. With 20 streams one wake-up of the process serves 20 chunks. With one stream every chunk wakes a
sleeping process, and the ratio of 1/8 is missed; there a bare asyncio protocol that reads and parses nothing took
270-300 µs for a chunk, and 40 µs with 20 streams (measured separately). The target applies to the row with 20 streams.
A request with 1,000 prior messages or tools is a turn in the middle of a run, without the first turns. The
hand-written loop is aiohttp and msgspec without any feature of Toolyard, and keeps its history encoded."""


def build_rows(figures: Sequence[Figure], names: Sequence[str]) -> list[list[str]]:
    table = [[*HEAD, *names]]
    for figure in figures:
        mark = "" if figure.passed is None else ("✓" if figure.passed else "✗" if figure.required else "(✗)")
        cells = [_format_cell(figure, name) for name in names]
        table.append([figure.what, figure.must, figure.reached, mark, *cells])
    return table


def find_misses(figures: Sequence[Figure], absent: Mapping[str, str], *, with_peers: bool) -> list[str]:
    """Return why the bench failed: figures missed, figures not measured without a peer, and peers that failed."""
    misses = [f"{name} left the contest: {reason.splitlines()[0]}" for name, reason in absent.items()]
    for figure in figures:
        if figure.passed is False and figure.required:
            misses.append(f"missed: {figure.what} must be {figure.must} and is {figure.reached}")
        elif figure.reached == NOT_MEASURED and with_peers:
            misses.append(f"not measured: {figure.what} must be {figure.must}, and somebody to compare with is missing")
    return misses


def _format_cell(figure: Figure, name: str) -> str:
    if name not in figure.cells:
        return ""
    text = f"{figure.cells[name]:,.{figure.digits}f}"
    if name in figure.spread:
        lowest, highest = figure.spread[name]
        return f"{text} ({lowest:,.{figure.digits}f}–{highest:,.{figure.digits}f})"
    return f"{text} ({figure.growth[name]:.1f}×)" if name in figure.growth else text


def format_plain(table: Sequence[Sequence[str]]) -> str:
    widths = [max(_compute_width(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(text + " " * (width - _compute_width(text)) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "─" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def _compute_width(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def format_markdown(table: Sequence[Sequence[str]], environment: str, notes: Sequence[str]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in table)
    ruler = "|---|---|---|---|" + "---:|" * (len(table[0]) - len(HEAD))
    items = [f"- {note}" for note in notes]
    lines = ["# Measured side by side", "", METHOD, "", environment, "", head, ruler, *body, "", *items]
    return "\n".join(lines).rstrip() + "\n"


def write_section(document: Path, title: str, method: str, table: Sequence[Sequence[str]]) -> None:
    """Write a section with a table, in place of the section with that title, or at the end of the document."""
    head, *body = (f"| {' | '.join(row)} |" for row in table)
    ruler = "|---|---|---|---|" + "---:|" * (len(table[0]) - len(HEAD))
    date = f"{datetime.now(UTC).date().isoformat()}, Python {platform.python_version()}, {os.cpu_count()} cores."
    replace_section(document, title, "\n".join([title, "", method, "", date, "", head, ruler, *body]))


def replace_section(document: Path, title: str, text: str) -> None:
    """Put a text in place of the section with that title; the other sections stay."""
    before, _, old_section_and_after = (document.read_text() if document.exists() else "").partition(title)
    _, next_title, after = old_section_and_after.partition("\n# ")
    parts = (before, text, f"# {after}" if next_title else "")
    document.write_text("\n\n".join(part.strip() for part in parts if part.strip()) + "\n")


def describe_environment(rounds: int, peers: Mapping[str, str]) -> str:
    """Return the date, the machine and the versions that the figures belong to."""
    ours = ", ".join(f"{name} {version(name)}" for name in ("httptools", "msgspec", "pydantic"))
    theirs = ", ".join(f"{name} {number}" for name, number in peers.items()) or "none"
    date = datetime.now(UTC).date().isoformat()
    return (
        f"{date}, Python {platform.python_version()}, {os.cpu_count()} cores, {rounds} rounds. "
        f"Ours: toolyard {version('toolyard')} on {ours}. Peers: {theirs}."
    )
