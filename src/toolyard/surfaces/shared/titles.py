"""Build a title for a conversation that is created without one."""

MAX_TITLE_CHARS = 60
MAX_SCANNED_CHARS = 1000


def build_title(text: str) -> str:
    """Return the first words of a text on one line, with `…` if it is longer."""
    line = " ".join(text.lstrip()[:MAX_SCANNED_CHARS].split())
    if len(line) <= MAX_TITLE_CHARS:
        return line
    start = line[: MAX_TITLE_CHARS - 1]
    words = start.rpartition(" ")[0]
    return f"{words if len(words) > MAX_TITLE_CHARS // 2 else start}…"  # some languages have no spaces
