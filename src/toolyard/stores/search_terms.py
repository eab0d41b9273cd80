"""The terms of a text in a search index, and what a search decides. Pure, the same for every store with an index.

The terms are all substrings of three characters. A search looks for the texts that have all terms of the needle. A
needle of one or two characters, common in Chinese, is the beginning of some term of each text that contains it. The
store then compares the texts themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from toolyard.core.conversation.events import Durable
from toolyard.core.conversation.search_texts import fold_case, list_texts

TERM_CHARS = 3
MAX_NEEDLE_CHARS = 500
"""How much of a needle the index compares; the rest is compared with the log."""
MAX_DOCUMENT_CHARS = 4_000
MAX_NEEDLE_TERMS = 12
SCAN_SIZE = 200
"""Conversations that a search compares in one step."""
MAX_RARE = 3_000
"""Terms that more texts have are common."""
MAX_SCANNED = 5_000
"""How many conversations a search for a common text compares, newest first, before it asks the index."""
_END = "\uffff"
"""Follows each text, so that also its last characters begin a term."""
_LETTERS = {code: code if chr(code).isalnum() else 0xE000 + code for code in range(128)}
"""Replaces what would separate terms: an index takes all other characters as they are.

Letters stand here too, because `translate` raises an error inside for each character that it does not find.
"""


def list_parts(event: Durable) -> Iterator[tuple[str, str]]:
    """Yield what the index has of an event: the id of an item and a part of its text, folded."""
    return ((item, part) for item, text in list_texts(event) for part in fold_parts(text))


def fold_parts(text: str) -> Iterator[str]:
    """Yield the parts of a text as the index has them: folded, and none of an empty one."""
    return _split_text(fold_case(text)) if text else iter(())


def _split_text(text: str) -> Iterator[str]:
    """Yield a folded text in parts that overlap, so that each needle is in one of them as a whole."""
    yield text[:MAX_DOCUMENT_CHARS]
    for start in range(MAX_DOCUMENT_CHARS, len(text), MAX_DOCUMENT_CHARS - MAX_NEEDLE_CHARS):
        yield text[start - MAX_NEEDLE_CHARS : start - MAX_NEEDLE_CHARS + MAX_DOCUMENT_CHARS]


def build_terms(text: str) -> set[str]:
    """Return the terms of a folded text."""
    padded = f"{text.translate(_LETTERS)}{_END}{_END}"
    return {padded[at : at + TERM_CHARS] for at in range(len(text))}


def build_needle_terms(needle: str) -> list[str]:
    """Return terms that a text with the folded needle has. The only one of a short needle is a prefix of a term."""
    letters = needle[:MAX_NEEDLE_CHARS].translate(_LETTERS)
    if len(letters) < TERM_CHARS:
        return [letters]
    terms = list(dict.fromkeys(letters[at : at + TERM_CHARS] for at in range(len(letters) - TERM_CHARS + 1)))
    step = max(1, len(terms) // MAX_NEEDLE_TERMS)
    return terms[::step]


def cut_needle(needle: str) -> str:
    """Return as much of a folded needle as a part of a text is compared with."""
    return needle[:MAX_NEEDLE_CHARS]


def is_exact(needle: str) -> bool:
    """Return whether the index decides alone which indexed texts contain the folded needle."""
    return len(needle) <= MAX_NEEDLE_CHARS


def is_short(needle: str) -> bool:
    """Return whether the needle is only a prefix of terms: counting its texts takes as long as finding them."""
    return len(needle) < TERM_CHARS


@dataclass(slots=True)
class ScanProgress:
    """How a search gets on that compares the newest conversations, a step at a time, before it asks the index."""

    limit: int
    """The conversations that the search is for."""
    scanned: int = 0
    matched: int = 0

    def add_step(self, matched: int) -> None:
        self.scanned += SCAN_SIZE
        self.matched += matched

    @property
    def is_over(self) -> bool:
        return self.scanned >= MAX_SCANNED

    @property
    def fills_page(self) -> bool:
        """Return whether as many conversations match that the newest MAX_SCANNED can be expected to fill the page."""
        return self.limit * self.scanned <= self.matched * MAX_SCANNED
