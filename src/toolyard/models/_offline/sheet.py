"""A clause on which words are crossed out as they find their places."""

import re
from collections.abc import Sequence

from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.words import Span, Token, is_chinese

_BLANK = re.compile(r"\s*[(（]\s*[)）]\s*|(?<=[,，])\s*[,，](?:\s*[,，])*")
"""What is left of brackets and commas around something that was crossed out."""
GAP = "\x00"
_GAPS = re.compile(f"{GAP}+")
_JOINED = re.compile(
    r"\s*(?:[,，、&]|和|与|及|以及|\band\b)+\s*(?:(?:an?|the|my|our|in|of|to|for|from|no\.?|number)\s+)*", re.IGNORECASE
)
EDGE = " \t,，.。:：;；!！?？、-–—*"


class Sheet:
    """A clause on which words are crossed out as they find their places."""

    def __init__(self, clause: Clause) -> None:
        self.clause = clause
        self.taken: list[Span] = []
        self._crossed = bytearray(len(clause.text))
        self.others: list[dict[str, object]] = []
        """What is to be said instead for each further thing that is named: `the bedroom and the office`."""

    def take(self, start: int, end: int) -> None:
        self.taken.append((start, end))
        self._crossed[start:end] = b"\x01" * (end - start)

    def follows(self, start: int) -> bool:
        """Whether what begins here is joined to what was crossed out last before it."""
        ends = [end for _, end in self.taken if end <= start]
        return bool(ends) and _JOINED.fullmatch(self.clause.text, max(ends), start) is not None

    def free(self, start: int, end: int) -> bool:
        return self._crossed.find(1, start, end) < 0

    def tokens(self) -> list[Token]:
        if not self.taken:
            return list(self.clause.tokens)
        return [part for token in self.clause.tokens for part in self._free_part(token)]

    def _free_part(self, token: Token) -> list[Token]:
        """The token if it is free; of one in Chinese that is partly crossed out, the rest."""
        if self.free(token.start, token.end):
            return [token]
        left = [at for at in range(token.start, token.end) if self.free(at, at + 1)]
        if not left or token.means or not is_chinese(token.text):
            return []
        text = self.clause.text[left[0] : left[-1] + 1]
        return [Token(text, left[0], left[-1] + 1)] if len(text) == len(left) else []

    def with_gaps(self) -> str:
        """The text with a gap in place of each stretch that is crossed out."""
        return _GAPS.sub(GAP, self.without(GAP))

    def without(self, blank: str = " ") -> str:
        """The text with a blank for each letter that is crossed out."""
        if not self.taken:
            return self.clause.text
        return "".join(blank if gone else one for one, gone in zip(self.clause.text, self._crossed, strict=True))

    def text_of(self, tokens: Sequence[Token]) -> str:
        """The words from the first to the last of these, without what is crossed out between them."""
        pieces: list[str] = []
        before: Token | None = None
        for token in tokens:
            gap = "" if before is None else self.clause.text[before.end : token.start]
            if before is not None and not self.free(before.end, token.start):
                gap = "" if is_chinese(before.text) and is_chinese(token.text) else " "
            pieces += [gap, token.text]
            before = token
        return _BLANK.sub(" ", "".join(pieces)).strip(EDGE)
