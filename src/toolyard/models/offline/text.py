"""Splits a message into tokens with their positions, so that a part of it can be taken as it was written.

A token is a word with its inner punctuation (`3.5`, `don't`, `ann@example.org`, `2026-12-01`), one Chinese character,
or a quoted text. Other punctuation is not a token: it is only part of the text between two tokens.
"""

import re
import unicodedata
from collections.abc import Sequence

from msgspec import Struct

MAX_CHARACTERS = 2_000
"""How many characters of a message are read."""
IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_QUOTED = r"\"[^\"\n]+\"|“[^”\n]+”|「[^」\n]+」|《[^》\n]+》|(?<!\w)'[^'\n]+'(?!\w)|(?<!\w)‘[^’\n]+’(?!\w)"
_URL = r"https?://[^\s<>\"'，。]+[^\s<>\"'，。.,;:!?)]"
_PATH = rf"(?<![\w/])(?:~|\.{{1,2}})?/[^\s,;\"'，。{IDEOGRAPHS}]*[^\s,;\"'，。.!?:{IDEOGRAPHS}]"
_NUMBER = r"(?<![\w.])[-+−]?[$€£¥]?\d(?:[\d.,:/-]*\d)?%?"
_LETTER = rf"[^\W_{IDEOGRAPHS}]"
_WORD = rf"{_LETTER}(?:(?:[_.@+:/'’-]|{_LETTER})*{_LETTER})?"
_TOKEN = re.compile(rf"{_QUOTED}|{_URL}|{_PATH}|{_NUMBER}(?![^\W{IDEOGRAPHS}])|一下|[{IDEOGRAPHS}]|{_WORD}")
_CONTRACTED = re.compile(r"(what|where|who|how|that|there|here|it|i|you|we|they)['’](s|re|ve|m)", re.IGNORECASE)
_LONG_FORMS = {"s": "is", "re": "are", "ve": "have", "m": "am"}
_PLACE = "\0"
_PLAIN_MARKS = re.compile(rf"\s*(?:{_PLACE}[,.!;:，。！；：、]*\s*#?)*")
_LETTERS_AFTER_IDEOGRAPHS = re.compile(rf"[{IDEOGRAPHS}]")

DETERMINERS = frozenset({"a", "an", "the", "my", "our", "your", "some", "this", "these", "一下"})
COURTESIES = (
    "please", "pls", "thanks", "thank you", "kindly", "could you", "can you", "would you", "will you",
    "i want to", "i'd like to", "i would like to", "hey", "hi", "ok", "for me", "now",
    "请", "谢谢", "麻烦你", "麻烦", "帮我", "帮忙", "我想", "我要", "一下", "吧",
)  # fmt: skip
"""Polite words before or after an order, which are ignored."""
NEGATIONS = frozenset({
    "no", "not", "nothing", "none", "never", "nobody", "neither", "nor", "without", "except", "cannot", "instead",
    "不", "没", "别", "无", "未", "勿", "莫",
})  # fmt: skip
ALTERNATIVES = frozenset({"or", "或", "或者", "还是"})
PRONOUNS = frozenset({
    "it", "them", "that", "those", "something", "anything", "everything", "someone", "somebody", "它", "他", "她",
})  # fmt: skip
RESERVATIONS = NEGATIONS | PRONOUNS | {
    "if", "unless", "until", "when", "whether", "maybe", "perhaps", "but", "or", "said", "says", "wants", "told",
    "asked", "should", "would", "could", "might", "why", "what", "who", "how",
    "吗", "呢", "么", "如", "若", "否", "或", "说",
}  # fmt: skip
"""Words that negate, ask, report, set a condition or refer to an earlier message.

A message with one of them is never an order that runs without confirmation.
"""


class Token(Struct, frozen=True, gc=False):
    text: str
    """The token as written, without the quotation marks of a quoted text."""
    folded: str
    start: int
    end: int
    quoted: bool = False


class TokenizedText(Struct, frozen=True):
    """A message as it was written, and its tokens."""

    whole: str
    tokens: tuple[Token, ...]
    is_cut: bool = False
    """Whether the message was longer: its unread end may change its meaning, so it is never a plain order."""
    has_plain_marks: bool = True
    """Whether there is only plain punctuation besides the words: any other mark, such as a cross, may mean no."""

    def text_between(self, first: int, last: int) -> str:
        """Return the text from one token up to, but without, another."""
        if last - first == 1 and self.tokens[first].quoted:
            return self.tokens[first].text
        return self.whole[self.tokens[first].start : self.tokens[last - 1].end] if first < last else ""


def parse_message(message: str) -> TokenizedText:
    """Return the message as tokens, without articles and without the courtesies at its ends."""
    whole = unicodedata.normalize("NFC", message[:MAX_CHARACTERS])
    is_cut = len(message) > MAX_CHARACTERS
    tokens = tokenize(whole)
    if is_cut:  # the last token may be cut in two
        tokens = tokens[:-1]
    has_plain_marks = bool(_PLAIN_MARKS.fullmatch(_TOKEN.sub(_PLACE, whole)))
    return TokenizedText(whole, tuple(strip_courtesies(tokens)), is_cut, has_plain_marks)


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text, without articles."""
    tokens = [token for match in _TOKEN.finditer(text) for token in _split_match(match)]
    return [token for token in tokens if token.folded not in DETERMINERS]


def is_chinese(text: str) -> bool:
    return bool(_LETTERS_AFTER_IDEOGRAPHS.search(text))


def is_question(message: str) -> bool:
    return "?" in message or "？" in message


def has_reservation(text: str) -> bool:
    """Return whether a text contains one of the words that negate, ask, report or set a condition."""
    return any(
        token.folded in RESERVATIONS or token.folded.endswith(("n't", "n’t")) for token in parse_message(text).tokens
    )


def fold(word: str) -> str:
    return unicodedata.normalize("NFKC", word).casefold().replace("’", "'")


def _split_match(match: re.Match[str]) -> list[Token]:
    """Return the tokens of one match: `what's` is two words."""
    text = match.group()
    if short := _CONTRACTED.fullmatch(text):
        first, second = short[1], _LONG_FORMS[short[2].lower()]
        middle = match.start() + len(first)
        return [Token(first, fold(first), match.start(), middle), Token(second, second, middle, match.end())]
    quoted = text[0] in "\"“「《'‘" and len(text) > 2
    bare = text[1:-1].strip() if quoted else text
    return [Token(bare, fold(bare), match.start(), match.end(), quoted)]


def strip_courtesies(tokens: list[Token], *, before: bool = True, after: bool = True) -> list[Token]:
    """Return the tokens without courtesies at the ends; all of them if there is nothing else."""
    start, end = 0, len(tokens)
    while before and start < end and (length := _count_courtesy(tokens, start, end, first=True)):
        start += length
    while after and start < end and (length := _count_courtesy(tokens, start, end, first=False)):
        end -= length
    return tokens[start:end] or tokens


def _count_courtesy(tokens: Sequence[Token], start: int, end: int, *, first: bool) -> int:
    """Return how many tokens at an end of the message are a courtesy."""
    edge = (_OPENINGS if first else _CLOSINGS).get(tokens[start if first else end - 1].folded, ())
    for phrase in edge:
        length = len(phrase)
        if length <= end - start:
            part = tokens[start : start + length] if first else tokens[end - length : end]
            if all(not token.quoted and token.folded == word for token, word in zip(part, phrase, strict=True)):
                return length
    return 0


_PHRASES = sorted(
    (tuple(fold(match.group()) for match in _TOKEN.finditer(phrase)) for phrase in COURTESIES),
    key=len,
    reverse=True,
)
_OPENINGS = {phrase[0]: [other for other in _PHRASES if other[0] == phrase[0]] for phrase in _PHRASES}
_CLOSINGS = {phrase[-1]: [other for other in _PHRASES if other[-1] == phrase[-1]] for phrase in _PHRASES}
