"""Numbers in words and figures, how many of something, and bounds such as "under 8 euros". English and Chinese."""

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

UNITS = (
    "bottles?|packs?|packets?|packages?|boxes|box|bags?|cans?|tins?|jars?|cartons?|loaf|loaves|kilos?|kilograms?|kg|"
    "grams?|g|litres?|liters?|l|ml|pieces?|slices?|bunch(?:es)?|tubes?|rolls?|cases?|crates?|heads?|pairs?|cups?|"
    "tubs?|bars?|sacks?|units?|portions?|punnets?|pints?|gallons?|pounds?|lbs?|ounces?|oz|trays?|blocks?|sticks?"
)
_METRIC = r"kilos?|kilograms?|kg|grams?|g|litres?|liters?|l|ml|pounds?|lbs?"
_MEASURES = "公斤|千克|毫升|公升|[个瓶袋盒包斤罐箱份只根条支块片升听桶卷杯头颗串棵张件双板提打把本台篮筒碗盘壶锅勺]"
_ENGLISH = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90, "hundred": 100,
}  # fmt: skip
_CHINESE = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_TENS = {"十": 10, "百": 100, "千": 1000}
_WORDS = "|".join(_ENGLISH)
NUMBER = rf"\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:[.,]\d+)?|(?:(?:{_WORDS})(?:[ -](?:{_WORDS}))*)\b"
CHINESE_NUMBER = r"\d+(?:\.\d+)?|[零〇一二两三四五六七八九十百千]+"
_COUNT = (
    r"(?P<several>half a dozen|(?:a )?dozen|(?:a )?couple(?= of)|(?:a )?pair(?= of)"
    rf"|(?:{NUMBER}) dozen)|(?P<number>{NUMBER})"
)
_LEADING = re.compile(
    rf"(?:{_COUNT})\s*(?:[x×]\s+|(?:(?:more|extra|additional|other)\s+)?(?:(?:{UNITS})\s+of\s+|"
    rf"(?:{_METRIC})\s+(?:of\s+)?|of\s+|(?=\S)))(?:the\s+|my\s+)?",
    re.IGNORECASE,
)
_CONTAINER = re.compile(rf"(?:(?:half )?an?\s+)?(?:{UNITS})\s+of\s+", re.IGNORECASE)
_TRAILING = re.compile(
    r"[\s,:]*(?:[x×]\s*(?P<a>\d+)|(?P<b>\d+)\s*[x×]|\((?P<c>\d+)(?: (?:" + UNITS + r"))?\)|:\s*(?P<d>\d+))$",
    re.IGNORECASE,
)
_TRAILING_ZH = re.compile(rf"[\s，,]*(?P<number>{CHINESE_NUMBER}|半打|一打)\s*(?:{_MEASURES})$")
_LEADING_ZH = re.compile(
    rf"(?:(?P<dozen>半打|(?:{CHINESE_NUMBER})打)|(?P<number>\d+(?:\.\d+)?|[零一二两三四五六七八九十百千]+)"
    rf"\s*(?:{_MEASURES})|(?P<bare>\d+)(?=\s*[\u3400-\u9fff]))\s*(?:装)?的?"
)
COUNT_BEFORE = re.compile(rf"\b(?P<number>{NUMBER})\s+$", re.IGNORECASE)
_BEFORE = re.compile(rf"(?:^|\s)(?P<number>{NUMBER})\s*(?:[x×]|(?:{UNITS})(?:\s+of)?)?\s*$", re.IGNORECASE)
_BEFORE_ZH = re.compile(rf"(?P<number>{CHINESE_NUMBER})\s*(?:{_MEASURES})\s*$")
_BOUND = re.compile(
    rf"(?:,?\s*(?:that\s+(?:are|is|cost)s?|which\s+(?:are|is|cost)s?|costing|priced|for|with an?|with the)\s+)?"
    rf"(?P<word>under|below|less than|cheaper than|up to|at most|no more than|not more than|"
    rf"max(?:imum)?(?: price)?(?: of)?|max\.|within|over|above|more than|at least|minimum(?: of)?|min\.?|from)"
    rf"\s*[€$£]?\s*(?P<number>{NUMBER})\s*"
    rf"(?:euros?|eur|€|dollars?|usd|\$|pounds?|gbp|£|bucks|%|percent)?",
    re.IGNORECASE,
)
_BOUND_ZH = re.compile(
    rf"(?:价格|价钱)?(?P<word>不超过|低于|少于|最多|不到|高于|超过|至少|最少|便宜于)\s*(?P<number>{CHINESE_NUMBER})\s*(?:欧元|元|块钱|块|欧)?的?"
    rf"|(?P<number2>{CHINESE_NUMBER})\s*(?:欧元|元|块钱|块|欧)?(?P<word2>以下|以内|之内|之下|以上)的?"
)
_ORDINALS = ("fir", "sec", "thi", "fou", "fif", "six", "sev", "eig", "nin", "ten")
_WHICH = re.compile(
    r"(?:the )?(?P<en>first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last)"
    r"(?: (?:one|item|product|result|option|entry))?"
    rf"|第(?P<zh>{CHINESE_NUMBER})(?:{_MEASURES}|种|款|项)?|最后(?:一)?(?:{_MEASURES}|种|款|项)",
    re.IGNORECASE,
)
_LOWER = re.compile(r"over|above|more than|at least|min|from|高于|超过|至少|最少|以上", re.IGNORECASE)


_ANY = re.compile(rf"\b(?:{NUMBER})|(?<![A-Za-z\d.])(?:{CHINESE_NUMBER})", re.IGNORECASE)
_ONLY = re.compile(rf"(?P<en>{NUMBER})|(?P<zh>{CHINESE_NUMBER})(?:{_MEASURES})?", re.IGNORECASE)
_THOUSANDS, _FIGURES = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"), re.compile(r"\d+(?:[.,]\d+)?")
_EUROPEAN = re.compile(
    r"(?P<value>\d{1,3}(?:\.\d{3})+,\d{1,2}|\d{1,3}(?:\.\d{3})+(?=\s*(?:€|eur|euros?)))(?!\d)", re.IGNORECASE
)
_LARGER = {"k": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9, "万": 1e4, "亿": 1e8}
_MORE = re.compile(r"k\b|\s?(?:thousand|million|billion)\b|万|亿", re.IGNORECASE)
MOST_FIGURES = 60
_PRICED = re.compile(
    r"(?:the )?(?:cheapest|least expensive|most expensive|dearest|priciest)\s*(?:ones?$)?|最(?:便宜|贵)的?(?:那个)?",
    re.IGNORECASE,
)
Priced = Literal["cheapest", "dearest"]


class Bound(Struct, frozen=True):
    start: int
    end: int
    value: float
    upper: bool


def number(text: str) -> float:
    """The number that words or figures of either language stand for."""
    text = text.strip().casefold()
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if _FIGURES.fullmatch(text):
        return float(text.replace(",", "."))
    if text[:1] in _CHINESE or text[:1] in _TENS:
        return _chinese(text)
    total = 0
    for word in re.split(r"[ -]", text):
        value = _ENGLISH[word]
        total = max(total, 1) * value if value == 100 else total + value
    return total


def _chinese(text: str) -> float:
    total = digit = 0
    for one in text:
        if one in _TENS:
            total += (digit or 1) * _TENS[one]
            digit = 0
        else:
            digit = _CHINESE[one]
    return total + digit


def counted(text: str) -> tuple[float | None, str]:
    """How many, and of what: `two bottles of olive oil` is 2 and `olive oil`."""
    if found := _LEADING_ZH.match(text):
        several = found["dozen"]
        how_many = 6.0 if several == "半打" else number(several[:-1]) * 12 if several else 0.0
        return how_many or number(found["number"] or found["bare"]), text[found.end() :].strip()
    if found := _LEADING.match(text):
        return _several(found["several"]) if found["several"] else number(found["number"]), text[found.end() :].strip()
    if found := _TRAILING.search(text):
        return float(found["a"] or found["b"] or found["c"] or found["d"]), text[: found.start()].strip()
    if (found := _TRAILING_ZH.search(text)) and found.start():
        return number(found["number"]), text[: found.start()].strip()
    return None, _CONTAINER.sub("", text) if _CONTAINER.match(text) else text


def _several(words: str) -> float:
    words = words.casefold()
    if "dozen" not in words or words.startswith("half"):
        return 6 if "dozen" in words else 2
    how_many = words.removesuffix("dozen").strip()
    return 12 * (1 if how_many in ("", "a") else number(how_many))


def count_before(text: str) -> float | None:
    """How many, where a text ends with it: `add 2 ` before what stands in quotation marks."""
    found = _BEFORE.search(text) or _BEFORE_ZH.search(text)
    return number(found["number"]) if found else None


def bounds(text: str) -> list[Bound]:
    """The limits that a text sets: `under 8 euros`, `10元以下`."""
    found = [
        Bound(one.start(), one.end(), number(one["number"]), not _LOWER.match(one["word"]))
        for one in _BOUND.finditer(text)
    ]
    for one in _BOUND_ZH.finditer(text):
        word, value = one["word"] or one["word2"], one["number"] or one["number2"]
        found.append(Bound(one.start(), one.end(), number(value), not _LOWER.match(word)))
    return found


def only_number(text: str) -> float | None:
    """The number that is all of a text: `two` of `I'll take two`, `两瓶` of `那就来两瓶`."""
    found = _ONLY.fullmatch(text)
    return number(found["en"] or found["zh"]) if found else None


def count_at(text: str) -> int:
    """How many letters at the beginning say how many."""
    found = _LEADING_ZH.match(text) or _LEADING.match(text) or _ANY.fullmatch(text)
    return found.end() if found else 0


def which(text: str) -> int | None:
    """The place in a list that a text points to, from 0, or -1 for its end: `the second one`, `最后一个`."""
    if not (found := _WHICH.fullmatch(text)):
        return None
    if found["zh"]:
        at = int(number(found["zh"])) - 1
        return at if at >= 0 else None
    return -1 if not found["en"] or found["en"].casefold() == "last" else _ORDINALS.index(found["en"].casefold()[:3])


def priced(text: str) -> tuple[Priced | None, str]:
    """Whether the cheapest or the dearest of a kind is meant, and the kind: `the cheapest wine`, `最便宜的酒`."""
    if not (found := _PRICED.match(text)):
        return None, text
    cheap = found.group().casefold().strip().removeprefix("the ").startswith(("cheap", "least", "最便宜"))
    return "cheapest" if cheap else "dearest", text[found.end() :]


@lru_cache(maxsize=1024)
def numbers(text: str) -> tuple[tuple[int, int, float], ...]:
    """Every number in figures or words, with its place."""
    return tuple(_meant(one, text) for one in _ANY.finditer(text) if len(one.group()) <= MOST_FIGURES)


def _meant(found: re.Match[str], text: str) -> tuple[int, int, float]:
    """With its sign, and with the word after it that makes it larger: `-5`, `2k`, `5 million`, `1.500,50`."""
    start, end, value = found.start(), found.end(), number(found.group())
    if european := _EUROPEAN.match(text, start):
        end, value = european.end("value"), float(european["value"].replace(".", "").replace(",", "."))
    if more := _MORE.match(text, end):
        end, value = more.end(), value * _LARGER[more.group().strip().casefold()]
    if start and text[start - 1] == "-" and not text[: start - 1][-1:].isalnum():
        start, value = start - 1, -value
    return start, end, value
