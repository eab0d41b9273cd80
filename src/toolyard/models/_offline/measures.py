"""Numbers that say what they are for: by their unit, `30 minutes`, or by the word before them, `ticket 502`."""

import re
from collections.abc import Iterator
from functools import lru_cache

from toolyard.finding.words import STOP, words
from toolyard.models._offline.amounts import numbers
from toolyard.models._offline.places import Place, as_number, label_before
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.sheet import Sheet
from toolyard.models._offline.words import Span

_UNITS: tuple[frozenset[str], ...] = tuple(
    frozenset(line.split())
    for line in (
        "percent % percentage brightness volume 百分",
        "fahrenheit 华氏",
        "pound lb lbs 磅",
        "celsius degree ° 度 temperature °c 温度",
        "minute min mins 分钟 分",
        "hour hr hrs h 小时",
        "second sec secs 秒",
        "day 天 日",
        "night 晚 夜",
        "week 周 星期",
        "people person guest passenger adult seat 人 位",
        "star 星 星级",
        "page 页",
        "amount price money total sum budget cost fee euro eur € dollar usd $ pound £ yuan rmb 元 块 金额 价格 费用",
        "kilometer kilometre km 公里 千米 distance 距离",
        "meter metre m 米",
        "kilogram kg kilo 公斤 千克 weight 体重 重量",
        "gram g 克",
        "calorie kcal 卡路里 大卡",
        "time times 次",
        "line row entry result 行 条",
        "count qty quantity 数量 张数 份数 个数 件数 张 份 个 件 瓶 杯 间 位",
    )
)
"""What a unit is called, and what is measured in it."""
_STEMS = tuple(frozenset(stem for word in unit for stem in (word, *words(word))) for unit in _UNITS)
_AFTER = re.compile(r"\s*-?\s*个?(?P<unit>%|°c?|[€$£]|[a-zA-Z]+|[\u3400-\u9fff]{1,2})")
_BEFORE = re.compile(
    r"(?P<whole>(?P<word>[a-zA-Z]+|[\u3400-\u9fff]{2})\s*(?:number|no\.?|nr\.?|号)?\s*(?:is|=|:|：|#|to|as|为|是|到|成)?\s*)$",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"\s+(?:lines|rows|entries|results|messages|items|records)\b", re.IGNORECASE)
_MONEY = re.compile(r"[€$£]\s*$")
_LEAD = re.compile(r"\b(?:for|to|at|of|by|with|about|around|and|last|first|top)\s*$|(?:为|到|成|共)$", re.IGNORECASE)
WINDOW = 40
"""So many letters before a number are looked at for what it is."""
_COUNTS = frozenset({"qty", "quantity", "count", "pieces"})
"""How many of the thing that is asked for: that goes with the thing."""
_FIRST = re.compile(r"\b(?P<way>first|top|latest|newest|last|most recent)\s+$|(?:前|最近|最新)的?$", re.IGNORECASE)
_LIMITS = ("limit", "head", "top", "n", "max_results", "num_results", "page_size", "per_page", "first", "lines")
_AMOUNT = frozenset({"amount", "price", "total", "sum", "budget", "cost", "fee"})


def measured(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """Each number goes to the place that its unit or its label is for; one that says nothing is left.

    Of several for one place, `tickets 501 and 503`, those after the first are for others.
    """
    places = [place for place in profile.places if place.kind == "number" and not _is_bound(place)]
    if profile.main and profile.main.required:
        places = [place for place in places if not _COUNTS & set(place.name.casefold().split("_"))]
    last: Place | None = None
    for start, end, value in numbers(sheet.clause.text):
        if not sheet.free(start, end) or any(one.start <= start < one.end for one in sheet.clause.literals):
            continue
        spans = ((place, _span(sheet.clause.text, start, end, place)) for place in places)
        place, span = next(((place, span) for place, span in spans if span), (None, (start, end)))
        again = last is not None and place in (None, last) and sheet.follows(span[0])
        if again:
            place = last
        if place is None or not sheet.free(*span) or (place.name in values and not again):
            continue
        if place.whole and value != int(value):
            continue
        number = as_number(value, place)
        if again:
            sheet.others.append({place.name: number})
        else:
            values[place.name] = number
        last = place if span[1] == end else None
        sheet.take(*span)


def of_another(text: str, end: int, place: Place) -> bool:
    """Whether a number has a unit that its place is not measured in: hours where minutes are wanted."""
    after = _AFTER.match(text, end)
    said = {after["unit"].casefold(), *words(after["unit"])} if after else set[str]()
    known, own = any(said & unit for unit in _STEMS), _words(place)
    return known and not said & own and any(own & unit for unit in _STEMS)


def _span(text: str, start: int, end: int, place: Place) -> Span | None:
    """From where to where a number and what belongs to it stand, if it is for this place."""
    known = _words(place)
    after = _AFTER.match(text, end)
    first = _FIRST.search(text, max(0, start - WINDOW), start)
    if first and place.name in (*_LIMITS, "tail"):
        last = (first["way"] or "").casefold() == "last"
        return (
            (first.start(), _thing_after(text, end)) if last == (place.name == "tail") or place.name != "head" else None
        )
    if money := _MONEY.search(text, max(0, start - WINDOW), start):
        return (money.start(), end) if known & _AMOUNT else None
    if after:
        for length in range(len(after["unit"]), 0, -1) if not after["unit"].isascii() else (len(after["unit"]),):
            unit = after["unit"][:length]
            if known & ({unit.casefold(), *words(unit)} if unit.isascii() else {unit}):
                return _lead(text, start, place), after.start("unit") + length
    before = _BEFORE.search(text, max(0, start - WINDOW), start)
    if before and known & {before["word"].casefold(), *words(before["word"])}:
        return before.start(), end
    return None


def _thing_after(text: str, end: int) -> int:
    """Where what is counted ends: ` lines` of `the first 2 lines of the report`."""
    found = _COUNTED.match(text, end)
    return found.end() if found else end


def _lead(text: str, start: int, place: Place) -> int:
    """Where the small words before a number begin, and those that say what it is."""
    start = label_before(place, text, start)
    lead = _LEAD.search(text, max(0, start - WINDOW), start)
    return lead.start() if lead else start


def _is_bound(place: Place) -> bool:
    return place.role in ("upper", "lower") and place.name not in _LIMITS


@lru_cache(maxsize=4096)
def _words(place: Place) -> frozenset[str]:
    return frozenset(_named(place))


def _named(place: Place) -> Iterator[str]:
    """The words that name a place, and the units of what it measures."""
    own = {*words(place.name), *(() if place.said.isascii() else words(place.said))} - STOP
    yield from own
    spoken_of = own | {*words(place.said)}
    for unit in _UNITS:
        if {stem for word in unit for stem in (word, *words(word))} & spoken_of:
            yield from unit
            yield from (stem for word in unit for stem in words(word))
