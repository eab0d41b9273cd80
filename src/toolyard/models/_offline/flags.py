"""Yes or no: a switch that is turned on or off, or a word that is said or not said."""

import re
from functools import lru_cache

from toolyard.finding.words import stem
from toolyard.models._offline.places import Place
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.sheet import Sheet

_SWITCHES = frozenset({"on", "enable", "enabled", "active", "power", "powered", "state"})
_SAYS_NOTHING = frozenset(
    {"is", "only", "with", "include", "including", "show", "has", "set", "be", "flag", "make", "should", "want", "just"}
)
_ON = re.compile(r"\b(?:on|enabled?|activated?)\b|打开|开启|启用|启动|开(?!会)", re.IGNORECASE)
_OFF = re.compile(r"\b(?:off|disabled?|deactivated?)\b|关闭|关掉|关上|停用|禁用|关", re.IGNORECASE)
_NOT = re.compile(r"(?:\b(?:not|no|non|without|except|don't|never)\b[\w\s-]{0,12}|不要?|没有?|别)$", re.IGNORECASE)
_WHETHER = re.compile(r"^(?:是否|只看?|仅|要不要|有没有)|的?$")


def flags(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    for place in profile.places:
        if place.kind == "flag" and place.name not in values and (value := _said(sheet, place)) is not None:
            values[place.name] = value


def _said(sheet: Sheet, place: Place) -> bool | None:
    text = sheet.clause.text
    if _SWITCHES & set(place.name.casefold().split("_")):
        off, on = _OFF.search(text) is not None, _ON.search(text) is not None
        return on if on != off else None
    found = (pattern := _pattern(place)) and pattern.search(text)
    if not found or not sheet.free(*found.span()):
        return None
    negated = _NOT.search(text, 0, found.start())
    sheet.take(negated.start() if negated else found.start(), found.end())
    return negated is None


@lru_cache(maxsize=4096)
def _pattern(place: Place) -> re.Pattern[str] | None:
    """What says yes: the words of the place's name, or what is said of it in Chinese."""
    words = [word for word in place.name.casefold().split("_") if word not in _SAYS_NOTHING and len(word) > 2]
    spelt = "[ -]?".join(f"{re.escape(stem(word))}[a-z]{{0,3}}" for word in words)
    english = [rf"\b{spelt}\b"] if words else []
    said = _WHETHER.sub("", place.said)
    chinese = [re.escape(said)] if 1 < len(said) < 6 and not said.isascii() else []
    return re.compile("|".join(english + chinese), re.IGNORECASE) if english or chinese else None
