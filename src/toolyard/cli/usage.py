"""How the command line is used: the parser with its suggestions, and the error for wrong usage."""

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import NoReturn

from toolyard.core.errors import ToolyardError

_OPTION = re.compile(r"(?<![\w-])--[\w-]+")
_CHOICE = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<choices>.*)\)$", re.DOTALL)
"""The message of argparse. Python puts the choices into quotes, or not, depending on its version."""


class UsageError(ToolyardError):
    """The command was used wrongly: exit code 2."""


class SuggestingParser(argparse.ArgumentParser):
    """A parser that says which command or option was probably meant. Its sub-commands have parsers of this class."""

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words, and exit with 2 if some are unknown.

        argparse leaves those of a sub-command to its parent, which does not know the sub-command's options.
        """
        options, unknown = super().parse_known_args(args, namespace or argparse.Namespace())
        if unknown:
            wrong = next((word for word in unknown if word.startswith("-")), "").partition("=")[0]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{suggest(wrong, self._list_options())}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        if match := _CHOICE.search(message):
            message += suggest(match["word"], re.findall(r"[\w-]+", match["choices"]))
        super().error(message)

    def _list_options(self) -> list[str]:
        return _OPTION.findall(self.format_usage())


def suggest(word: str, candidates: Sequence[str]) -> str:
    """Return the question whether the nearest of the candidates was meant; empty if none is near."""
    near = difflib.get_close_matches(word, candidates, n=1)
    return f"; did you mean {near[0]}?" if near else ""
