"""The words of a clause go into the places of a tool; what is left over is what is asked for."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from toolyard.models._offline.amounts import counted
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.lexicon import RELATED
from toolyard.models._offline.past import done, infinitive
from toolyard.models._offline.places import Place, Profile, fits
from toolyard.models._offline.words import Span, Token, is_chinese, quoted, tokens_of, value_pattern

_EDGE = " \t,，.。:：;；!！?？、-–—*"
_NAMED = r"(?:\s*(?:is|=|:|：|为|是|叫做?|as|of|to)\s*|\s+)"
_CALLED = re.compile(
    r"\b(?:called|named|titled|entitled|with the (?:title|name)|by the name of)(?:\s+of)?\s+(?P<value>.+)"
    r"|(?:名为|名叫|叫做|叫|称为|名称是|名称为|名字是|名字叫|标题为|标题是|题为)\s*(?P<zh>[^，,。的]+)",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r"[,，;；]?\s*(?:(?:and|with)\s+)?(?:(?:the\s+|a\s+)?(?:description|note|comment|details?)\b(?:\s*(?:is|of|that says|saying)|:)?|which|(?:it is )?used? (?:for|to)\b)\s+(?P<value>.+)"
    r"|[,，;；]?\s*(?:描述|说明|备注|用途|内容)(?:为|是|[:：])?\s*(?P<zh>.+)|[,，;；]\s*(?P<use>(?:用于|用来).+)",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"[,，]?\s*(?:\b(?:at|in|@)\s+(?P<value>(?:the\s+|our\s+|my\s+)?[A-Za-z0-9][\w' .&-]*)$|\b(?:location|place|venue)(?:\s+is|:)?\s+(?P<named>.+)$)"
    r"|[,，]?\s*地点(?:是|在|为|[:：])?\s*(?P<zh>[^，,。]+)|在(?P<at>[\u3400-\u9fff]{1,6}?(?:馆|院|店|厅|园|校|室|场|站|楼|家|公司|银行|中心|广场|酒吧)里?)",
    re.IGNORECASE,
)
_PRONOUNS = frozenset({"it", "them", "those", "these", "that", "this", "one", "ones", "它", "它们", "这个", "那个", "这些", "那些"})
_BEFORE_CHOICE = re.compile(r"(?:(?:[:：]|\b(?:back\s+)?(?:as|to|is|are|was|were|into)\b)\s*(?:the\s+|an?\s+|now\s+)?|(?:标记|设置?|改|标|更新|状态)?(?:为|成|到|是)\s*[“\"]?)$", re.IGNORECASE)
_POLITE_END = re.compile(r"[,，]?\s*(?:please|thanks|thank you|谢谢)\W*$", re.IGNORECASE)


Chosen = Literal["", "guessed", "named", "firmly"]


class Item(Struct, frozen=True):
    """One of the things that are asked for, and how many of it."""

    text: str
    quantity: float | None = None
    quoted: bool = False


class Filled(Struct, frozen=True, kw_only=True):
    """What a clause gives to a tool."""

    values: dict[str, object]
    items: tuple[Item, ...]
    """For the main place; empty if the clause names nothing, one that is a pronoun if it points elsewhere."""
    pronoun: bool = False
    quantity: float | None = None
    """How many of what the pronoun points to."""
    everything: bool = False
    chosen: Chosen = ""
    """Whether a choice was named, and firmly: `as done`."""
    whole: str = ""
    """The noun phrase as it was said, with the words that the tool itself uses."""


class Sheet:
    """A clause on which words are crossed out as they find their places."""

    def __init__(self, clause: Clause) -> None:
        self.clause = clause
        self.taken: list[Span] = []

    def take(self, start: int, end: int) -> None:
        self.taken.append((start, end))

    def free(self, start: int, end: int) -> bool:
        return not any(start < other_end and other_start < end for other_start, other_end in self.taken)

    def tokens(self) -> list[Token]:
        return [part for token in self.clause.tokens for part in self._free_part(token)]

    def _free_part(self, token: Token) -> list[Token]:
        """The token if it is free; of one in Chinese that is partly crossed out, the rest."""
        if self.free(token.start, token.end):
            return [token]
        left = [at for at in range(token.start, token.end) if self.free(at, at + 1)]
        if not left or token.means or not is_chinese(token.text):
            return []
        text = self.clause.text[left[0] : left[-1] + 1]
        return [Token(text, left[0], left[-1] + 1)] if len(text) == len(left) else []

    def text_of(self, tokens: Sequence[Token]) -> str:
        """The words from the first to the last of these, without what is crossed out between them."""
        pieces: list[str] = []
        before: Token | None = None
        for token in tokens:
            gap = "" if before is None else self.clause.text[before.end : token.start]
            if before is not None and not self.free(before.end, token.start):
                gap = "" if is_chinese(before.text) and is_chinese(token.text) else " "
            pieces += [gap, token.text]
            before = token
        return "".join(pieces).strip(_EDGE)


def fill(clause: Clause, profile: Profile, producer: Profile | None = None) -> Filled:
    """`producer` is the tool that the main place's value comes from: bounds may be meant for it."""
    sheet, values = Sheet(clause), dict[str, object]()
    items = _quoted(sheet, profile, values)
    _times(sheet, profile, values)
    _explicit(sheet, profile, values)
    _bounds(sheet, profile, values)
    if producer:
        _bounds(sheet, producer, {})
    chosen = _choices(sheet, profile, values)
    main = profile.main
    if main and main.name in values:
        items = [Item(str(values.pop(main.name)), quoted=True)]
    if items:
        _location(sheet, profile, values)
        _composed(sheet, profile, values, sheet.tokens())
        _filter(sheet, profile, values)
        return Filled(values=values, items=tuple(items), chosen=chosen, whole=items[0].text)
    return _rest(sheet, profile, values, chosen)


def _filter(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """Beside a title that is given, what else is named narrows down what it is about."""
    place = filter_beside(profile)
    text = sheet.text_of(_bare(_framed(sheet, profile), profile, own=True)) if place else ""
    if place and text:
        values[place.name] = text


def _rest(sheet: Sheet, profile: Profile, values: dict[str, object], chosen: Chosen) -> Filled:
    """What is left when everything else has its place: what the main place is for."""
    main = profile.main
    finished = _finished(sheet, profile, values)
    if finished:
        return Filled(values=values, items=(Item(finished),), chosen="guessed", whole=finished)
    _location(sheet, profile, values)
    tokens = _framed(sheet, profile)
    whole = sheet.text_of(_bare(tokens, profile, own=None))
    titled = bool(main and main.role == "title")
    rest = _bare(tokens, profile, own=not titled or filter_beside(profile) is not None)
    _composed(sheet, profile, values, rest)
    text = sheet.text_of(rest)
    if rest and all(token.has("fn:pronoun") for token in rest):
        return Filled(values=values, items=(), pronoun=True, chosen=chosen)
    if rest and any(token.has("fn:everything") for token in rest) and len(rest) == 1:
        return Filled(values=values, items=(), everything=True, chosen=chosen)
    if not text or all(token.has("fn:something") or token.has("fn:determiner") for token in rest):
        return Filled(values=values, items=(), chosen=chosen, whole=whole)
    split = main is not None and not titled
    texts = [sheet.text_of(part) for part in _parts(rest)] if split else [text]
    if chosen and sheet.clause.tells and text.split()[0].endswith("ing"):
        first, _, more = text.partition(" ")
        texts = [f"{infinitive(first.casefold()) or first} {more}".strip()]
    items = tuple(_items(texts, count=_counts(profile), trim=split or filter_beside(profile) is not None or text.isascii()))
    if len(items) == 1 and items[0].text.casefold() in _PRONOUNS:
        return Filled(values=values, items=(), pronoun=True, quantity=items[0].quantity, chosen=chosen)
    return Filled(values=values, items=items, chosen=chosen, whole=whole)


def filter_beside(profile: Profile) -> Place | None:
    """A second, optional place for a thing, beside a required title: `keyword` of a report."""
    main = profile.main
    others = (place for place in profile.places if place.kind == "text" and place is not main)
    return next((place for place in others if not place.required and not place.role), None)


def _counts(profile: Profile) -> bool:
    return any(place.kind == "number" and place.role == "quantity" for place in profile.places)


def _parts(tokens: Sequence[Token]) -> list[list[Token]]:
    """`milk, bread and two eggs` as three."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.has("fn:and") or token.text in ",，、&+":
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _items(texts: Sequence[str], *, count: bool, trim: bool = True) -> Iterable[Item]:
    for part in texts:
        how_many, what = counted(part.strip(_EDGE))
        what = what if how_many is not None or count else part
        what = _trimmed(what) if trim else what.strip(_EDGE)
        if what:
            yield Item(what, how_many if count else None) if count else Item(what)


def _trimmed(text: str) -> str:
    """Without the articles and the like at its edges; `油脂类` is `油脂`."""
    text = text.strip(_EDGE)
    text = text[:-1] if is_chinese(text) and text.endswith("类") and len(text) > 1 else text
    tokens = tokens_of(text)
    while tokens and (tokens[0].has("fn:determiner") or tokens[0].has("fn:polite")) and len(tokens) > 1:
        tokens = tokens[1:]
    return text[tokens[0].start :] if tokens else text


def _quoted(sheet: Sheet, profile: Profile, values: dict[str, object]) -> list[Item]:
    """What stands in quotation marks goes where the words before it say, or to the main place."""
    items: list[Item] = []
    main = profile.main
    for (start, end), value in quoted(sheet.clause.text):
        sheet.take(start, end)
        before = sheet.clause.text[max(0, start - 24) : start]
        place = _place_named(before, profile)
        if place and place is not main and place.kind == "text":
            values[place.name] = value
        elif main and (not items or not main.role):
            items.append(Item(value, quoted=True))
        elif remark := next((one for one in profile.places if one.role == "remark"), None):
            values[remark.name] = value
    return items


_SYNONYMS = {
    "description": r"description|describ|note|说明|描述|备注|用途",
    "title": r"title|called|named|name|标题|题为|名",
    "name": r"called|named|name|名",
    "location": r"location|place|\bat\b|地点|在",
    "keyword": r"keyword|containing|关键词|含有?|包含",
    "category": r"category|类别|分类|类",
}


def _place_named(before: str, profile: Profile) -> Place | None:
    """The place that the words just before a value name."""
    for place in profile.places:
        pattern = _SYNONYMS.get(place.name, re.escape(place.name.replace("_", " ")))
        if re.search(rf"(?:{pattern})\S*{_NAMED}?$|(?:{pattern})(?:为|是|叫|：|:)?\s*$", before, re.IGNORECASE):
            return place
    return None


def _explicit(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    """`called …`, `description: …`: values whose place is named."""
    for place in profile.places:
        if place.role == "remark" and place.kind == "text" and place.name not in values:
            _taken(sheet, _REMARK, place, values)
    main = profile.main
    if main and main.role == "title" and main.name not in values and not quoted(sheet.clause.text):
        _taken(sheet, _CALLED, main, values)


def _taken(sheet: Sheet, pattern: re.Pattern[str], place: Place, values: dict[str, object]) -> None:
    found = pattern.search(sheet.clause.text)
    if not found:
        return
    group = next((name for name, value in found.groupdict().items() if value), "")
    start, end = found.span(group)
    end = min([end, *(taken for taken, _ in sheet.taken if taken > start)])
    value = _POLITE_END.sub("", sheet.clause.text[start:end]).strip(_EDGE)
    if value and sheet.free(start, end):
        values[place.name] = value
        sheet.take(found.start(), end)


def _times(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    times = sheet.clause.times
    places = [place for place in profile.places if place.kind in ("day", "moment", "month")]
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


def _bounds(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    for bound in sheet.clause.bounds:
        wanted = "upper" if bound.upper else "lower"
        place = next((one for one in profile.places if one.role == wanted and one.name not in values), None)
        if place and sheet.free(bound.start, bound.end):
            values[place.name] = as_number(bound.value, place)
            sheet.take(bound.start, bound.end)


def limits(clause: Clause, profile: Profile) -> dict[str, object]:
    """The bounds that a clause sets, for the places that a tool has for them."""
    values = dict[str, object]()
    _bounds(Sheet(clause), profile, values)
    return values


def as_number(value: float, place: Place) -> float:
    return int(value) if place.whole or value == int(value) else value


def _choices(sheet: Sheet, profile: Profile, values: dict[str, object]) -> Chosen:
    """The longest phrases find their places first; a phrase says one thing only."""
    chosen: Chosen = ""
    used: list[Span] = []
    for _, place, choice, (start, end) in sorted(_named_choices(sheet, profile), key=lambda one: -one[0]):
        if place.name in values or any(start < other_end and other < end for other, other_end in used):
            continue
        values[place.name] = choice
        used.append((start, end))
        before = _BEFORE_CHOICE.search(sheet.clause.text, 0, start)
        chosen = "firmly" if before or chosen == "firmly" or len(used) > 1 else "named"
        if place.kind == "choice" or _is_action(sheet, start):
            sheet.take(before.start() if before else start, end)
    return chosen


def _named_choices(sheet: Sheet, profile: Profile) -> Iterator[tuple[int, Place, str, Span]]:
    """The choices that the clause names by themselves or by words that mean the same."""
    for place in profile.places:
        if place.kind not in ("choice", "word") or place.source or any("." in choice for choice in place.choices):
            continue
        for choice in place.choices:
            for one in value_pattern(choice).finditer(sheet.clause.text):
                if sheet.free(*one.span()):
                    yield one.end() - one.start(), place, choice, one.span()


def _is_action(sheet: Sheet, start: int) -> bool:
    return any(token.start == start and token.has("do:") for token in sheet.clause.tokens)


def _finished(sheet: Sheet, profile: Profile, values: dict[str, object]) -> str:
    """`I have called the plumber` says that `call the plumber` is done, where a status can say so."""
    place = next((one for one in profile.places if one.kind == "choice" and one.required), None)
    if place is None or place.name in values or sheet.clause.asks:
        return ""
    value = next((choice for choice in place.choices if choice.casefold() in ("done", "completed", "finished")), "")
    what = done(sheet.clause.text) if value else ""
    if what:
        values[place.name] = value
    return what


def _location(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    place = next((one for one in profile.places if one.role == "location"), None)
    if place is None or place.name in values:
        return
    text = "".join(
        character if sheet.free(at, at + 1) else " " for at, character in enumerate(sheet.clause.text)
    ).rstrip(_EDGE)
    found = _WHERE.search(text)
    if not found:
        return
    group = next(name for name in ("value", "named", "zh", "at") if found[name])
    start, end = found.span(group)
    inside = [token for token in sheet.clause.tokens if start <= token.start < end]
    if any(token.means & profile.things or token.has("of:calendar") for token in inside):
        return
    values[place.name] = found[group].strip(_EDGE)
    sheet.take(found.start(), end)


def _is_own(token: Token, profile: Profile) -> bool:
    """Whether it is a word for what the tool is about rather than for what is wanted of it."""
    known = token.means & (profile.things | profile.place_words) or token.stem in profile.nouns | profile.place_words
    return bool(known) or _container(token, profile)


def _container(token: Token, profile: Profile) -> bool:
    """A list, a calendar: what holds the things that a tool adds."""
    return bool(token.means & {"of:list", "of:calendar", "of:page"}) and not (profile.reads and "of:list" in token.means)


def _framed(sheet: Sheet, profile: Profile) -> list[Token]:
    """The free tokens without the verb that governs them and without the phrases that name the tool's own thing."""
    tokens = [token for token in sheet.tokens() if not re.fullmatch(r"[?？!！.。…]", token.text)]
    kept: list[Token] = []
    at, acted = 0, False
    while at < len(tokens):
        token = tokens[at]
        length = _phrase_length(tokens, at, profile)
        if length:
            at += length
            continue
        if not acted and token.has("do:") and not (token.has("of:") and not _governs(token, profile)):
            acted = True
        else:
            kept.append(token)
        at += 1
    return kept


def _governs(token: Token, profile: Profile) -> bool:
    meant = {other for action in token.actions() for other in (action, *RELATED.get(action, ()))}
    return bool(meant & profile.actions.keys())


def _phrase_length(tokens: list[Token], at: int, profile: Profile) -> int:
    """How many tokens from here are `to my shopping cart`, `从购物车里`: a small word and the tool's own thing."""
    start = at
    if not tokens[at].has("fn:preposition"):
        return 0
    while at < len(tokens) and (tokens[at].has("fn:preposition") or tokens[at].has("fn:determiner")):
        at += 1
    things = at
    while at < len(tokens) and (_is_own(tokens[at], profile) or tokens[at].text.casefold() in ("'s", "household's")):
        at += 1
    if at == things:
        return 0
    while at < len(tokens) and is_chinese(tokens[at].text) and tokens[at].has("fn:preposition"):
        at += 1
    return at - start


_LOOSE = ("fn:here", "fn:attribute", "fn:polite", "fn:determiner", "fn:preposition", "fn:question", "fn:and")


def _bare(tokens: list[Token], profile: Profile, *, own: bool | None) -> list[Token]:
    """Without what says nothing at either end; with `own` also without the tool's own words there.

    Where `own` is None they all stay; where it is False only those that lead to a title go: `task` of `add task …`.
    """
    titled = bool(profile.main and profile.main.role == "title") and not (own and filter_beside(profile))
    first, last = 0, len(tokens)
    seen_own = False
    while first < last:
        token = tokens[first]
        if _is_own(token, profile) and not (seen_own and titled):
            if own is None or (not own and not titled):
                break
            seen_own = True
        elif not (_loose_start(token, titled, seen_own) or _more_frame(token, profile, titled) or (own and _own_word(token, profile))):
            break
        first += 1
    while last > first:
        token = tokens[last - 1]
        ours = own and (_is_own(token, profile) or _own_word(token, profile))
        ours = ours or (not titled and token.has("do:") and _governs(token, profile) and last - first > 1)
        if not (_loose_end(token, titled) or ours):
            break
        last -= 1
    return tokens[first:last]


def _more_frame(token: Token, profile: Profile, titled: bool) -> bool:
    """A second verb of the same kind: `new` of `add a new task`, `还有没有` of `看看还有没有`."""
    if token.has("do:create") and token.text.casefold() == "new":
        return True
    return not titled and token.has("do:") and not token.has("of:") and _governs(token, profile)


def _loose_start(token: Token, titled: bool, seen_own: bool) -> bool:
    """A title in Chinese may begin with a small word, `去银行`, but not with the end of `日历里`."""
    if seen_own and token.text in ("里", "里面", "上", "中", "内", "里边"):
        return True
    verbal = titled and is_chinese(token.text) and token.has("fn:preposition") and token.text not in ("把", "为", "叫", "关于")
    return _loose(token) and not verbal


def _loose_end(token: Token, titled: bool) -> bool:
    """At the end only what cannot end a name."""
    if is_chinese(token.text) and len(token.text) == 1:
        return token.text in ("吗呢吧啊哦" if titled else "吗呢吧啊哦了的里上中在")
    return _loose(token)


def _loose(token: Token) -> bool:
    if token.has("fn:pronoun") or token.has("fn:everything") or token.has("fn:something"):
        return False
    return token.has("fn:") and any(token.has(kind) for kind in _LOOSE) or token.text in ",，:：-–'\"“”、"


def _own_word(token: Token, profile: Profile) -> bool:
    """A Chinese word that the tool's own description uses: `编号` of `编号M003`."""
    return is_chinese(token.text) and len(token.text) > 1 and any(token.text in place.said for place in profile.places)


def _composed(sheet: Sheet, profile: Profile, values: dict[str, object], rest: list[Token]) -> None:
    """A place such as `light.kitchen` is made of another place's value and the words that are left."""
    for place in profile.places:
        example = next((choice for choice in place.choices if "." in choice), "")
        if place.kind != "word" or not example or place.name in values:
            continue
        kind = next((str(value) for value in values.values() if str(value) == example.split(".")[0]), "")
        kind = kind or next((str(values[one.name]) for one in profile.places if one.name in values and one.kind == "word"), "")
        words = [_slug(token) for token in rest if not (token.has(f"of:{kind}") or token.has("fn:"))]
        words = [word for word in words if word]
        made = f"{kind}.{'_'.join(word for word in words if word)}"
        if kind and words and fits(place.pattern, made):
            values[place.name] = made


def _slug(token: Token) -> str:
    """A word as it is written in ids, in English where the lexicon knows it."""
    known = next((one[3:] for one in sorted(token.means) if one.startswith("is:")), "")
    text = known if is_chinese(token.text) else token.text
    return re.sub(r"[^a-z0-9]+", "_", text.casefold()).strip("_")


_IT_IS = re.compile(
    r"^\W*(?:it(?:'s| is)|that(?:'s| is| would be)|the (?:name|title|item|product) is|call it|name it|let's say|make it|just|i mean|well|"
    r"i(?:'d| would) like|i want|add|叫做?|名称(?:是|为)|名字(?:是|叫)|标题(?:是|为)|就叫?|是|查|要|我要|我想要|加)\s*[:：]?\s*(?:called\s+)?",
    re.IGNORECASE,
)


def items_of(text: str, profile: Profile, *, split: bool = True) -> list[Item]:
    """An answer to the question what is wanted: the things that it names."""
    if marked := quoted(text):
        return [Item(value, quoted=True) for _, value in marked]
    bare = _POLITE_END.sub("", _IT_IS.sub("", text)).strip(_EDGE)
    main = profile.main
    titled = bool(main and main.role == "title") or not split
    texts = [bare[part[0].start : part[-1].end] for part in _parts(tokens_of(bare))] if not titled else [bare]
    return list(_items(texts, count=_counts(profile)))
