"""Measure OpenAI's doors, the AI SDK's and AG-UI's, beside `/ai/respond` and beside LiteLLM's proxy.

`python bench/openai_run.py [--write]`
"""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import peers
import report
from cases import Figure, at_most
from contest import ContestError
from server_cases import TURNS, compute_medians
from server_contest import (
    AG_UI,
    AI_SDK,
    CHAT,
    LITELLM,
    LITELLM_PINS,
    PROXY,
    RESPONSES,
    YARD,
    Answer,
    PacedModel,
    Servers,
)

DOCUMENT = Path(__file__).parent.parent / "docs" / "reference" / "bench.md"
TITLE = "# OpenAI's doors"
RESPOND = "/ai/respond"
DOORS = (RESPOND, CHAT, RESPONSES, AI_SDK, AG_UI)
METHOD = f"""\
The same server through each of its doors, in interleaved rounds: the CPU time of the server's process, as in the table
of servers. A loop is {TURNS} turns that call `add` and a text of one chunk; a tenth of it is a tool turn. A chunk is
measured while all streams are open. LiteLLM's proxy has no key and no database, and passes the model's stream on
without running a tool. `python bench/openai_run.py` repeats the measurement."""


def measure(rounds: int, show_progress: Callable[[str], None]) -> list[Figure]:
    peers.install_peers([PROXY], show_progress)
    with TemporaryDirectory() as directory, PacedModel() as url:
        environment = {"TOOLYARD_STORE": f"sqlite:///{directory}/bench.db"}
        with Servers([YARD, LITELLM], url, environment, show_progress) as servers:
            turns = _measure_doors(servers, rounds, "loops", together=50, loops=300, turns=TURNS, chunks=1)
            paced = {"pace_ms": 200, "ramp_ms": 500, "chunks": 30}
            few = _measure_doors(servers, rounds, "streams", streams=100, **paced)
            proxied = servers.run_rounds("100 streams", {LITELLM: rounds}, "streams", streams=100, path=CHAT, **paced)
            paced = {"pace_ms": 200, "ramp_ms": 4000, "chunks": 50}
            many = _measure_doors(servers, rounds, "streams", streams=1000, **paced)
        if servers.absent:
            raise ContestError(f"{LITELLM}: {servers.absent[LITELLM]}")
    turn_us = {door: us / TURNS for door, us in compute_medians(turns, "us").items()}
    few_us = compute_medians(few, "us") | compute_medians(proxied, "us")
    many_us = compute_medians(many, "us")
    lost = round(sum(answer["lost"] for answers in (*few.values(), *many.values()) for answer in answers))
    return [
        at_most("CPU per tool turn, µs", turn_us, 1.15, RESPOND, who=CHAT),
        at_most("CPU per chunk, 1,000 streams at 200 ms a chunk, µs", many_us, 1.15, RESPOND, who=CHAT),
        replace(at_most("— of the AI SDK", many_us, 1.3, RESPOND, who=AI_SDK), cells={}),
        replace(at_most("— of AG-UI", many_us, 1.3, RESPOND, who=AG_UI), cells={}),
        at_most("CPU per chunk, 100 streams, µs", few_us, 1.15, RESPOND, who=CHAT),
        replace(at_most("— beside LiteLLM's proxy", few_us, 1 / 8, LITELLM, who=CHAT), cells={}),
        Figure("— streams without every chunk in time", must="0", reached=str(lost), passed=not lost),
    ]


def _measure_doors(servers: Servers, rounds: int, scenario: str, **order: int) -> dict[str, list[Answer]]:
    """Return the answers of each door; the doors take turns."""
    answers: dict[str, list[Answer]] = {door: [] for door in DOORS}
    for number in range(rounds):
        for door in DOORS:
            servers.show_progress(f"{scenario}: round {number + 1}, {door}")
            answer = servers.ask(YARD, scenario, path=door, **order)
            assert answer
            answers[door].append(answer)
    return answers


def build_table(figures: Sequence[Figure]) -> list[list[str]]:
    return report.build_rows(figures, [*DOORS, LITELLM])


def format_markdown(figures: Sequence[Figure]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in build_table(figures))
    ground = (
        f"{datetime.now(UTC).date().isoformat()}, Python {platform.python_version()}, {os.cpu_count()} cores. "
        f"Peer: {', '.join(LITELLM_PINS)}."
    )
    ruler = "|---|---|---|---|" + "---:|" * (len(DOORS) + 1)
    return "\n".join([TITLE, "", METHOD, "", ground, "", head, ruler, *body]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each door is measured (5)")
    parser.add_argument("--write", action="store_true", help=f"write its section of {DOCUMENT.name} as well")
    options = parser.parse_args()
    figures = measure(options.rounds, lambda text: print(f"… {text}", file=sys.stderr))
    print(report.format_plain(build_table(figures)))
    if options.write:
        report.replace_section(DOCUMENT, TITLE, format_markdown(figures))
    misses = report.find_misses(figures, {}, with_peers=True)
    print(*misses, sep="\n")
    return 1 if misses else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ContestError, peers.PeerError) as error:
        sys.exit(f"the bench could not be finished: {error}")
