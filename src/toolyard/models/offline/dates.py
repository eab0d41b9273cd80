"""Parses days and times as people write them. `dateparser`, loaded on first use, reads English and other languages.

Chinese is parsed here: `dateparser` does not read its times of day, nor a month with a day.
"""

import importlib
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Literal, cast

TimeKind = Literal["date", "date-time", "time", "date or date-time"]
MAX_TIME_CHARACTERS = 60
"""The longest text that is parsed as a time."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?)?")
_CLOCK = re.compile(
    r"\b\d{1,2}:\d\d\b|\b\d{1,2} ?[ap]m\b|\bnoon\b|\bmidnight\b|\bhours?\b|\bminutes?\b|\bo'clock\b", re.I
)
_DURATION = re.compile(r"(?:an? )?\d+ \w+", re.I)
"""`30 minutes` alone is a duration, not a time."""
_DIGITS = {word: number for number, word in enumerate("零一二三四五六七八九十")} | {"两": 2, "十一": 11, "十二": 12}
_COUNT = r"(\d{1,2}|十[一二]?|[一二两三四五六七八九])"
_CHINESE_TIME = re.compile(rf"(凌晨|早上|上午|中午|下午|傍晚|晚上|今晚|明晚)?{_COUNT}[点點时](半|{_COUNT}分|[一三]刻)?")
_CHINESE_DAY = re.compile(
    rf"大后天|后天|明天|明晚|今天|今晚|(?:(\d{{4}})年)?{_COUNT}月{_COUNT}[日号]|(下下|下|这|本)?(?:周|星期|礼拜)([一二三四五六日天])"
)
_CHINESE_MOMENT = re.compile(rf"(?:{_CHINESE_DAY.pattern})(?:{_CHINESE_TIME.pattern})?|{_CHINESE_TIME.pattern}")
_CLOCK_TIME = r"\d{1,2}(?::\d\d)? ?[ap]m|\d{1,2}:\d\d|noon|midnight"
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*"
_DAY = (
    rf"today|tonight|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day|{_ISO.pattern}"
    rf"|(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?|\d{{1,2}}(?:st|nd|rd|th)? {_MONTH})(?:,? \d{{4}})?"
)
_PLAIN_TIME = re.compile(
    rf"(?:on )?(?:{_DAY})(?:,? (?:at )?(?:{_CLOCK_TIME}))?|(?:at )?(?:{_CLOCK_TIME})(?: (?:on )?(?:{_DAY}))?"
    r"|in \d{1,3} (?:minute|hour|day|week|month)s?",
    re.I,
)
MAX_SEARCHED = 300
"""The characters of a message that are searched for a time: `dateparser` takes too long for more."""
_AHEAD = {"今天": 0, "今晚": 0, "明天": 1, "明晚": 1, "后天": 2, "大后天": 3}
_LATER_HALF = ("下午", "傍晚", "晚上", "今晚", "明晚")


def is_plain_time(text: str) -> bool:
    """Return whether a text is a time and nothing else: `dateparser` also reads `after friday`, ignoring a word."""
    return bool(_PLAIN_TIME.fullmatch(text) or _CHINESE_MOMENT.fullmatch(text) or _ISO.fullmatch(text))


def parse_time(text: str, kind: TimeKind, now: datetime, language: str) -> str | None:
    """Return a text as a day or time in ISO 8601; None if it is not a time as a whole."""
    if len(text) > MAX_TIME_CHARACTERS or text.isdigit():  # a number alone is not a day
        return None
    if _ISO.fullmatch(text):
        moment, has_clock = _parse_iso(text), "T" in text or " " in text
    elif language == "zh":
        moment, has_clock = _parse_chinese(text, now)
    else:
        moment, has_clock = _load_dateparser()(text, now, language), bool(_CLOCK.search(text))
    if moment is None:
        return None
    if not has_clock:  # a time of day is never added, and one in the text is never dropped
        return moment.date().isoformat() if kind in ("date", "date or date-time") else None
    if kind == "date":
        return None
    return f"{moment:%H:%M}" if kind == "time" else moment.isoformat(timespec="minutes")


def _parse_iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _parse_chinese(text: str, now: datetime) -> tuple[datetime | None, bool]:
    day, clock = _CHINESE_DAY.search(text), _CHINESE_TIME.search(text)
    leftover = _CHINESE_TIME.sub("", _CHINESE_DAY.sub("", text, count=1), count=1).strip("的在 ")
    if leftover or not (day or clock):
        return None, False
    date_of = _parse_chinese_day(day, now) if day else now.date()
    if date_of is None or not clock:
        return (datetime.combine(date_of, datetime.min.time()) if date_of else None), False
    hour, minutes = _parse_count(clock[2]), clock[3] or ""
    if (clock[1] in _LATER_HALF or (day and day[0] in ("今晚", "明晚"))) and hour < 12:
        hour += 12
    minute = 30 if minutes == "半" else 15 * _DIGITS[minutes[0]] if "刻" in minutes else _parse_count(clock[4] or "0")
    if hour > 23 or minute > 59:
        return None, False
    return datetime.combine(date_of, datetime.min.time()).replace(hour=hour, minute=minute), True


def _parse_chinese_day(match: re.Match[str], now: datetime) -> date | None:
    today = now.date()
    if match[0] in _AHEAD:
        return today + timedelta(days=_AHEAD[match[0]])
    if match[5]:
        weekday = 6 if match[5] in "日天" else _DIGITS[match[5]] - 1
        monday = today - timedelta(days=today.weekday())
        weeks = {"下": 1, "下下": 2}.get(match[4] or "", 0)
        day = monday + timedelta(days=weekday, weeks=weeks)
        return day + timedelta(weeks=1) if day < today else day
    try:
        day = date(int(match[1] or today.year), _parse_count(match[2]), _parse_count(match[3]))
    except ValueError:
        return None
    return day.replace(year=day.year + 1) if day < today and not match[1] else day


def _parse_count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else _DIGITS[text]


def _load_dateparser() -> Callable[[str, datetime, str], datetime | None]:
    """Load `dateparser` when the first time is parsed: that takes a fifth of a second, and most messages have none."""
    try:
        library = importlib.import_module("dateparser")
    except ImportError:
        return lambda text, now, language: None

    def parse(text: str, now: datetime, language: str) -> datetime | None:
        settings = {"RELATIVE_BASE": now, "PREFER_DATES_FROM": "future", "RETURN_AS_TIMEZONE_AWARE": False}
        try:
            return cast("datetime | None", library.parse(text, languages=[language], settings=settings))
        except (ValueError, OverflowError, TypeError):
            return None

    return parse


def find_times(text: str, now: datetime, language: str) -> list[str]:
    """Return the parts of a text that are a day or time, in order; of overlapping ones the longest."""
    if language == "zh":
        return [match.group() for match in _CHINESE_MOMENT.finditer(text)]
    if iso := _ISO.findall(text):
        return iso
    try:
        search = importlib.import_module("dateparser.search")
    except ImportError:
        return []
    settings = {"RELATIVE_BASE": now, "PREFER_DATES_FROM": "future"}
    try:
        moments = search.search_dates(text[:MAX_SEARCHED], languages=[language], settings=settings) or ()
    except (ValueError, OverflowError, TypeError):
        return []
    return [piece for piece, _ in cast("list[tuple[str, datetime]]", moments) if not _DURATION.fullmatch(piece)]
