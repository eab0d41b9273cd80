"""Days, times and months that a text speaks of, in English and Chinese, seen from a given moment."""

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from toolyard.models._offline.amounts import CHINESE_NUMBER, NUMBER, number

_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_SHORT = {name: at for at, name in enumerate(_NAMES.split(), 1)}
MONTHS = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_MONTH = rf"(?P<month>{MONTHS})\.?"
_HOUR = r"\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_HALF = r"(?P<half>am\b|pm\b|a\.m\.|p\.m\.)"
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_DAY = (
    r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday|(?<=on )(?:mon|tue|wed|thu|fri|sat|sun)\b)"
)
_ZH_DAYS = "一二三四五六日"
_ZH = CHINESE_NUMBER
_LEAD = re.compile(
    r"(?:(?:[,，]|\b(?:and|is|it's|that's|which is|it is))?\s*\b"
    r"(?:due|deadline(?: is|:)?|on|by|at|from|until|till|before|for|in|starting|beginning|between|"
    r"this|scheduled|around|the|to be done|of|during|as of)\b\s*)+$"
    r"|(?:截止到?|在|于|从|到|至|定在|时间是|时间为|时间[:：]|之前|[，,])+$",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"\s*(?:(?:to|until|till|and|-|–|—|~|到|至|,|，|at|from|on|for|，?从|的|in the)\s*)*$", re.IGNORECASE
)
_AFTER_ZH = re.compile(r"(?:之前|以前|前)(?:要?(?:完成|做完|搞定|做好))?|的时候|开始|结束|的|截止|到期")
PM = ("pm", "p.m.", "下午", "晚上", "傍晚", "今晚", "明晚", "晚", "afternoon", "evening", "tonight", "night")


_EVENING = re.compile(
    r"\b(?:dinner|supper|drinks|concert|opera)\b(?! (?:room|table|hall|house|tickets?|plates?))|晚饭|晚餐|晚宴|晚会",
    re.I,
)


AT_ALL = datetime(2000, 1, 3)
"""Any moment will do where only the places of what is said about time are wanted."""


class Clock(Struct, frozen=True):
    hour: int
    minute: int = 0
    sure: bool = True
    """Whether morning or evening was said, or follows from the hour."""


class Said(Struct, frozen=True, kw_only=True):
    """Something said about time, and where."""

    start: int
    end: int
    day: date | None = None
    clock: Clock | None = None
    month: str = ""
    minutes: int = 0
    part: str = ""
    """Of the day: am or pm."""


class Times(Struct, frozen=True):
    """All that a text says about time."""

    said: tuple[Said, ...]
    now: datetime
    evening: bool = False
    """Whether it speaks of what people do in the evening."""
    begins: datetime | None = None

    @property
    def day(self) -> date | None:
        return next((one.day for one in self.said if one.day), None)

    @property
    def month(self) -> str:
        day = self.day
        return next((one.month for one in self.said if one.month), f"{day:%Y-%m}" if day else "")

    def moment(self) -> datetime | None:
        """When it begins, if a time of day was said; today or, where that is over, tomorrow if no day was."""
        return self.begins

    def begun(self) -> "Times":
        clocks = self._clocks()
        if not clocks:
            return self
        day = self.day or self.now.date()
        start = datetime(day.year, day.month, day.day, *clocks[0])
        return replace(self, begins=start + timedelta(days=1) if self.day is None and start <= self.now else start)

    def ending(self) -> datetime | None:
        start, clocks = self.moment(), self._clocks()
        if start is None:
            return None
        minutes = sum(one.minutes for one in self.said)
        if minutes:
            return start + timedelta(minutes=minutes)
        if len(clocks) < 2:
            return None
        days = [one.day for one in self.said if one.day]
        base = datetime(days[1].year, days[1].month, days[1].day) if len(days) > 1 else start
        end = base.replace(hour=clocks[1][0], minute=clocks[1][1])
        return end if end > start else end + timedelta(hours=12 if end + timedelta(hours=12) > start else 24)

    def _clocks(self) -> list[tuple[int, int]]:
        clocks = [one.clock for one in self.said if one.clock]
        part = next((one.part for one in self.said if one.part), "pm" if self.evening else "")
        late = any(clock.sure and clock.hour >= 12 for clock in clocks)
        return [(_hour(clock, part, late), clock.minute) for clock in clocks]


def _hour(clock: Clock, part: str, late: bool) -> int:
    if clock.sure or clock.hour >= 12:
        return clock.hour
    if part == "pm" or (not part and (late or 1 <= clock.hour <= 6)):
        return clock.hour + 12
    return clock.hour


def times_in(text: str, now: datetime) -> Times:
    """What is said about time, in the order it is said, with the little words before it."""
    found: list[Said] = []
    for pattern, made in _PATTERNS:
        for one in pattern.finditer(text):
            if any(one.start() < other.end and other.start < one.end() for other in found):
                continue
            if said := made(one, now):
                found.append(said)
    found.sort(key=lambda one: one.start)
    return Times(tuple(_widened(text, found)), now, bool(_EVENING.search(text))).begun()


def _widened(text: str, found: list[Said]) -> Iterator[Said]:
    before = 0
    for one in found:
        between = text[before : one.start]
        lead = _LEAD.search(between)
        start = one.start - (len(between) - lead.start()) if lead else one.start
        if before and _BETWEEN.fullmatch(between):
            start = before
        after = _AFTER_ZH.match(text, one.end)
        before = after.end() if after else one.end
        yield Said(
            start=start, end=before, day=one.day, clock=one.clock, month=one.month, minutes=one.minutes, part=one.part
        )


def _day(found: re.Match[str], day: date | None, part: str = "") -> Said | None:
    return Said(start=found.start(), end=found.end(), day=day, part=part) if day else None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _coming(month: int, day: int, now: datetime) -> date | None:
    this = _date(now.year, month, day)
    return this if this and this >= now.date() else _date(now.year + 1, month, day)


def _iso(found: re.Match[str], now: datetime) -> Said | None:
    day = _date(int(found["y"]), int(found["m"]), int(found["d"]))
    clock = Clock(int(found["hh"]), int(found["mm"])) if found["hh"] and int(found["hh"]) < 24 else None
    return Said(start=found.start(), end=found.end(), day=day, clock=clock) if day else None


def _dotted(found: re.Match[str], now: datetime) -> Said | None:
    first, second = int(found["a"]), int(found["b"])
    month, day = (first, second) if second > 12 else (second, first)
    year = found["y"]
    return _day(found, _date(int(year), month, day) if year else _coming(month, day, now) if month <= 12 else None)


def _iso_month(found: re.Match[str], now: datetime) -> Said | None:
    return Said(start=found.start(), end=found.end(), month=f"{int(found['y'])}-{int(found['m']):02}")


def _named(found: re.Match[str], now: datetime) -> Said | None:
    month, day = _SHORT[found["month"].casefold()[:3]], int(found["d"])
    return _day(found, _date(int(found["y"]), month, day) if found["y"] else _coming(month, day, now))


def _month_named(found: re.Match[str], now: datetime) -> Said | None:
    """A month without a year is the last one of that name."""
    month = _SHORT[found["month"].casefold()[:3]]
    if found["month"] in ("may", "mar", "dec", "sun", "jan") and not found["prep"]:
        return None
    year = int(found["y"]) if found["y"] else now.year - (month > now.month)
    return Said(start=found.start(), end=found.end(), month=f"{year}-{month:02}")


def _relative_month(found: re.Match[str], now: datetime) -> Said | None:
    word = found.group().casefold()
    step = -1 if word.startswith(("last", "previous", "上")) else 1 if word.startswith(("next", "下")) else 0
    months = now.year * 12 + now.month - 1 + step
    return Said(start=found.start(), end=found.end(), month=f"{months // 12}-{months % 12 + 1:02}")


def _months_ago(found: re.Match[str], now: datetime) -> Said | None:
    said = found["n"] or found["zh"] or "2"
    months = now.year * 12 + now.month - 1 - int(1 if said.casefold() in ("a", "an") else number(said))
    return Said(start=found.start(), end=found.end(), month=f"{months // 12}-{months % 12 + 1:02}")


_NEAR = {
    "today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "day after tomorrow": 2, "今天": 0, "今日": 0, "今晚": 0,
    "今早": 0, "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "后天": 2, "大后天": 3, "昨天": -1, "tmrw": 1, "tomorow": 1,
    "tommorow": 1, "tommorrow": 1,
}  # fmt: skip


def _near(found: re.Match[str], now: datetime) -> Said | None:
    word = found["near"].casefold()
    late = word in ("tonight", "今晚", "明晚")
    return _day(found, now.date() + timedelta(days=_NEAR[word]), "pm" if late else "am" if word.endswith("早") else "")


def _weekday(found: re.Match[str], now: datetime) -> Said | None:
    wanted = next(at for at, name in enumerate(_DAYS) if name.startswith(found["weekday"].casefold()[:3]))
    ahead = (wanted - now.weekday()) % 7 or 7
    return _day(found, now.date() + timedelta(days=ahead))


def _weekday_zh(found: re.Match[str], now: datetime) -> Said | None:
    wanted, which = _ZH_DAYS.index(found["d"].replace("天", "日")), found["which"] or ""
    monday = now.date() - timedelta(days=now.weekday())
    if "下" in which:
        return _day(found, monday + timedelta(days=7 * which.count("下") + wanted))
    return _day(found, now.date() + timedelta(days=(wanted - now.weekday()) % 7 or 7))


def _ahead(found: re.Match[str], now: datetime) -> Said | None:
    how_many = 1.0 if found["n"].casefold() in ("a", "an", "one") else number(found["n"])
    days = how_many * (7 if found["unit"].casefold().startswith(("week", "周", "星", "礼", "个星", "个礼")) else 1)
    return _day(found, now.date() + timedelta(days=days)) if days < 3650 else None


def _next_week(found: re.Match[str], now: datetime) -> Said | None:
    if "week" in found.group().casefold() and "end" in found.group().casefold():
        return _day(found, now.date() + timedelta(days=(5 - now.weekday()) % 7 or 7))
    return _day(found, now.date() + timedelta(days=7))


def _end_of_month(found: re.Match[str], now: datetime) -> Said | None:
    following = date(now.year + now.month // 12, now.month % 12 + 1, 1)
    return _day(found, following - timedelta(days=1))


def _day_of_month(found: re.Match[str], now: datetime) -> Said | None:
    day = int(number(found["d"]))
    month = now.month if day >= now.day else now.month % 12 + 1
    return _day(found, _coming(month, day, now) if 1 <= day <= 31 else None)


def _month_day_zh(found: re.Match[str], now: datetime) -> Said | None:
    month, day = int(number(found["m"])), int(number(found["d"]))
    if not 1 <= month <= 12:
        return None
    return _day(found, _date(int(found["y"]), month, day) if found["y"] else _coming(month, day, now))


def _month_zh(found: re.Match[str], now: datetime) -> Said | None:
    month = int(number(found["m"]))
    if not 1 <= month <= 12:
        return None
    last = "去年" in found.group()
    year = int(found["y"]) if found["y"] else now.year - 1 if last else now.year - (month > now.month)
    return Said(start=found.start(), end=found.end(), month=f"{year}-{month:02}")


def _clock(found: re.Match[str], now: datetime) -> Said | None:
    hour, minute = int(number(found["h"])), int(found["m"] or 0)
    half = (found["half"] or "").casefold().replace(".", "")
    if hour > 24 or minute > 59 or (half and hour > 12):
        return None
    if half.startswith(("pm", "p")) and hour < 12:
        hour += 12
    elif half.startswith("a") and hour == 12:
        hour = 0
    written = bool(found["m"]) and (hour >= 7 or found["h"].startswith("0"))
    clock = Clock(hour % 24, minute, bool(half) or hour > 12 or written)
    return Said(start=found.start(), end=found.end(), clock=clock)


def _past(found: re.Match[str], now: datetime) -> Said | None:
    hour = int(number(found["h"]))
    minute = {"half past": 30, "quarter past": 15, "quarter to": 45}[found["what"].casefold()]
    hour -= minute == 45
    return Said(start=found.start(), end=found.end(), clock=Clock(hour, minute, False))


def _clock_zh(found: re.Match[str], now: datetime) -> Said | None:
    hour, part = int(number(found["h"])), found["part"] or ""
    rest = found["rest"] or ""
    minute = {"半": 30, "一刻": 15, "三刻": 45, "": 0, "整": 0}.get(rest)
    minute = int(number(rest.rstrip("分"))) if minute is None else minute
    if hour > 24 or minute > 59:
        return None
    late = part in PM or (part == "中午" and hour < 11)
    if late and hour < 12:
        hour += 12
    sure = bool(part) or hour > 12
    return Said(start=found.start(), end=found.end(), clock=Clock(hour % 24, minute, sure))


def _named_clock(found: re.Match[str], now: datetime) -> Said | None:
    hour = 0 if found.group().casefold() in ("midnight", "午夜") else 12
    return Said(start=found.start(), end=found.end(), clock=Clock(hour))


def _part(found: re.Match[str], now: datetime) -> Said | None:
    late = found.group().casefold().endswith(PM)
    return Said(start=found.start(), end=found.end(), part="pm" if late else "am")


def _lasting(found: re.Match[str], now: datetime) -> Said | None:
    said = found["n"].casefold()
    amount = 0.5 if said in ("half an", "半", "半个") else 1.0 if said in ("a", "an") else number(said)
    unit = found["unit"].casefold()
    half = 30 if found["half"] else 0
    minutes = amount * (1 if unit.startswith(("min", "分")) else 60) + half
    return Said(start=found.start(), end=found.end(), minutes=int(minutes)) if minutes < 10_000 else None


Made = Callable[[re.Match[str], datetime], Said | None]


def _of(pattern: str, made: Made) -> tuple[re.Pattern[str], Made]:
    return re.compile(pattern, re.IGNORECASE), made


_PATTERNS = (
    _of(r"(?P<y>\d{4})[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})(?:[T ](?P<hh>\d\d):(?P<mm>\d\d)(?::\d\d)?)?", _iso),
    _of(r"(?<!\d)(?P<y>\d{4})-(?P<m>0[1-9]|1[0-2])(?![\d-])", _iso_month),
    _of(r"(?<![\d.])(?P<a>\d{1,2})[./](?P<b>\d{1,2})[./](?P<y>\d{4})", _dotted),
    _of(r"(?<![\d./])(?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\d/])(?P<y>)", _dotted),
    _of(rf"\b(?:the )?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}\b(?:,? (?P<y>\d{{4}}))?", _named),
    _of(rf"\b{_MONTH} (?:the )?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<y>\d{{4}}))?", _named),
    _of(rf"(?P<prep>\b(?:in|for|of|during|since|last|this) )?\b{_MONTH}(?!\w)(?:,? (?:of )?(?P<y>\d{{4}}))?",
        _month_named),
    _of(rf"\b(?P<n>an?|{NUMBER}) months? ago\b|(?P<zh>{_ZH})个月(?:之前|以前|前)|\bthe month before last\b|上上个?月",
        _months_ago),
    _of(r"(?:last|previous|this|the current|next) month(?:'s)?|(?:上个?|这个?|本|当|下个?)月(?:份)?", _relative_month),
    _of(rf"(?:(?P<y>\d{{4}})年)?(?P<m>{_ZH})月(?P<d>{_ZH})[日号]?", _month_day_zh),
    _of(rf"(?:(?P<y>\d{{4}})年|去年|今年)?(?P<m>{_ZH})月(?:份)?", _month_zh),
    _of(r"\b(?:the )?(?P<near>day after tomorrow)\b", _near),
    _of(r"\b(?P<near>today|tonight|tomorrow|yesterday|tmrw|tomorow|tommorow|tommorrow)\b", _near),
    _of(r"(?P<near>大后天|今天|今日|今晚|今早|明天|明日|明早|明晚|后天|昨天)", _near),
    _of(rf"\b(?:(?:next|this|coming) )?\b{_DAY}\b", _weekday),
    _of(r"(?P<which>下下|下个?|这个?|本)?(?:周|星期|礼拜)(?P<d>[一二三四五六日天])", _weekday_zh),
    _of(rf"\bin (?P<n>an?|{NUMBER}) (?P<unit>days?|weeks?)(?:' time)?\b", _ahead),
    _of(rf"(?P<n>{_ZH})(?P<unit>天|周|个?星期|个?礼拜)(?:之?后|以后)", _ahead),
    _of(r"\b(?:the )?end of (?:the|this) month\b|(?:这个?|本)?月底", _end_of_month),
    _of(r"\bnext week\b|\b(?:this|next|the) weekend\b|下周|下个?星期", _next_week),
    _of(r"\b(?:on )?the (?P<d>\d{1,2})(?:st|nd|rd|th)\b", _day_of_month),
    _of(rf"(?<![路街巷弄道])(?P<d>{_ZH})[号日](?![会楼线门馆店桌厅仓房教院])", _day_of_month),
    _of(r"(?!\d+[:.]\d\d ?[ap]\.?m)(?P<part>上午|早上|早晨|凌晨|中午|下午|傍晚|晚上|晚)?"
        r"(?P<h>\d{1,2}|[一二两三四五六七八九十]{1,3})(?:点钟?|时|[:：](?=\d\d))"
        r"(?P<rest>半|一刻|三刻|整|[\d一二三四五六七八九十]{1,3}分?)?", _clock_zh),
    _of(rf"\b(?:for )(?P<n>half an|an?|{NUMBER}) ?(?P<unit>hours?|h|minutes?|mins?)(?P<half> and a half)?\b", _lasting),
    _of(r"(?:持续)?(?P<n>半个?|\d+|[一二两三四五六七八九十]+)个?(?P<unit>小时|钟头|分钟)(?P<half>半)?", _lasting),
    _of(rf"\b(?P<what>half past|quarter past|quarter to) (?P<h>{_HOUR})\b", _past),
    _of(rf"(?<![\d.:])(?P<h>\d{{1,2}}):(?P<m>\d\d)(?![\d.])\s*{_HALF}?(?:\s*o'clock|h\b)?", _clock),
    _of(rf"(?:(?<=\bat )|(?<=\bfrom )|(?<=\buntil )|(?<=\bto )|(?<=\bby ))(?P<h>\d{{1,2}})\.(?P<m>\d\d)(?![\d.])"
        rf"\s*{_HALF}?", _clock),
    _of(rf"(?<![\d.:])(?P<h>\d{{1,2}})\.(?P<m>\d\d)\s*{_HALF}", _clock),
    _of(rf"(?<![\d.:])(?P<h>\d{{1,2}})(?P<m>)\s?{_HALF}", _clock),
    _of(rf"\b(?P<h>{_HOUR})(?P<m>)(?P<half>) o'clock\b", _clock),
    _of(rf"(?<=\bat )(?P<h>{_HOUR})(?P<m>)(?P<half>)(?![\d:.\w])", _clock),
    _of(r"(?<=\bfrom )(?P<h>\d{1,2})(?P<m>)(?P<half>)(?= (?:to|until|till|-))", _clock),
    _of(r"\b(?:noon|midday|midnight)\b|午夜|正午", _named_clock),
    _of(r"(?:(?<=\d to )|(?<=m to )|(?<=\d until )|(?<=\d till ))(?P<h>\d{1,2})(?P<m>)(?P<half>)(?![\d:.\w])", _clock),
    _of(r"\b(?:in the|this|(?<=tomorrow )|(?<=day )) ?(?:morning|afternoon|evening|night)\b|\bat night\b"
        r"|下午|晚上|上午|早上", _part),
)  # fmt: skip
