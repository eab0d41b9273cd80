"""Input and output for the user of a terminal.

The methods that ask a question block the event loop: nothing else has to happen while the user types.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

try:
    import readline
except ImportError:  # Python for Windows has no readline
    readline = None

MAX_HISTORY_LINES = 1000
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that change the direction of text: they could make a text look like another one."""


class InputEnded(Exception):
    """The input has ended, so that no question can be asked."""


class Interrupted(Exception):
    """The user pressed Ctrl-C instead of answering a question."""


def sanitize(text: str) -> str:
    """Return a text of a model or a tool without characters that could control the terminal."""
    return _UNSHOWABLE.sub("�", text)


def format_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a head and rows of the same length as a table with aligned columns."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(sanitize(line).rstrip() for line in padded)


class TextWriter(Protocol):
    """Writes a text piece by piece."""

    def write(self, text: str) -> None: ...

    def end(self) -> None:
        """Finish the text, so that something else can be printed below it."""
        ...


class Terminal:
    """Standard input and output. It knows whether the cursor stands in the middle of a line."""

    def __init__(self) -> None:
        self.is_piped = not sys.stdin.isatty()
        """Whether the input comes from a file or a pipe."""
        self._mid_line = False
        self._markdown = _open_markdown_writer() if sys.stdout.isatty() else None

    def write(self, text: str) -> None:
        """Print a piece of a text without ending the line: as Markdown, unless the output goes to a file or a pipe."""
        if self._markdown is not None:
            self._markdown.write(sanitize(text))
        elif text:
            safe_text = sanitize(text)
            print(safe_text, end="", flush=True)
            self._mid_line = not safe_text.endswith("\n")

    def write_line(self, text: str = "") -> None:
        """Print a text on a line of its own."""
        print(f"{self._end_line()}{sanitize(text)}", flush=True)

    def ask(self, prompt: str) -> str:
        """Return a line of input. Raise InputEnded or Interrupted."""
        with _raise_on_ctrl_c():
            try:
                return input(f"{self._end_line()}{sanitize(prompt)}").strip()
            except EOFError:
                raise InputEnded from None
            except KeyboardInterrupt:
                print()
                raise Interrupted from None
            finally:
                self._mid_line = False

    def confirm(self, question: str) -> bool:
        return self.ask_choice(f"{question} [y]es, [n]o: ", "yn") == "y"

    def ask_choice(self, prompt: str, letters: str) -> str:
        """Ask until the first letter of the answer is one of these, and return it."""
        while True:
            answer = self.ask(prompt).lower()[:1]
            if answer and answer in letters:
                return answer

    def edit_arguments(self, arguments: dict[str, object]) -> dict[str, object]:
        """Let the user change the arguments, in their editor or on one line, and return them."""
        text = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
        while True:
            in_editor = editor and not self.is_piped
            text = _run_editor(editor, text) if in_editor else self.ask("    the arguments as JSON: ")
            try:
                return msgspec.json.decode(text, type=dict[str, object])
            except (msgspec.DecodeError, UnicodeError) as error:
                self.write_line(f"    that is not a JSON object: {error}")
                if in_editor and not self.confirm("    edit it again?"):
                    return arguments

    @contextmanager
    def keep_history(self, file: Path) -> Generator[None]:
        """Offer earlier messages at the arrow keys within the block, and save them in a file at its end."""
        if readline is None or self.is_piped:
            yield
            return
        readline.set_auto_history(False)  # messages belong in the history, answers to questions do not
        with suppress(OSError):
            readline.read_history_file(file)
        try:
            yield
        finally:
            readline.set_history_length(MAX_HISTORY_LINES)
            with suppress(OSError):  # the history is a convenience: without a place for it, there is none
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch(0o600)
                readline.write_history_file(file)

    def add_to_history(self, line: str) -> None:
        if readline is not None and line and not self.is_piped:
            readline.add_history(line)

    def end_text(self) -> None:
        """Finish the text that was written piece by piece."""
        if self._markdown is not None:
            self._markdown.end()

    def _end_line(self) -> str:
        self.end_text()
        was_mid_line, self._mid_line = self._mid_line, False
        return "\n" if was_mid_line else ""


def _open_markdown_writer() -> TextWriter | None:
    """Return a writer that renders Markdown; None if `rich` is not installed: the text is then printed as it is."""
    try:
        from toolyard.cli.markdown_writer import open_markdown_writer
    except ImportError:
        return None
    return open_markdown_writer()


@contextmanager
def _raise_on_ctrl_c() -> Generator[None]:
    """Let Ctrl-C raise KeyboardInterrupt within the block; the chat has another handler while a run goes on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run_editor(editor: str, text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arguments.json"
        file.write_text(text, "utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"the editor {editor!r} could not be used: {error}")
        return file.read_text("utf-8")
