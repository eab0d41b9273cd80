"""What is written as a machine reads it: paths, addresses, time zones and their towns. It is never cut up or split."""

import re
from functools import cache
from typing import Literal
from zoneinfo import available_timezones

from msgspec import Struct

Written = Literal["", "path", "pattern", "url", "zone", "mail", "sum", "sql", "repo"]

_ENDINGS = "txt|md|py|json|csv|log|html?|css|js|ts|ya?ml|toml|ini|cfg|pdf|png|jpe?g|gif|svg|xml|sh|sql|docx?|xlsx?|zip"
_LITERAL = re.compile(
    r"(?P<sql>\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|PRAGMA)\s+(?=.*\b(?:FROM|INTO|SET|TABLE|AS)\b).+?(?=\s*$))"
    r"|(?P<url>https?://[^\s，。]+[^\s，。.,;:!?)]|(?<![\w@./])(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|ai|app|cn|de|uk|eu|edu|gov)"
    r"(?:/[^\s，。]*[^\s，。.,;:!?)])?(?![\w@.]))"
    r"|(?P<mail>[\w.+-]+@[\w-]+\.[\w.-]*\w)"
    r"|(?P<zone>\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?\b|\bUTC\b)"
    r"|(?P<sum>\(*\d+(?:\.\d+)?(?:\)*(?:\s*[+*×÷^]\s*|\s+[-/]\s+)\(*\d+(?:\.\d+)?\)*){1,20})(?![\w/-])"
    r"|(?P<pattern>(?<![\w./-])\.\w{1,5}(?=\s+files?\b)|(?<![\w./-])[\w./-]*\*[\w./*-]*)"
    rf"|(?P<path>(?<![\w/.])(?:~|\.{{0,2}})/(?:[\w.@%+-]+/?)*|\b[\w-]+(?:/[\w-]+)*\.(?:{_ENDINGS})\b)"
)
_KINDS: tuple[tuple[Written, re.Pattern[str]], ...] = (
    ("zone", re.compile(r"time_?zone|(?:^|_)tz$", re.IGNORECASE)),
    ("url", re.compile(r"(?:^|_)ur[il]s?$", re.IGNORECASE)),
    ("pattern", re.compile(r"(?:^|_)(?:pattern|glob)$", re.IGNORECASE)),
    ("path", re.compile(r"(?:^|_)(?:file_?)?paths?$|(?:^|_)(?:directory|dir|folder|file_?name)$", re.IGNORECASE)),
    ("mail", re.compile(r"(?:^|_)e?mail(?:_address(?:es)?|s)?$", re.IGNORECASE)),
    ("sql", re.compile(r"^(?:sql|query|statement|sql_query)$", re.IGNORECASE)),
    ("sum", re.compile(r"(?:^|_)(?:expression|formula|calculation)$", re.IGNORECASE)),
)
_FORMATS: dict[str, Written] = {"email": "mail", "uri": "url", "url": "url"}
_OF_FILES = re.compile(r"\bfiles?\b|_files?\b|director|folder", re.IGNORECASE)
_ENDS = re.compile(r"^(?:source|destination|src|dest|from|to|target)$", re.IGNORECASE)
_BEFORE = re.compile(
    r"(?:\b(?P<small>from|to|into|in|at|of|on|under|inside|within|between|and|as)\s+(?:the\s+)?"
    r"(?:(?:file|directory|folder|path|url|page|repo|repository)\s+)?|(?:从|到|在|往|把)"
    r"|[,，]?\s*\b(?:(?:and|with)\s+)?(?:(?:the|an?|his|her|their)\s+)?"
    r"(?:e-?mail|mail|address|url|link|website|path|file)(?:\s+address)?\s*(?:is|[:=])?\s*)$",
    re.IGNORECASE,
)


_TOWN = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)?|北京|上海|东京|纽约|伦敦|巴黎|柏林|香港|新加坡|悉尼|莫斯科|洛杉矶")
_ALSO = {
    "北京": "Asia/Shanghai", "Beijing": "Asia/Shanghai", "上海": "Asia/Shanghai", "东京": "Asia/Tokyo",
    "纽约": "America/New_York", "伦敦": "Europe/London", "巴黎": "Europe/Paris", "柏林": "Europe/Berlin",
    "香港": "Asia/Hong_Kong", "新加坡": "Asia/Singapore", "悉尼": "Australia/Sydney", "莫斯科": "Europe/Moscow",
    "洛杉矶": "America/Los_Angeles", "San Francisco": "America/Los_Angeles", "Delhi": "Asia/Kolkata",
}  # fmt: skip


_FROM = re.compile(r"(?:^|_)(?:source|src|from|old|base|origin|departure|sender)(?:_|$)")
_TO = re.compile(r"(?:^|_)(?:destination|dest|target|to|new|arrival|recipient|receiver)(?:_|$)")


class Found(Struct, frozen=True):
    kind: Written
    value: str
    start: int
    end: int


def literals(text: str) -> list[Found]:
    found = (one for one in _LITERAL.finditer(text) if re.search(r"\w|/", one.group()))
    return [Found(kind, _value(one), *one.span()) for one in found for kind, _ in _KINDS if kind == one.lastgroup]


def _value(found: re.Match[str]) -> str:
    """As a machine wants it: `.md` files are `*.md`."""
    text = found.group()
    if found.lastgroup == "url" and "://" not in text:
        return f"https://{text}"
    return f"*{text}" if found.lastgroup == "pattern" and "*" not in text else text


def written(name: str, form: str, said: str) -> Written:
    """What a parameter of this name and format is written as, in a tool of which this is said."""
    if form in _FORMATS:
        return _FORMATS[form]
    if _ENDS.match(name) and _OF_FILES.search(said):
        return "path"
    for kind, pattern in _KINDS:
        if pattern.search(name) and (kind != "sql" or "SQL" in said):
            return kind
    return ""


@cache
def _zones() -> dict[str, str]:
    """Time zones by the town that they are called after."""
    towns = {zone.rpartition("/")[2].replace("_", " "): zone for zone in sorted(available_timezones()) if "/" in zone}
    return {town: zone for town, zone in towns.items() if not zone.startswith(("Etc/", "SystemV/"))} | _ALSO


def zone_in(text: str) -> Found | None:
    """The time zone of the first town that a text names."""
    for found in _TOWN.finditer(text):
        if zone := _zones().get(found.group()):
            return Found("zone", zone, *found.span())
    return None


def before(text: str, start: int) -> tuple[int, str]:
    """Where the small words before a literal begin, and which of `from` and `to` they are, if any."""
    found = _BEFORE.search(text, 0, start)
    small = (found["small"] or found.group()).casefold() if found else ""
    way = (
        "from"
        if small in ("from", "从", "between")
        else "to"
        if small in ("to", "into", "到", "往", "and", "as")
        else ""
    )
    return (found.start() if found else start), way


@cache
def way_of(name: str) -> str:
    """Whether a parameter is where something comes from or where it goes to."""
    if _FROM.search(name):
        return "from"
    return "to" if _TO.search(name) else ""
