"""The words of a clause go into the places of a tool; what is left over is what is asked for."""

import re

from msgspec import Struct

from toolyard.models._offline.amounts import Priced, count_before, numbers, only_number, priced, which
from toolyard.models._offline.choices import Chosen, choose, composed, ends, finished
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.frames import bare, framed
from toolyard.models._offline.past import infinitive
from toolyard.models._offline.places import Place, Profile, filter_beside
from toolyard.models._offline.sheet import EDGE, Sheet
from toolyard.models._offline.things import POLITE_END, Item, counts, items_in, parts
from toolyard.models._offline.words import quoted

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

_WHERE = re.compile(
    r"[,，]?\s*(?:\b(?:at|in|@)\s+(?P<value>(?:the\s+|our\s+|my\s+)?[A-Za-z0-9][\w' .&-]*)$"
    r"|\b(?:location|place|venue)(?:\s+is|:)?\s+(?P<named>.+)$)"
    r"|[,，]?\s*地点(?:是|在|为|[:：])?\s*(?P<zh>[^，,。]+)"
    r"|在(?P<at>[\u3400-\u9fff]{0,6}?(?:馆|院|店|厅|园|校|室|场|站|楼|家|公司|银行|中心|广场|酒吧)里?)",
    re.IGNORECASE,
)

_PLACE = re.compile(
    r"(?!\W*(?:and|with|to|for|about|bring|please|don't|not|if|because|so|then|every)\b)"
    r"(?:\s*[,，]\s*(?P<aside>[A-Za-z][\w'&.-]*(?: [\w'&.-]+){0,4}|[\u3400-\u9fff]{2,12})"
    r"|\s+(?P<name>[A-Z][\w'&.-]*(?: [\w'&.-]+){0,4})"
    r"|\s+(?P<room>(?:[\w'-]+ ){0,2}(?:room|hall|office|cafe|café|restaurant|school|station|park|library|hospital|clinic|"
    r"gym|church|centre|center|bar|pub|hotel|theatre|theater|cinema|museum|stadium|studio|home|house)(?: \w+)?))"
)

_NAMING = re.compile(
    r"[,，]?\s*(?:(?:以|用)?(?:标题|题目|题|名称|名字|名|关键词|关键字)(?:为|是|写|用|叫做?|[:：])?|(?:用作|叫做?|称为))\s*$"
    r"|,?\s*\b(?:(?:and|with) )?(?:the |a )?(?:title|name|keyword)(?: (?:is|of)|:)?\s*$|\b(?:called|named|titled)\s*$",
    re.IGNORECASE,
)

_NAMED_AFTER = re.compile(r"\s*(?:这个|作为|当作|作|为|做)\s*(?P<what>关键词|关键字|标题|名称|名字)|\s+as (?:the |a )?(?P<as>keyword|title|name)\b")

_AND_TO = re.compile(r",?\s+and (?:also )?to\s+(?!(?:the|my|our|a|an)\b)(?=[a-z])")

_PRONOUNS = frozenset(
    {"it", "them", "those", "these", "that", "this", "one", "ones", "它", "它们", "这个", "那个", "这些", "那些"}
)

_SYNONYMS = {
    "description": r"description|describ|note|说明|描述|备注|用途",
    "title": r"title|called|named|name|标题|题为|名",
    "name": r"called|named|name|名",
    "location": r"location|place|\bat\b|地点|在",
    "keyword": r"keyword|containing|关键词|含有?|包含",
    "category": r"category|类别|分类|类",
}


class Filled(Struct, frozen=True, kw_only=True):
    """What a clause gives to a tool."""

    values: dict[str, object]
    items: tuple[Item, ...]
    """For the main place; empty if the clause names nothing, one that is a pronoun if it points elsewhere."""
    pronoun: bool = False
    quantity: float | None = None
    """How many of what the pronoun points to."""
    which: int | Priced | None = None
    """Which of those that are found is meant, where it is said."""
    everything: bool = False
    others: tuple[dict[str, object], ...] = ()
    """What is to be said instead for each of the other things that are named."""
    chosen: Chosen = ""
    """Whether a choice was named, and firmly: `as done`."""
    whole: str = ""
    """The noun phrase as it was said, with the words that the tool itself uses."""


def fill(clause: Clause, profile: Profile, producer: Profile | None = None) -> Filled:
    """`producer` is the tool that the main place's value comes from: bounds may be meant for it."""
    sheet, values = Sheet(clause), dict[str, object]()
    items = _quoted(sheet, profile, values)
    _times(sheet, profile, values)
    _explicit(sheet, profile, values, titled=bool(items))
    _bounds(sheet, profile, values)
    if producer:
        _bounds(sheet, producer, {})
    chosen = choose(sheet, profile, values)
    _numbers(sheet, profile, values)
    main = profile.main
    if main and main.name in values:
        items = [Item(str(values.pop(main.name)), quoted=True)]
    if items:
        _location(sheet, profile, values)
        composed(sheet, profile, values, sheet.tokens())
        _filter(sheet, profile, values)
        return Filled(values=values, items=tuple(items), chosen=chosen, whole=items[0].text)
    return _rest(sheet, profile, values, chosen)


def _filter(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """Beside a title that is given, what else is named narrows down what it is about."""
    place = filter_beside(profile)
    text = sheet.text_of(bare(framed(sheet, profile), profile, own=True)) if place else ""
    if place and text:
        values[place.name] = text


def _rest(sheet: Sheet, profile: Profile, values: dict[str, object], chosen: Chosen) -> Filled:
    """What is left when everything else has its place: what the main place is for."""
    main = profile.main
    ended = finished(sheet, profile, values)
    if ended:
        return Filled(values=values, items=(Item(ended),), chosen="guessed", whole=ended)
    _location(sheet, profile, values)
    several = _announced(sheet, profile)
    tokens = framed(sheet, profile)
    whole = sheet.text_of(bare(tokens, profile, own=None))
    titled = bool(main and main.role == "title")
    rest = bare(tokens, profile, own=not titled or filter_beside(profile) is not None)
    others = composed(sheet, profile, values, rest)
    if others:
        return Filled(values=values, items=(), others=others, chosen=chosen)
    text = sheet.text_of(rest)
    if rest and all(token.has("fn:pronoun") for token in rest):
        return Filled(values=values, items=(), pronoun=True, chosen=chosen)
    if rest and any(token.has("fn:everything") for token in rest) and len(rest) == 1:
        return Filled(values=values, items=(), everything=True, chosen=chosen)
    if not text or all(token.has("fn:something") or token.has("fn:determiner") for token in rest):
        return Filled(values=values, items=(), chosen=chosen, whole=whole)
    split = main is not None and (not titled or several)
    texts = [sheet.text_of(part) for part in parts(rest, either=profile.reads)] if split else _AND_TO.split(text) if titled else [text]
    if chosen and (sheet.clause.tells or ends(profile)) and text.split()[0].endswith("ing"):
        first, _, more = text.partition(" ")
        texts = [f"{infinitive(first.casefold()) or first} {more}".strip()]
    pointed, how_many = (which(texts[0]), only_number(texts[0])) if len(texts) == 1 else (None, None)
    if pointed is not None or (counts(profile) and how_many is not None):
        return Filled(values=values, items=(), pronoun=True, which=pointed, quantity=how_many, chosen=chosen)
    items = tuple(
        items_in(texts, count=counts(profile), trim=split or filter_beside(profile) is not None or text.isascii())
    )
    if len(items) > 1:
        items = tuple(item for item in items if item.text.casefold() not in _PRONOUNS)
    if len(items) == 1 and items[0].text.casefold() in _PRONOUNS:
        return Filled(values=values, items=(), pronoun=True, quantity=items[0].quantity, chosen=chosen)
    if len(items) == 1 and (pointed := which(items[0].text)) is not None:
        return Filled(values=values, items=(), pronoun=True, which=pointed, quantity=items[0].quantity, chosen=chosen)
    ranked, kind = priced(items[0].text) if len(items) == 1 and main and (main.source or profile.reads) else (None, "")
    if ranked:
        items = (Item(kind, items[0].quantity),) if kind else ()
    return Filled(values=values, items=items, pronoun=bool(ranked and not kind), which=ranked, chosen=chosen, whole=whole)


def _announced(sheet: Sheet, profile: Profile) -> bool:
    """Whether several are announced, `two tasks: …`; the words that do so are crossed out."""
    tokens = sheet.clause.tokens
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        many = only_number(before.text) is not None or before.has("fn:determiner") or before.has("do:")
        if many and token.stem in profile.nouns and token.text.endswith("s") and after.text in ":：":
            sheet.take(before.start if not before.has("do:") else token.start, after.end)
            return True
    return False


def _quoted(sheet: Sheet, profile: Profile, values: dict[str, object]) -> list[Item]:
    """What stands in quotation marks goes where the words before it say, or to the main place."""
    items: list[Item] = []
    main = profile.main
    choices = {one.casefold() for place in profile.places if place.kind == "choice" for one in place.choices}
    for (start, end), value in quoted(sheet.clause.text):
        if value.casefold() in choices:
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
        elif main and (not items or not main.role or _joined(sheet.clause.text[:start], profile)):
            how_many = count_before(sheet.clause.text[:start]) if counts(profile) else None
            items.append(Item(value, how_many, quoted=True))
        elif remark := next((one for one in profile.places if one.role == "remark"), None):
            values[remark.name] = value
    return items


def _joined(before: str, profile: Profile) -> bool:
    """Whether a second title follows: there is nothing else that a quotation beside the first could be for."""
    texts = [place for place in profile.places if place.kind == "text" and place.role != "location"]
    return len(texts) == 1 and bool(re.search(r"(?:[,，、;；&]|\band|和|以及)\s*$", before))


def _place_named(before: str, profile: Profile) -> Place | None:
    """The place that the words just before a value name."""
    for place in profile.places:
        pattern = _SYNONYMS.get(place.name, re.escape(place.name.replace("_", " ")))
        if re.search(rf"(?:{pattern})\S*{_NAMED}?$|(?:{pattern})(?:为|是|叫|：|:)?\s*$", before, re.IGNORECASE):
            return place
    return None


def _explicit(sheet: Sheet, profile: Profile, values: dict[str, object], *, titled: bool) -> None:
    """`called …`, `description: …`: values whose place is named."""
    for place in profile.places:
        if place.role == "remark" and place.kind == "text" and place.name not in values:
            _taken(sheet, _REMARK, place, values)
    main = profile.main
    if main and main.role == "title" and main.name not in values and not titled:
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
    places = [place for place in profile.places if place.kind in ("day", "moment", "month")]
    if not places and sheet.clause.tells:
        for said in times.said:
            sheet.take(said.start, said.end)
    if not places or not times.said:
        return
    for place in places:
        if place.kind == "month":
            value = times.month
        elif place.kind == "day":
            value = times.day.isoformat() if times.day else ""
        else:
            moment = times.ending() if place.role == "ending" else times.moment()
            value = moment.isoformat(timespec="minutes") if moment else ""
        if value and place.name not in values:
            values[place.name] = value
    for said in times.said:
        if not said.month or any(place.kind == "month" for place in places):
            sheet.take(said.start, said.end)


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
    """Numbers that are neither amounts of a thing nor bounds go to the places for numbers, in order."""
    places = [one for one in profile.places if one.kind == "number" and one.required and one.name not in values]
    if profile.main and any(place.role == "quantity" for place in places):
        return
    found = [one for one in numbers(sheet.clause.text) if sheet.free(one[0], one[1])]
    for place, (start, end, value) in zip(places, found, strict=False):
        values[place.name] = as_number(value, place)
        sheet.take(start, end)


def limits(clause: Clause, profile: Profile) -> dict[str, object]:
    """The bounds that a clause sets, for the places that a tool has for them."""
    values = dict[str, object]()
    _bounds(Sheet(clause), profile, values)
    return values


def as_number(value: float, place: Place) -> float:
    return int(value) if place.whole or value == int(value) else value


def _location(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    place = next((one for one in profile.places if one.role == "location"), None)
    if place is None or place.name in values:
        return
    text = "".join(
        character if sheet.free(at, at + 1) else " " for at, character in enumerate(sheet.clause.text)
    ).rstrip(EDGE)
    found = _WHERE.search(text)
    if not found:
        _after_the_time(sheet, place, values)
        return
    group = next(name for name in ("value", "named", "zh", "at") if found[name])
    start, end = found.span(group)
    inside = [token for token in sheet.clause.tokens if start <= token.start < end]
    if any(token.means & profile.things or token.has("of:calendar") for token in inside):
        return
    values[place.name] = found[group].strip(EDGE)
    sheet.take(found.start(), end)


def _after_the_time(sheet: Sheet, place: Place, values: dict[str, object]) -> None:
    """`lunch with Anna, Friday 12:30, Cafe Central`: what stands after title and time is where, if it looks like it."""
    said = sheet.clause.times.said
    end = said[-1].end if said and said[-1].clock else len(sheet.clause.text)
    before, tail = sheet.clause.text[: said[0].start] if said else "", sheet.clause.text[end:]
    where = _PLACE.fullmatch(POLITE_END.sub("", tail).rstrip(EDGE))
    if where and re.search(r"\w", before) and sheet.free(end, len(sheet.clause.text)):
        values[place.name] = where["aside"] or where["name"] or where["room"]
        sheet.take(end, len(sheet.clause.text))
