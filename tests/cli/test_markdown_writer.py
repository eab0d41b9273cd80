"""A Markdown text in the terminal, as it arrives."""

import io
import re

import pytest
from rich.console import Console

from toolyard.cli.markdown_writer import MarkdownWriter, measure_complete_blocks

TEXT = """\
# Prices

| fruit | price |
|---|---:|
| apple | 3 |

Some **bold** words and [a link](https://example.org/x).

```python
one = 1

two = 2
```

- first

  still the first
- second

The end."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def show(pieces: list[str]) -> str:
    """Return what a terminal shows at the end."""
    console = Console(file=io.StringIO(), force_terminal=True, width=60, color_system=None)
    writer = MarkdownWriter(console)
    for piece in pieces:
        writer.write(piece)
    writer.end()
    assert isinstance(console.file, io.StringIO)
    return replay_screen(console.file.getvalue())


def replay_screen(output: str) -> str:
    """Return the lines of a screen after what was drawn and erased on it."""
    lines: list[str] = [""]
    row = 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\n|\r)", output):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part != "\r" and not _CONTROL.fullmatch(part):
            lines[row] += part
    return "\n".join(line.rstrip() for line in lines).strip()


def test_a_text_looks_the_same_in_whatever_pieces_it_arrives() -> None:
    whole = show([TEXT])
    assert "**" not in whole and "```" not in whole and "|---" not in whole
    assert "Prices" in whole and "bold" in whole and "two = 2" in whole and "The end." in whole
    assert "https://example.org/x" in whole  # where a link leads is seen
    for pieces in (list(TEXT), [TEXT[:100], TEXT[100:]]):
        shown = show(pieces)
        assert shown.replace("\n", "") == whole.replace("\n", "")
        assert "3\n\nSome bold" in shown.replace("\n\n\n", "\n\n")  # blocks stand apart


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("one\n\ntwo", "one\n\n"),
        ("one\n\n", ""),  # an indented line may follow
        ("```\na\n\nb", ""),
        ("```\na\n\nb\n```\n\nc", "```\na\n\nb\n```\n\n"),
        ("````\n```\n\nb", ""),
        ("- a\n\n  b\n\nc", "- a\n\n  b\n\n"),
    ],
)
def test_a_block_is_complete_once_later_text_cannot_change_it(text: str, complete: str) -> None:
    assert text[: measure_complete_blocks(text)] == complete
