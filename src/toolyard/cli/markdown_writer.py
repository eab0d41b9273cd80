"""Write a Markdown text to a terminal while it arrives."""

import re

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
REFRESHES_PER_SECOND = 8


class MarkdownWriter:
    """Prints each block of a text once it is complete; the last one is drawn anew while it grows."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pending = ""
        """The text that is not printed for good."""
        self._live: Live | None = None
        self._has_printed = False
        """Whether a block of this text is printed: an empty line comes before the next one."""

    def write(self, text: str) -> None:
        self._pending += text
        if size := measure_complete_blocks(self._pending):
            self._print(self._pending[:size])
            self._pending = self._pending[size:]
        if self._pending.strip():
            self._draw(self._pending)

    def end(self) -> None:
        """Print what is left, so that something else can be printed below it."""
        text, self._pending = self._pending, ""
        self._print(text)
        self._has_printed = False

    def _print(self, text: str) -> None:
        if self._live is not None:
            self._live.stop()  # it is transient: what was drawn disappears
            self._live = None
        if text.strip():
            if self._has_printed:
                self._console.print()
            self._has_printed = True
            self._console.print(_build_markdown(text))

    def _draw(self, text: str) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console,
                transient=True,
                refresh_per_second=REFRESHES_PER_SECOND,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        self._live.update(_build_markdown(text))


def open_markdown_writer() -> MarkdownWriter:
    """Return a writer to standard output."""
    return MarkdownWriter(Console())


def measure_complete_blocks(text: str) -> int:
    """Return how many characters belong to blocks that later text cannot change: they end with an empty line.

    An empty line inside a fenced code block ends nothing, nor does one before an indented line: that may continue a
    list.
    """
    size, position, fence = 0, 0, ""
    lines = text.splitlines(keepends=True)
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        position += len(line)
        if match := _FENCE.match(line):
            fence = "" if fence and match[1].startswith(fence) else fence or match[1]
        elif not fence and not line.strip() and next_line and not next_line[0].isspace():
            size = position
    return size


def _build_markdown(text: str) -> Markdown:
    # Addresses are printed: a terminal would hide where a link leads.
    return Markdown(text, hyperlinks=False)
