"""Texts that say which place they are for: `with the subject Lunch`, `saying …`, what follows a colon."""

import re
from functools import lru_cache

from toolyard.finding.words import stem
from toolyard.models._offline.literals import way_of
from toolyard.models._offline.places import Place
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.sheet import EDGE, Sheet
from toolyard.models._offline.words import is_chinese

BODIES = ("body", "text", "message", "content", "contents", "note", "comment", "description", "details", "reply")
_SAYING = re.compile(
    r"[,，]?\s*\b(?:saying|that says|which says|that reads|with (?:the )?(?:text|message|words|content)|"
    r"(?:and|to) (?:say|tell (?:him|her|them)))\b(?:\s+that\b)?\s*[:,]?\s*(?P<value>.+)$"
    r"|[,，]?\s*(?:内容|正文|附言|备注|留言)(?:是|为|写|[:：])?\s*(?P<zh>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_COLON = re.compile(r"(?<=[\w)\u3400-\u9fff])\s*(?::\s|：)\s*(?P<value>.+)$", re.DOTALL)
_TAIL = r"(?=\s+(?:on|for|at|by|in|with|from|to|and|tomorrow|today|tonight|next|this)\b|\s*[,.;?!]|\s*$)"
_FROM_TO = (
    re.compile(rf"(?P<a_>\bfrom\s+(?P<a>[A-Za-z\u3400-\u9fff][\w .'-]*?){_TAIL})", re.IGNORECASE),
    re.compile(rf"(?P<b_>\b(?:to|into)\s+(?P<b>[A-Za-z\u3400-\u9fff][\w .'-]*?){_TAIL})", re.IGNORECASE),
    re.compile(r"(?P<a_>(?<![\u3400-\u9fff])(?P<a>[\u3400-\u9fff]{2,4}))(?=[到去飞至][\u3400-\u9fff]{2})"),
    re.compile(r"(?P<a_>从(?P<a>[\u3400-\u9fff]{2,8}?)(?=[到去往飞坐寄发至出的\d，]))"),
    re.compile(r"(?P<b_>(?<![做买])(?:到|去|往|飞|至)(?P<b>[\u3400-\u9fff]{2,8}?)(?=[的有，,。？?\d\s]|多少|要|$))"),
)
_RENAMED = re.compile(
    r"\s+(?:to|as|into)\s+(?P<value>[^,;]+)$|(?:改名为?|重命名为|改成|改为)(?P<zh>[^，,。]+)$", re.IGNORECASE
)
_RENAMES = re.compile(r"\b(?:rename|retitle|call)\b|改名|重命名|标题|名称|名字", re.IGNORECASE)
MOST_LABEL = 8
_END = r"(?=\s*(?:[,;，；。]|\b(?:and|with|saying|that says)\b|$))"


def labelled(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    texts = profile.texts
    bodies = sorted(
        (place for place in texts if place.name in BODIES), key=lambda place: (not place.required, place.name)
    )
    if bodies and len(profile.places) > 1 and bodies[0] is not profile.main:
        _take(sheet, _SAYING, bodies[0], values)
    folded = sheet.clause.text.casefold()
    for place in texts:
        if (place is not profile.main or len(texts) > 1) and not _own(place, profile):
            name, said = place.name.casefold().replace("_", " "), place.said
            if name in folded:
                _take(sheet, _label(name), place, values)
            elif 1 < len(said) < MOST_LABEL and is_chinese(said) and said in folded:
                _take(sheet, _chinese_label(said), place, values)
    title = next((place for place in texts if place.role == "title" and place is not profile.main), None)
    if title and _RENAMES.search(sheet.clause.text):
        _take(sheet, _RENAMED, title, values)
    required = [place for place in texts if place.required]
    after = next((one for one in required if one is not profile.main or (one in bodies and len(texts) == 1)), None)
    if after:
        _take(sheet, _COLON, after, values)


def between(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """From where to where: `from Oslo to Rome`, `从杭州到苏州`."""
    ends = [next((place for place in profile.texts if way_of(place.name) == way), None) for way in ("from", "to")]
    if not any(ends):
        return
    text = sheet.without()
    for found in (pattern.search(text) for pattern in _FROM_TO):
        for place, group in zip(ends, ("a", "b"), strict=True):
            given = found and found.groupdict().get(group)
            if found and given and place and place.name not in values and sheet.free(*found.span(group)):
                values[place.name] = found[group].strip(EDGE)
                sheet.take(*found.span(f"{group}_"))


def _take(sheet: Sheet, pattern: re.Pattern[str], place: Place, values: dict[str, object]) -> None:
    found = pattern.search(sheet.clause.text)
    if not found or place.name in values or not sheet.free(*found.span()):
        return
    value = next(filter(None, found.groups())).strip(" ,，;；")
    if value:
        values[place.name] = value
        sheet.take(*found.span())


def _own(place: Place, profile: Profile) -> bool:
    """Whether a place is called what the tool is about: then its name says nothing of where a value goes."""
    return bool({stem(word) for word in place.name.casefold().split("_")} & profile.nouns)


@lru_cache(maxsize=1024)
def _label(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"[,;]?\s*(?:\b(?:and|with)\s+)?(?:\b(?:the|a|an|its|his|her|their)\s+)?\b{re.escape(name)}\b"
        rf"(?:\s*[:=]|\s+(?:is|of|to be))?\s+(?P<value>[^,;，；:]+?){_END}",
        re.IGNORECASE,
    )


@lru_cache(maxsize=1024)
def _chinese_label(said: str) -> re.Pattern[str]:
    return re.compile(rf"[，,]?\s*{re.escape(said)}(?:是|为|叫|[:：])?\s*(?P<value>[^，,。；;]+)")
