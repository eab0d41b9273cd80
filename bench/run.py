"""Measures Toolyard beside a hand-written loop and its peers: one table, and a failing exit if a figure is missed."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import find_run
import offline_run
import peers
import report
import server_run
from cases import CASES, Effort, Figure
from contest import Contest, ContestError, MockServer, contestants

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
FULL = Effort(rounds=5, growth_peer_rounds=2)
QUICK = Effort(rounds=3, growth_peer_rounds=1, together=10)


def tell(said: str) -> None:
    """What goes on right now, on one line that is written over if there is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K… {said}", end="", file=sys.stderr, flush=True)
    else:
        print(f"… {said}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"Cases: {', '.join(CASES)}.")
    parser.add_argument("--quick", action="store_true", help="three rounds, with pydantic-ai as the only peer")
    parser.add_argument(
        "--only", action="append", choices=list(CASES), metavar="CASE", help="one case; may be repeated"
    )
    parser.add_argument("--no-peers", action="store_true", help="without peers: nothing is installed")
    parser.add_argument("--write", action="store_true", help=f"write the table to {DOCUMENT.name} as well")
    return parser.parse_args()


def wanted_peers(given: argparse.Namespace) -> tuple[peers.Peer, ...]:
    if given.no_peers:
        return ()
    return peers.PEERS[:1] if given.quick else peers.PEERS


def measured(given: argparse.Namespace, versions: dict[str, str]) -> tuple[list[Figure], dict[str, str]]:
    effort, figures = QUICK if given.quick else FULL, list[Figure]()
    with TemporaryDirectory() as directory, MockServer() as url:
        field = contestants(directory, list(versions))
        with Contest(field, url, least_s=0.15 if given.quick else 0.3, tell=tell) as contest:
            for name in given.only or CASES:
                figures += CASES[name](contest, effort)
            return figures, contest.absent


def main() -> int:
    given = arguments()
    wanted = wanted_peers(given)
    versions = peers.installed(wanted, tell) if wanted else {}
    figures, absent = measured(given, versions)
    notes = [f"{name} left the contest: {why.splitlines()[0]}" for name, why in absent.items()]
    names = [one.name for one in contestants("", list(versions)) if one.name not in absent]
    table = report.rows(figures, names)
    ground = report.ground((QUICK if given.quick else FULL).rounds, versions)
    tell("done\n")
    print(ground, report.plain(table), *notes, sep="\n")
    if given.write:
        DOCUMENT.write_text(report.markdown(table, ground, notes))
    if not (given.only or given.no_peers):
        more, absent_servers = server_run.section(given.quick, (), given.write, tell)
        figures, absent = [*figures, *more], {**absent, **absent_servers}
    if not given.only:
        figures += find_run.section(given.write, tell)
        figures += offline_run.section(given.write, tell)
    misses = report.find_misses(figures, absent, with_peers=not given.no_peers)
    print(*misses, sep="\n")
    return 1 if misses else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ContestError, peers.PeerError) as error:
        sys.exit(f"the bench could not be finished: {error}")
