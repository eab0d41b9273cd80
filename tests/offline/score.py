"""Prints what becomes of the requests of each set with a model: a report, nothing that passes or fails.

`python tests/offline/score.py [--half open|held|later] [--domain shop] [--model module:Class] [--show]`. Of the held
and later halves only ids and outcomes are printed, never a text, so that nobody tunes a model on them.
"""

import argparse
import importlib
import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from offline.checker import OUTCOMES, Outcome, RequestVerdict, check
from offline.corpus import DOMAINS, FOREIGN, HALVES, Domain, Half, list_files, load_requests
from toolyard.core.ports import Model

OFFLINE = "toolyard.models.offline:Offline"
RIGHT: tuple[Outcome, ...] = ("ran", "proposed")
AMONG_THREE: tuple[Outcome, ...] = (*RIGHT, "to edit", "offered", "asked")
"""Where the right tool is before the person, and at most an argument or a choice away."""
WIDTH = 22


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        model = find_model(options.model)
    except LookupError as missing:
        print(f"Nothing was scored: {missing}.")
        return 2
    print("".join([" " * WIDTH, "requests", *(f"{name:>10}" for name in OUTCOMES), "     right  among three"]))
    details: list[str] = []
    for title, domains in (("own", DOMAINS), ("foreign", FOREIGN)):
        chosen_domains: list[Domain] = [domain for domain in domains if options.domain in (None, domain)]
        for half in HALVES:
            if options.half in (None, half):
                details += print_half(title, half, chosen_domains, model, options.show and half == "open")
    print("\n".join(details))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, help="one half only")
    parser.add_argument("--domain", choices=(*DOMAINS, *FOREIGN), help="one set of tools only")
    parser.add_argument("--model", default=OFFLINE, help="module:Class, made without arguments (%(default)s)")
    parser.add_argument("--show", action="store_true", help="the open requests in full, with what is wrong")
    return parser.parse_args(arguments)


def find_model(name: str) -> Callable[[], Model]:
    """Return what makes a model of this name. Raise LookupError if there is none."""
    module, _, kind = name.partition(":")
    try:
        return cast(Callable[[], Model], getattr(importlib.import_module(module), kind))
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise LookupError(f"there is no module {error.name}, so there is no {name}") from None
    except AttributeError:
        raise LookupError(f"the module {module} has no {kind!r}") from None


def print_half(title: str, half: Half, domains: Sequence[Domain], model: Callable[[], Model], show: bool) -> list[str]:
    """Print a row for each set and one for all of them; return what is not right, line by line."""
    total: Counter[Outcome] = Counter()
    details: list[str] = []
    of_half: list[Domain] = [domain for domain, file in list_files(domains) if file == half]
    for domain in of_half:
        verdicts = [check(domain, request, model) for request in load_requests(domain, half)]
        counts: Counter[Outcome] = Counter(verdict.outcome for verdict in verdicts)
        print_row(f"{domain} {half}", counts)
        total += counts
        details += [line for verdict in verdicts if verdict.outcome not in RIGHT for line in describe(verdict, show)]
    if of_half:
        print_row(f"ALL {title} {half}", total)
    return details


def print_row(name: str, counts: Counter[Outcome]) -> None:
    count = sum(counts.values())
    shares = [sum(counts[outcome] for outcome in kinds) / count for kinds in (RIGHT, AMONG_THREE)]
    print("".join([f"{name:<{WIDTH}}{count:>8}", *(f"{counts[outcome]:>10}" for outcome in OUTCOMES)]), end="")
    print(f"{shares[0]:>10.1%}{shares[1]:>13.1%}", flush=True)


def describe(verdict: RequestVerdict, show: bool) -> list[str]:
    """Return what came of a request; its own words and the model's only where they may be shown."""
    lines = [f"{verdict.outcome:>10}  {verdict.request.id} ({verdict.request.kind})"]
    if show:
        lines += [f"            > {exchange.message}" for exchange in verdict.request.exchanges]
        lines += [f"            {fault.reason}: {fault.summary}: {fault.detail}" for fault in verdict.faults]
    return lines


if __name__ == "__main__":
    # The tools of some requests fail on purpose; the report tells what came of it. Not in `main`: a test calls that.
    logging.disable()
    sys.exit(main())
