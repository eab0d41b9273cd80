"""The terms of a text in a search index: all its substrings of three characters. Pure, the same for every store.

A search looks for the texts that have all terms of the needle. A needle of one or two characters, common in Chinese,
is the beginning of some term of each text that contains it. The store then compares the texts themselves.
"""

from collections.abc import Iterator

TERM_CHARS = 3
MAX_NEEDLE_CHARS = 500
"""How much of a needle the index compares; the rest is compared with the log."""
MAX_DOCUMENT_CHARS = 4_000
MAX_NEEDLE_TERMS = 12
MAX_SCANNED = 5_000
"""How many conversations a search for a common text compares, newest first, before it asks the index."""
_END = "\uffff"
"""Follows each text, so that also its last characters begin a term."""
_LETTERS = {code: 0xE000 + code for code in range(128) if not chr(code).isalnum()}
"""Replaces what would separate terms: an index takes all other characters as they are."""


def split_text(text: str) -> Iterator[str]:
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


def fills_page(limit: int, scanned: int, matched: int) -> bool:
    """Return whether as many conversations match that the newest MAX_SCANNED can be expected to fill a page."""
    return limit * scanned <= matched * MAX_SCANNED
