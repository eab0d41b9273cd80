"""Prints how many requests of each half a model does right, and what is wrong with the others; foreign ones apart.

`python tests/offline/score.py [--half open|held|later] [--domain shop] [--model module:Class] [--show]`. But for the
open half only ids and reasons are printed, unless `--show` asks for more: whoever tunes a planner looks at no more.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from offline.checker import Judged, check
from offline.corpus import DOMAINS, FOREIGN, HALVES, Domain, Half, files, load
from toolyard.core.ports import Model

OFFLINE = "toolyard.models.offline:Offline"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        model = model_named(options.model)
    except LookupError as missing:
        print(f"Nothing was scored: {missing}.")
        return 2
    for title, domains in (("", DOMAINS), ("foreign ", FOREIGN)):
        wanted = files([one for one in domains if options.domain in (None, one)])
        for half in HALVES:
            of_half: list[Domain] = [
                domain for domain, found in wanted if found == half and options.half in (None, half)
            ]
            if of_half:
                print_half(title, half, of_half, model, options.show or half == "open")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, help="one half only")
    parser.add_argument("--domain", choices=(*DOMAINS, *FOREIGN), help="one set of tools only")
    parser.add_argument("--model", default=OFFLINE, help="module:Class, made without arguments (%(default)s)")
    parser.add_argument("--show", action="store_true", help="the halves that are not open in full as well")
    return parser.parse_args(arguments)


def model_named(name: str) -> Callable[[], Model]:
    """What makes a model of this name. Raises LookupError if there is none."""
    module, _, kind = name.partition(":")
    try:
        return cast(Callable[[], Model], getattr(importlib.import_module(module), kind))
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise LookupError(f"there is no module {error.name}, so {name} cannot be had") from None
    except AttributeError:
        raise LookupError(f"the module {module} has no {kind!r}") from None


def print_half(title: str, half: Half, domains: Sequence[Domain], model: Callable[[], Model], whole: bool) -> None:
    right = total = 0
    for domain in domains:
        judged = [check(domain, request, model) for request in load(domain, half)]
        good = sum(one.right for one in judged)
        right, total = right + good, total + len(judged)
        print(f"{title}{half} {domain}: {good} of {len(judged)}")
        for one in judged:
            if not one.right:
                print("\n".join(told(one, whole)))
    print(f"{title}{half}: {right} of {total} requests are right ({right / total:.1%})\n")


def told(judged: Judged, whole: bool) -> list[str]:
    """What is wrong, line by line; the request's own words and the model's only if the whole is wanted."""
    lines = [f"  {judged.request.id} ({judged.request.kind})"]
    if whole:
        lines += [f"    > {exchange.message}" for exchange in judged.request.exchanges]
    for fault in judged.faults:
        lines.append(f"    {fault.reason}: {fault.said}" + (f": {fault.detail}" if whole and fault.detail else ""))
    return lines


if __name__ == "__main__":
    sys.exit(main())
