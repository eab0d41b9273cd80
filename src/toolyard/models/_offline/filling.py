"""The words of a clause go into the places of a tool; what is left over is what is asked for."""

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from toolyard.models._offline.amounts import count_before, numbers
from toolyard.models._offline.by_example import shown
from toolyard.models._offline.choices import choose, composed
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.exact import as_path, as_written, codes
from toolyard.models._offline.flags import flags
from toolyard.models._offline.frames import bare, framed
from toolyard.models._offline.labels import BODIES, between, labelled
from toolyard.models._offline.measures import measured, of_another
from toolyard.models._offline.places import Place, as_number
from toolyard.models._offline.profiles import Profile, filter_beside
from toolyard.models._offline.rest import Filled, location, rest
from toolyard.models._offline.sheet import EDGE, Sheet
from toolyard.models._offline.things import POLITE_END, Item, counts
from toolyard.models._offline.times import Said, Times
from toolyard.models._offline.words import Span, quoted

_NAMED = r"(?:\s*(?:is|=|:|：|为|是|叫做?|as|of|to)\s*|\s+)"

_CALLED = re.compile(
    r"\b(?:called|named|titled|entitled|with (?:the )?(?:title|name)|by the name of)(?:\s+of)?\s+"
    r"(?P<value>.+?)(?=\s+(?:with|and|containing)\s+(?:the\s+)?keyword|\s+(?:for|on|about|with|only)\s+[\u3400-\u9fff]|$)"
    r"|\b(?:title|name)\s*:\s*(?P<label>[^,;]+)|(?:标题|名称|名字)\s*[:：]\s*(?P<colon>[^，,。；;]+)"
    r"|(?:名为|名叫|叫做|叫|称为|名称是|名称为|名字是|名字叫|标题为|标题是|题为)\s*(?P<zh>[^，,。的]+)",
    re.IGNORECASE,
)

_AFTER_COLON = re.compile(r"\s*[:：]\s*(?P<value>[^:：]+)$")

_REMARK = re.compile(
    r"[,，;；]?\s*(?:(?:and|with)\s+)?(?:(?:the\s+|a\s+)?(?:description|note|comment|details?)\b"
    r"(?:\s*(?:is|of|that says|saying)|:)?|which|(?:it is )?used? (?:for|to)\b)\s+(?P<value>.+)"
    r"|[,，;；]?\s*(?:描述|说明|备注|用途|内容)(?:为|是|[:：])?\s*(?P<zh>.+)|[,，;；]\s*(?P<use>(?:用于|用来).+)"
    r"|(?<=[\"”])\s*(?:that|for)\s+(?P<after>[a-z]+s\s.+)",
    re.IGNORECASE,
)

_NAMING = re.compile(
    r"[,，]?\s*(?:(?:以|用)?(?:标题|题目|题|名称|名字|名|关键词|关键字)(?:为|是|写|用|叫做?|[:：])?|(?:用作|叫做?|称为))\s*$"
    r"|,?\s*\b(?:(?:and|with) )?(?:the |a )?(?:title|name|keyword)(?: (?:is|of)|:)?\s*$|\b(?:called|named|titled)\s*$",
    re.IGNORECASE,
)

_NAMED_AFTER = re.compile(
    r"\s*(?:这个|作为|当作|作|为|做)\s*(?P<what>关键词|关键字|标题|名称|名字)"
    r"|\s+as (?:the |a )?(?P<as>keyword|title|name)\b"
)


_SYNONYMS = {
    "description": r"description|describ|note|说明|描述|备注|用途",
    "title": r"title|called|named|name|标题|题为|名",
    "name": r"called|named|name|名",
    "location": r"location|place|\bat\b|地点|在",
    "keyword": r"keyword|containing|关键词|含有?|包含",
    "category": r"category|类别|分类|类",
}


def fill(clause: Clause, profile: Profile, producer: Profile | None = None, examples: Sequence[str] = ()) -> Filled:
    """`producer` is the tool that the main place's value comes from: bounds may be meant for it.

    `examples` are the tool's own, as `frame` leaves them.
    """
    sheet = Sheet(clause)
    filled = _filled(sheet, profile, producer)
    like = shown(sheet, examples) if profile.main and examples else None
    if like and like.text != "".join(item.text for item in filled.items):
        filled = replace(filled, items=(Item(like.text),), pronoun=False, whole=like.text)
    filled = replace(filled, exemplary=like is not None)
    others = (*filled.others, *sheet.others)
    return replace(filled, values=_typed(filled.values, profile), others=tuple(_typed(one, profile) for one in others))


def _typed(values: dict[str, object], profile: Profile) -> dict[str, object]:
    """As the schema has them: choices that are no texts, and a list where one is wanted."""
    for place in profile.places:
        if place.name in values and place is not profile.main:
            value = values[place.name]
            known = place.typed.get(str(value), value) if place.typed else value
            values[place.name] = [known] if place.many and not isinstance(known, list) else known
    return values


def frame(clause: Clause, profile: Profile, producer: Profile | None) -> str:
    """An example with gaps where its values were, but for the thing itself."""
    sheet = Sheet(clause)
    _filled(sheet, profile, producer)
    return sheet.with_gaps()


def _filled(sheet: Sheet, profile: Profile, producer: Profile | None) -> Filled:
    values = dict[str, object]()
    as_written(sheet, profile, values)
    items = _quoted(sheet, profile, values)
    codes(sheet, profile, values)
    labelled(sheet, profile, values)
    _times(sheet, profile, values)
    _explicit(sheet, profile, values, titled=bool(items))
    _bounds(sheet, profile, values)
    if producer:
        _bounds(sheet, producer, {})
    chosen = choose(sheet, profile, values)
    flags(sheet, profile, values)
    measured(sheet, profile, values)
    between(sheet, profile, values)
    _numbers(sheet, profile, values)
    main = profile.main
    if main and main.name in values and not main.source:
        items = [Item(str(values.pop(main.name)), quoted=True)]
    if items:
        location(sheet, profile, values)
        composed(sheet, profile, values, sheet.tokens())
        _filter(sheet, profile, values)
        return Filled(values=values, items=tuple(items), chosen=chosen, whole=items[0].text)
    return as_path(rest(sheet, profile, values, chosen), profile)


def _filter(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """Beside a title that is given, what else is named narrows down what it is about."""
    place = filter_beside(profile)
    text = sheet.text_of(bare(framed(sheet, profile), profile, own=True)) if place else ""
    if place and text:
        values[place.name] = text


def _quoted(sheet: Sheet, profile: Profile, values: dict[str, object]) -> list[Item]:
    """What stands in quotation marks goes where the words before it say, or to the main place."""
    items: list[Item] = []
    main = profile.main
    choices = {one.casefold() for place in profile.places if place.kind == "choice" for one in place.choices}
    for (start, end), value in quoted(sheet.clause.text):
        if value.casefold() in choices or not sheet.free(start, end):
            continue
        before = sheet.clause.text[max(0, start - 24) : start]
        named = _NAMING.search(before)
        sheet.take(start - len(named.group()) if named else start, end)
        after = _NAMED_AFTER.match(sheet.clause.text, end)
        if after:
            sheet.take(end, after.end())
        place = _place_named((after["what"] or after["as"]) if after else before, profile)
        if place and place is not main and place.kind == "text":
            values[place.name] = value
        elif main and (text := _text_for(profile, values)):
            values[text.name] = value
        elif main and (not items or not main.role or _joined(sheet.clause.text[:start], profile)):
            how_many = count_before(sheet.clause.text[:start]) if counts(profile) else None
            items.append(Item(value, how_many, quoted=True))
        elif remark := next((one for one in profile.places if one.role == "remark"), None):
            values[remark.name] = value
    return items


def _text_for(profile: Profile, values: dict[str, object]) -> Place | None:
    """Where a text goes that is not what another tool must find: `post "lunch!" in #general`."""
    main = profile.main
    others = (one for one in profile.texts if one.required and one is not main and one.name not in values)
    return next((place for place in others if (main and main.source) or place.name in BODIES), None)


def _joined(before: str, profile: Profile) -> bool:
    """Whether a second title follows: there is nothing else that a quotation beside the first could be for."""
    texts = [place for place in profile.places if place.kind == "text" and place.role != "location"]
    return len(texts) == 1 and bool(re.search(r"(?:[,，、;；&]|\band|和|以及)\s*$", before))


def _place_named(before: str, profile: Profile) -> Place | None:
    """The place that the words just before a value name."""
    return next((place for place in profile.places if _naming(place.name).search(before)), None)


@lru_cache(maxsize=4096)
def _naming(name: str) -> re.Pattern[str]:
    """The words that name a place, at the end of a text."""
    words = _SYNONYMS.get(name, re.escape(name.replace("_", " ")))
    return re.compile(rf"(?:{words})\S*{_NAMED}?$|(?:{words})(?:为|是|叫|：|:)?\s*$", re.IGNORECASE)


def _explicit(sheet: Sheet, profile: Profile, values: dict[str, object], *, titled: bool) -> None:
    """`called …`, `description: …`: values whose place is named."""
    for place in profile.places:
        if place.role == "remark" and place.kind == "text" and place.name not in values:
            _taken(sheet, _REMARK, place, values)
    main = profile.main
    if main and profile.titled and main.name not in values and not titled:
        _taken(sheet, _CALLED, main, values)
        if main.name not in values and filter_beside(profile) and _own_before(sheet, profile):
            _taken(sheet, _AFTER_COLON, main, values)


def _own_before(sheet: Sheet, profile: Profile) -> bool:
    """Whether what stands before a colon is the tool's own word: `生成报表：…`."""
    found = _AFTER_COLON.search(sheet.clause.text)
    before = [token for token in sheet.clause.tokens if found and token.end <= found.start()]
    return bool(before) and bool(before[-1].means & profile.things)


def _taken(sheet: Sheet, pattern: re.Pattern[str], place: Place, values: dict[str, object]) -> None:
    found = pattern.search(sheet.clause.text)
    if not found:
        return
    group = next((name for name, value in found.groupdict().items() if value), "")
    start, end = found.span(group)
    end = min([end, *(taken for taken, _ in sheet.taken if taken > start)])
    value = POLITE_END.sub("", sheet.clause.text[start:end]).strip(EDGE)
    if value and sheet.free(start, end):
        values[place.name] = value
        sheet.take(found.start(), end)


def _times(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    times = sheet.clause.times
    places = [place for place in profile.places if place.kind in ("day", "moment", "month", "clock")]
    if not places and sheet.clause.tells:
        for said in times.said:
            sheet.take(said.start, said.end)
    if not places or not times.said:
        return
    for place in places:
        alone = sum(one.kind == "day" for one in places) == 1
        value = _time_for(place, times, alone=alone, whole_day=profile.reads)
        if value and place.name not in values:
            values[place.name] = value
    for said in times.said:
        if not said.month or any(place.kind == "month" for place in places):
            for start, end in _without_choices(said, sheet.clause.text, profile):
                sheet.take(start, end)


def _without_choices(said: Said, text: str, profile: Profile) -> list[Span]:
    """What is said about time, but for a part of the day that a place takes as a choice: `上午`, `evening`."""
    choices = [one for place in profile.places if place.kind == "choice" for one in place.choices]
    for choice in choices if said.part and not said.clock else ():
        at = text.casefold().find(choice.casefold(), said.start, said.end)
        if at >= 0:
            return [span for span in ((said.start, at), (at + len(choice), said.end)) if span[0] < span[1]]
    return [(said.start, said.end)]


def _time_for(place: Place, times: Times, *, alone: bool, whole_day: bool) -> str:
    """`alone` if no other place takes a day: then even the end is the day that is said."""
    if place.kind == "month":
        return times.month
    if place.kind == "day":
        days = [said.day for said in times.said if said.day]
        day = days[-1] if days and place.role == "ending" and (len(days) > 1 or alone) else next(iter(days), None)
        return day.isoformat() if day and (place.role != "ending" or len(days) > 1 or alone) else ""
    moment = times.ending() if place.role == "ending" else times.moment()
    if moment is None and whole_day and times.day and times.moment() is None and place.kind == "moment":
        return f"{times.day}T23:59" if place.role in ("ending", "upper") else f"{times.day}T00:00"
    if moment is None:
        return ""
    return f"{moment:%H:%M}" if place.kind == "clock" else moment.isoformat(timespec="minutes")


def timed(clause: Clause, profile: Profile) -> tuple[str, dict[str, object]]:
    """What a clause says about time for a tool's places, and the rest of it."""
    sheet, values = Sheet(clause), dict[str, object]()
    _times(sheet, profile, values)
    return sheet.text_of(sheet.tokens()), values


def _bounds(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    for bound in sheet.clause.bounds:
        wanted = "upper" if bound.upper else "lower"
        place = next((one for one in profile.places if one.role == wanted and one.name not in values), None)
        if place and sheet.free(bound.start, bound.end):
            values[place.name] = as_number(bound.value, place)
            sheet.take(bound.start, bound.end)


def _numbers(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """A number that is neither an amount of a thing nor a bound goes to the place for one, if there is one of each."""
    places = [one for one in profile.places if one.kind == "number" and one.required and one.name not in values]
    if profile.main and profile.main.required and any(place.role == "quantity" for place in places):
        return
    exact = [(one.start, one.end) for one in sheet.clause.literals]
    found = [
        one
        for one in numbers(sheet.clause.text)
        if sheet.free(one[0], one[1]) and not any(start <= one[0] < end for start, end in exact)
    ]
    if len(places) != 1 or len(found) != 1:
        return
    (place,), ((start, end, value),) = places, found
    if not of_another(sheet.clause.text, end, place) and not (place.whole and value != int(value)):
        values[place.name] = as_number(value, place)
        sheet.take(start, end)


def limits(clause: Clause, profile: Profile) -> dict[str, object]:
    """The bounds that a clause sets, for the places that a tool has for them."""
    values = dict[str, object]()
    _bounds(Sheet(clause), profile, values)
    return values
