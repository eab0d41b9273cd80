"""Measure Toolyard's server beside a bare one and FastAPI with pydantic-ai, in one table. Part of `bench/run.py`."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import peers
import report
from cases import Figure
from contest import ContestError
from server_cases import FULL, QUICK, SERVER_CASES
from server_contest import BARE, MODEL, PEER, PEERS, YARD, PacedModel, Servers

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# Servers, side by side"
METHOD = """\
Figures are the CPU time of the server's process with all threads, read by the load generator, which is a separate
process, as is the mock model: medians of interleaved runs on a shared machine, so compare the ratios. All servers run
on uvicorn with uvloop and httptools and answer the same `POST /ai/respond` with the same kinds of events. Toolyard
keeps its journal in SQLite; the others store nothing. A whole loop is ten turns that call `add` and a text of 20
chunks, 20 ms apart. A chunk's cost is measured while all streams are open. With 1,000 streams FastAPI with pydantic-ai
is too slow for its one core; its incomplete streams are counted. With 100 streams, waking a sleeping process is much
of a chunk's cost for every server. Time to first token is what a server adds to the mock model's median time, with 50
streams of 20 chunks that start at different moments. A reader that reconnects sends the id of the first event as its
`Last-Event-ID`, and is complete when it has received the last event. `python bench/server_run.py` repeats the
measurement."""


def measure(
    quick: bool, only: Sequence[str], show_progress: Callable[[str], None]
) -> tuple[list[Figure], dict[str, str]]:
    """Return the figures, and the peers that failed on the way, with the reason."""
    versions = peers.install_peers(PEERS, show_progress)
    figures: list[Figure] = []
    with TemporaryDirectory() as directory, PacedModel() as url:
        environment = {"TOOLYARD_STORE": f"sqlite:///{directory}/bench.db"}
        with Servers([YARD, MODEL, *versions], url, environment, show_progress) as servers:
            for name in only or SERVER_CASES:
                figures += SERVER_CASES[name](servers, QUICK if quick else FULL)
    return figures, servers.absent


def build_table(figures: Sequence[Figure]) -> list[list[str]]:
    return report.build_rows(figures, [YARD, BARE, PEER, MODEL])


def format_markdown(figures: Sequence[Figure], notes: Sequence[str]) -> str:
    table = build_table(figures)
    head, *body = (f"| {' | '.join(row)} |" for row in table)
    ruler = "|---|---|---|---|" + "---:|" * (len(table[0]) - 4)
    date, pins = datetime.now(UTC).date().isoformat(), dict.fromkeys(pin for peer in PEERS for pin in peer.pins)
    ground = f"{date}, Python {platform.python_version()}, {os.cpu_count()} cores. Peers: {', '.join(pins)}."
    return (
        "\n".join(
            [TITLE, "", METHOD, "", ground, "", head, ruler, *body, "", *(f"- {note}" for note in notes)]
        ).rstrip()
        + "\n"
    )


def write(figures: Sequence[Figure], notes: Sequence[str]) -> None:
    """Put the section into the document, in place of the one that is there."""
    report.replace_section(DOCUMENT, TITLE, format_markdown(figures, notes))


def run_section(
    quick: bool, only: Sequence[str], to_write: bool, show_progress: Callable[[str], None]
) -> tuple[list[Figure], dict[str, str]]:
    """Measure, print the table, and write it if `to_write`. Return the figures, and the peers that failed."""
    started = perf_counter()
    figures, absent = measure(quick, only, show_progress)
    notes = [f"{name} left the contest: {reason.splitlines()[0]}" for name, reason in absent.items()]
    show_progress("done\n")
    print(report.format_plain(build_table(figures)), *notes, f"Took {perf_counter() - started:.0f} s.", sep="\n")
    if to_write:
        write(figures, notes)
    return figures, absent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of each, within 90 s")
    parser.add_argument("--only", action="append", choices=list(SERVER_CASES), help="one case; may be repeated")
    parser.add_argument("--write", action="store_true", help=f"write its section of {DOCUMENT.name} as well")
    options = parser.parse_args()
    figures, absent = run_section(
        options.quick, options.only or (), options.write, lambda text: print(f"… {text}", file=sys.stderr)
    )
    misses = report.find_misses(figures, absent, with_peers=True)
    print(*misses, sep="\n")
    return 1 if misses else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ContestError, peers.PeerError) as error:
        sys.exit(f"the bench could not be finished: {error}")
