"""Measure Toolyard beside a hand-written loop and its peers, in one table. Exit with 1 if a figure is missed."""

import argparse
import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import find_run
import offline_run
import peers
import report
import server_run
from cases import CASES, Effort, Figure
from contest import Contest, ContestError, MockServer, list_contestants

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
FULL = Effort(rounds=5, growth_peer_rounds=2)
QUICK = Effort(rounds=3, growth_peer_rounds=1, together=10)


def show_progress(text: str) -> None:
    """Print what is measured now; on a terminal, the line replaces the one before."""
    if sys.stderr.isatty():
        print(f"\r\033[K… {text}", end="", file=sys.stderr, flush=True)
    else:
        print(f"… {text}", file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"Cases: {', '.join(CASES)}.")
    parser.add_argument("--quick", action="store_true", help="three rounds, with pydantic-ai as the only peer")
    parser.add_argument(
        "--only", action="append", choices=list(CASES), metavar="CASE", help="one case; may be repeated"
    )
    parser.add_argument("--no-peers", action="store_true", help="without peers: nothing is installed")
    parser.add_argument("--write", action="store_true", help=f"write the table to {DOCUMENT.name} as well")
    return parser.parse_args()


def choose_peers(options: argparse.Namespace) -> tuple[peers.Peer, ...]:
    if options.no_peers:
        return ()
    return peers.PEERS[:1] if options.quick else peers.PEERS


def measure(options: argparse.Namespace, versions: dict[str, str]) -> tuple[list[Figure], dict[str, str]]:
    """Return the figures, and the peers that failed on the way, with the reason."""
    effort, figures = QUICK if options.quick else FULL, list[Figure]()
    with TemporaryDirectory() as directory, MockServer() as url:
        contestants = list_contestants(directory, list(versions))
        least_s = 0.15 if options.quick else 0.3
        with Contest(contestants, url, least_s=least_s, show_progress=show_progress) as contest:
            for name in options.only or CASES:
                figures += CASES[name](contest, effort)
            return figures, contest.absent


def main() -> int:
    options = parse_arguments()
    chosen = choose_peers(options)
    versions = peers.install_peers(chosen, show_progress) if chosen else {}
    figures, absent = measure(options, versions)
    notes = [f"{name} left the contest: {reason.splitlines()[0]}" for name, reason in absent.items()]
    contestants = list_contestants("", list(versions))
    table = report.build_rows(figures, [contestant.name for contestant in contestants if contestant.name not in absent])
    environment = report.describe_environment((QUICK if options.quick else FULL).rounds, versions)
    show_progress("done\n")
    print(environment, report.format_plain(table), *notes, sep="\n")
    if options.write:
        DOCUMENT.write_text(report.format_markdown(table, environment, notes))
    if not (options.only or options.no_peers):
        server_figures, absent_servers = server_run.run_section(options.quick, (), options.write, show_progress)
        figures, absent = [*figures, *server_figures], {**absent, **absent_servers}
    if not options.only:
        figures += find_run.run_section(options.write, show_progress)
        figures += offline_run.run_section(options.write, show_progress)
    misses = report.find_misses(figures, absent, with_peers=not options.no_peers)
    print(*misses, sep="\n")
    return 1 if misses else 0


if __name__ == "__main__":
    logging.disable()  # log lines of the measured runs would bury the table
    try:
        sys.exit(main())
    except (ContestError, peers.PeerError) as error:
        sys.exit(f"the bench could not be finished: {error}")
