"""Splits a text into index words: English words with a light stem, Chinese characters and pairs of them. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

MAX_CACHED_STEMS = 65_536
MIN_CONSONANTS = 3
MAX_LETTERS = 64
"""How many letters of a word are read: the time for stemming grows with the square of its length."""

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_CHUNK = re.compile(r"[^\W_]+")
_PIECE = re.compile(rf"[{_IDEOGRAPHS}]+|\d+|[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z{_IDEOGRAPHS}]+|[A-Z]")
_IS_IDEOGRAPH = re.compile(rf"[{_IDEOGRAPHS}]")

_ENGLISH = """
a about an and any are as at be been but by can could did do does for from had has have he her here him his how i if in
into is it its just let me my of on onto or our please she should so some than that the their them then there these they
this those to too up us very was we were what when where which who will with would you your d ll m re s t ve don didn
doesn isn want need like now right
"""
_CHINESE = "的了吗呢吧把给我你您他她它们请帮这那个是在和与或要想"
_UNSTEMMED = frozenset({"news", "goods", "glasses", "string", "during", "station", "nation"})
_SPELLINGS = tuple(
    (re.compile(british), american)
    for british, american in (
        ("(?<=[abdilmnv])our", "or"),
        ("is(e|ed|ing|ation)$", r"iz\1"),
        ("tre$", "ter"),
        ("ogue$", "og"),
        ("amme$", "am"),
        ("([aeiou][a-z]+[aeiou]l)l(ed|ing|)$", r"\1\2"),
    )
)
_LOST_E = re.compile("[^aeiou][aeiouy][^aeiouwxy]")
"""Stems that lost an `e`: `making` comes from `make`, and `noted` from `note`; `cutting`, with two t, from `cut`."""
_VOWELS = frozenset("aeiouy")
STOP_WORDS = frozenset(_ENGLISH.split()) | frozenset(_CHINESE)
"""Words that say nothing about which tool is meant."""


def extract_words(text: str, stop_words: frozenset[str] = STOP_WORDS) -> list[str]:
    """Return the words of a text in order. `getS3Object` has get, 3, object, and adjacent parts as one, as s3."""
    words: list[str] = []
    for chunk in _CHUNK.findall(unicodedata.normalize("NFKC", text)):
        pieces: list[str] = _PIECE.findall(chunk)
        for piece in pieces:
            words += _extract_piece(piece, stop_words, alone=len(pieces) == 1)
        words += join_pairs(pieces)
    return words


def join_pairs(pieces: Sequence[str]) -> list[str]:
    """Return adjacent pieces as one word: `time` and `zone` are also a timezone."""
    return [
        stem((first + second).casefold())
        for first, second in pairwise(pieces)
        if not (_IS_IDEOGRAPH.match(first) or _IS_IDEOGRAPH.match(second))
    ]


def _extract_piece(piece: str, stop_words: frozenset[str], *, alone: bool) -> list[str]:
    if _IS_IDEOGRAPH.match(piece):
        return [
            *(character for character in piece if character not in stop_words),
            *(
                character + following
                for character, following in pairwise(piece)
                if not (character in stop_words and following in stop_words)
            ),
        ]
    word = piece.casefold()
    if word in stop_words or (len(word) == 1 and not alone and not word.isdigit()):
        return []
    return [stem(word)]


def get_spelling_keys(word: str) -> tuple[str, ...]:
    """Return the key that a word shares with most of its misspellings: its first letter and other consonants."""
    consonants = set(word[1:]) - _VOWELS if word.isascii() and word.isalpha() else ()
    return (f"%{word[0]}{''.join(sorted(consonants))}",) if len(consonants) >= MIN_CONSONANTS else ()


def stem(word: str) -> str:
    """Return the stem that `creates`, `creating`, `created` and `creation` share. In doubt a word is left as it is."""
    return _stem(word[:MAX_LETTERS])


@lru_cache(maxsize=MAX_CACHED_STEMS)
def _stem(word: str) -> str:
    if len(word) < 4 or word in _UNSTEMMED or not word.isascii() or not word.isalpha():
        return word
    word = _to_american(_to_singular(word))
    return word if word in _UNSTEMMED else _strip_ending(word)


def _to_american(word: str) -> str:
    """Return the American spelling of `favourite`, `organise`, `theatre`, `catalogue` or `cancelled`."""
    if len(word) < 5:
        return word
    for british, american in _SPELLINGS:
        word = british.sub(american, word)
    return word


def _to_singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes", "buses")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _strip_ending(word: str) -> str:
    """Return a word without the ending of a verb, or of a noun derived from one."""
    if word.endswith("ification"):
        return word[:-7] + "y"
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    for ending, min_length in (("ation", 4), ("ating", 4), ("ated", 4), ("ate", 4), ("ing", 3), ("ed", 3)):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= min_length and re.search("[aeiouy]", base):
            return f"{base}e" if _LOST_E.fullmatch(base) else _strip_doubled(base)
    if word.endswith(("tion", "sion")) and len(word) > 5:
        return word[:-3]
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def _strip_doubled(word: str) -> str:
    """Return `stop` for the `stopp` of stopping; `add` and `call` keep their double letters."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] in "bdgmnprt":
        return word[:-1]
    return word[:-1] if word.endswith("e") else word
