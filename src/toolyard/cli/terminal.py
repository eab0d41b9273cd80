"""The person at the terminal: what they are shown and what they are asked. It does not know where runs happen.

Nothing else goes on while a person types, so a question may stand in the way of the event loop.
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

import msgspec

try:
    import readline
except ImportError:  # Windows has none
    readline = None

MAX_HISTORY_LINES = 1000
_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters and those that turn the direction of writing: they could make a text look like another."""


class InputEnded(Exception):
    """There is nobody to ask: the input has ended, or the person has gone."""


class Interrupted(Exception):
    """Ctrl-C in answer to a question."""


def sanitize(text: str) -> str:
    """A text of a model or a tool, without what could take over the terminal."""
    return _UNSHOWABLE.sub("�", text)


def format_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Rows of equal length, in columns."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(sanitize(line).rstrip() for line in padded)


class Terminal:
    def __init__(self) -> None:
        self.is_piped = not sys.stdin.isatty()
        """Whether the lines come from a file or a pipe."""
        self._mid_line = False

    def write(self, text: str) -> None:
        """A piece of a text that goes on."""
        if text:
            shown = sanitize(text)
            print(shown, end="", flush=True)
            self._mid_line = not shown.endswith("\n")

    def write_line(self, text: str = "") -> None:
        """A line of its own."""
        print(f"{self._end_line()}{sanitize(text)}", flush=True)

    def ask(self, prompt: str) -> str:
        """A line from the person. Raises Left or Interrupted."""
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
        """The first letter of an answer, which must be one of these."""
        while True:
            answer = self.ask(prompt).lower()[:1]
            if answer and answer in letters:
                return answer

    def edit_arguments(self, arguments: dict[str, object]) -> dict[str, object]:
        """The arguments as the person wants them: in their editor, or on one line."""
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
        """Lines that were typed before can be had again with the arrow keys."""
        if readline is None or self.is_piped:
            yield
            return
        readline.set_auto_history(False)  # answers to questions are nothing to come back to
        with suppress(OSError):
            readline.read_history_file(file)
        try:
            yield
        finally:
            readline.set_history_length(MAX_HISTORY_LINES)
            with suppress(OSError):  # no history is no reason to complain at the end
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch(0o600)
                readline.write_history_file(file)

    def add_to_history(self, line: str) -> None:
        if readline is not None and line and not self.is_piped:
            readline.add_history(line)

    def _end_line(self) -> str:
        broken, self._mid_line = self._mid_line, False
        return "\n" if broken else ""


@contextmanager
def _raise_on_ctrl_c() -> Generator[None]:
    """While a line is read Ctrl-C raises, whatever it does at other times."""
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
