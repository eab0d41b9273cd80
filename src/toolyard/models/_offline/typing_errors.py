"""Words that were nearly typed right, where those of a request's frame are expected; names of things stay."""

from collections.abc import Collection

from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.words import Token, is_chinese, longer_verbs, vocabulary

LONG, SHORT = 8, 4


def repaired(clause: Clause, own: Collection[str]) -> str:
    """The clause with the first words, and those after a small word near its end, as they were meant."""
    text = clause.text
    for at, token in reversed(list(enumerate(clause.tokens))):
        if token.means or not token.text.isascii() or not token.text.isalpha() or is_chinese(token.text):
            continue
        meant = ""
        if _leads(clause, at):
            short = len(token.text) < SHORT
            if short and at > 1:
                continue
            meant = _nearest(token.text, longer_verbs(len(token.text)) if short else (*own, *vocabulary()), least=2)
        elif _closes(clause, at):
            meant = _nearest(token.text, own, least=4)
        if meant:
            text = text[: token.start] + meant + text[token.end :]
    return text


def _leads(clause: Clause, at: int) -> bool:
    """Among the first words, before anything that is not a word of the frame; not what follows `how` or a number."""
    before = clause.tokens[:at]
    if at and before[-1].text.isdigit():
        return False
    return at < 4 and not any(token.has("do:") for token in before) and not (at and before[-1].has("fn:question"))


def _closes(clause: Clause, at: int) -> bool:
    """After a small word: `to my crat`, `to the grocery lsit`."""
    near = clause.tokens[max(0, at - 3) : at]
    before = [token for token in near if not (token.has("fn:determiner") or token.has("of:"))]
    return bool(before) and _small(before[-1])


def _small(token: Token) -> bool:
    return token.has("fn:preposition") or token.has("do:")


def _nearest(word: str, known: Collection[str], least: int) -> str:
    """The known word that it is nearest to; of a short one no letter may be another: `tall` is not `tell`."""
    word = word.casefold()
    if len(word) < least or word in known:
        return ""
    most = 2 if len(word) >= LONG else 1
    near = [
        one
        for one in known
        if one[0] == word[0]
        and abs(len(one) - len(word)) <= most
        and not (len(one) == len(word) <= SHORT and sorted(one) != sorted(word))
        and _apart(word, one) <= most
    ]
    return min(near, key=lambda one: (_apart(word, one), one)) if near and len(word) > 1 else ""


def _apart(one: str, other: str) -> int:
    """How many letters were changed, left out, put in or swapped with their neighbour."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]
