"""What is left of a clause when everything else has its place: the things that are asked for, and where.

It says what they are called, or how they are pointed at; it looks for nothing.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from toolyard.finding.words import stem
from toolyard.models._offline.amounts import Priced, only_number, priced, which
from toolyard.models._offline.choices import Chosen, composed, ends, finished
from toolyard.models._offline.frames import bare, framed
from toolyard.models._offline.past import infinitive
from toolyard.models._offline.places import Place
from toolyard.models._offline.profiles import Profile, filter_beside
from toolyard.models._offline.sheet import EDGE, Sheet
from toolyard.models._offline.things import POLITE_END, Item, counts, items_in, parts
from toolyard.models._offline.words import Token, tokens_of

_WHERE = re.compile(
    r"[,，]?\s*(?:\b(?:at|in|@)\s+(?P<value>(?:the\s+|our\s+|my\s+)?[A-Za-z0-9][\w' .&-]*)$"
    r"|\b(?:location|place|venue)(?:\s+is|:)?\s+(?P<named>.+)$)"
    r"|[,，]?\s*(?:取件|收件|送货)?(?:地点|地址|位置)(?:是|在|为|[:：])?\s*(?P<zh>[^，,。]+)"
    r"|[到来在去往](?P<street>[\u3400-\u9fff]{1,10}(?:路|街|巷|弄|道|大厦|广场|小区)(?:\d+号?(?:楼|院)?)?(?:\d+室)?)"
    r"|在(?P<at>[\u3400-\u9fff]{0,6}?(?:馆|院|店|厅|园|校|室|场|站|楼|家|公司|银行|中心|广场|酒吧)里?)",
    re.IGNORECASE,
)

_PLACE = re.compile(
    r"(?!\W*(?:and|with|to|for|about|bring|please|don't|not|if|because|so|then|every)\b)"
    r"(?:\s*[,，]\s*(?P<aside>[A-Za-z][\w'&.-]*(?: [\w'&.-]+){0,4}|[\u3400-\u9fff]{2,12})"
    r"|\s+(?P<name>[A-Z][\w'&.-]*(?: [\w'&.-]+){0,4})"
    r"|\s+(?P<room>(?:[\w'-]+ ){0,2}(?:room|hall|office|cafe|café|restaurant|school|station|park|library|hospital|"
    r"clinic|gym|church|centre|center|bar|pub|hotel|theatre|theater|cinema|museum|stadium|studio|home|house)(?: \w+)?))"
)

_PEOPLE = frozenset(
    {"name", "person", "contact", "employee", "colleague", "customer", "user", "who", "member", "payee", "recipient"}
)
_OF_WHOM = re.compile(r"(?P<who>.+?)['’]s? [\w -]+")
_ENDING = frozenset(map(stem, ["complete", "finish", "close", "done"]))
_AS_DONE = re.compile(r"\s+(?:as\s+)?(?:done|completed?|finished|closed)$", re.IGNORECASE)
_MISTER = re.compile(r"^(?:mr|mrs|ms|miss|dr)\.? (?=[A-Z])", re.IGNORECASE)
_TO_WHOM = re.compile(r"^[给向跟](?=[\u3400-\u9fff]{2})")
_TOWNS = frozenset({"city", "town", "country", "region", "state", "airport", "station", "destination", "place"})
_IN = re.compile(r"^(?:.*\b)?(?:in|at|for|near|around|of|to)\s+(?P<where>[^\s].*)$", re.IGNORECASE)

_AND_TO = re.compile(r",?\s+and (?:also )?to\s+(?!(?:the|my|our|a|an)\b)(?=[a-z])")

_PRONOUNS = frozenset(
    {"it", "them", "those", "these", "that", "this", "one", "ones", "它", "它们", "这个", "那个", "这些", "那些"}
)


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
    exemplary: bool = False
    """Whether it was said as an example says it."""


def rest(sheet: Sheet, profile: Profile, values: dict[str, object], chosen: Chosen) -> Filled:
    """What is left when everything else has its place: what the main place is for."""
    if ended := finished(sheet, profile, values):
        return Filled(values=values, items=(Item(ended),), chosen="guessed", whole=ended)
    location(sheet, profile, values)
    several = _announced(sheet, profile)
    tokens = framed(sheet, profile)
    whole = sheet.text_of(bare(tokens, profile, own=None))
    left = bare(tokens, profile, own=not profile.titled or filter_beside(profile) is not None)
    none = Filled(values=values, items=(), others=composed(sheet, profile, values, left), chosen=chosen)
    if left and all(token.has("fn:pronoun") for token in left):
        return replace(none, pronoun=True)
    if len(left) == 1 and left[0].has("fn:everything"):
        return replace(none, everything=True)
    nothing = all(token.has("fn:something") or token.has("fn:determiner") for token in left)
    if none.others or nothing or not sheet.text_of(left):
        return replace(none, whole=whole)
    texts = [_without_own(text, profile) for text in _texts(sheet, profile, left, chosen, several=several)]
    return _named(texts, profile, replace(none, whole=whole), trim=several or _trims(profile, sheet.text_of(left)))


def _without_own(text: str, profile: Profile) -> str:
    """`赵敏` of `收款人赵敏`, where the tool is about a 收款人; the city of `the weather in London`."""
    for word in profile.words_of_its_own:
        if text.startswith(word) and len(text) > len(word):
            return text[len(word) :].lstrip(EDGE)
    if profile.verbs & _ENDING and not ends(profile):
        text = _AS_DONE.sub("", text)
    if beside := _beside(text, profile):
        return beside
    if not profile.titled or (profile.main and profile.main.name in _PEOPLE):
        text = _TO_WHOM.sub("", text)
    if profile.main and (profile.reads or profile.main.source):
        text = _MISTER.sub("", text).removesuffix("'s").removesuffix("’s")
    owner = _OF_WHOM.fullmatch(text) if profile.main and profile.main.name in _PEOPLE and profile.reads else None
    if owner:
        return owner["who"]
    where = _IN.match(text) if profile.main and profile.main.name.split("_")[-1] in _TOWNS else None
    return where["where"] if where else text


def _beside(text: str, profile: Profile) -> str:
    """`customers` of `which columns does the customers table have`, for a `table_name`."""
    kind, _, is_what = profile.main.name.rpartition("_") if profile.main else ("", "", "")
    if is_what not in ("name", "id") or not kind:
        return ""
    found = re.search(rf"\b(?P<name>[\w-]+) {re.escape(kind.replace('_', ' '))}\b", text, re.IGNORECASE)
    token = next(iter(tokens_of(found["name"])), None) if found else None
    return found["name"] if found and token and not token.means else ""


def _trims(profile: Profile, text: str) -> bool:
    """Whether small words at the edges of a thing go: not those of a title in Chinese."""
    whole = profile.titled or profile.main is None
    return not whole or filter_beside(profile) is not None or text.isascii()


def _texts(sheet: Sheet, profile: Profile, left: list[Token], chosen: Chosen, *, several: bool) -> list[str]:
    """The things that are named, each by itself; a title is whole unless several are announced."""
    text = sheet.text_of(left)
    if chosen and (sheet.clause.tells or ends(profile)) and text.split()[0].endswith("ing"):
        first, _, more = text.partition(" ")
        return [f"{infinitive(first.casefold()) or first} {more}".strip()]
    if profile.main is None:
        return [text]
    if profile.titled and not several:
        return _AND_TO.split(text)
    return [sheet.text_of(part) for part in parts(left, either=profile.reads)]


def _named(texts: list[str], profile: Profile, none: Filled, *, trim: bool) -> Filled:
    """The things by their names, or what is pointed at instead: `it`, `two`, `the second one`, `the cheapest`."""
    counting, only = counts(profile), texts[0] if len(texts) == 1 else ""
    how_many = only_number(only) if counting else None
    if how_many is not None or which(only) is not None:
        return replace(none, pronoun=True, which=which(only), quantity=how_many)
    items = tuple(items_in(texts, count=counting, trim=trim))
    if len(items) > 1:
        items = tuple(item for item in items if item.text.casefold() not in _PRONOUNS)
    if len(items) != 1:
        return replace(none, items=items)
    (item,), main = items, profile.main
    if item.text.casefold() in _PRONOUNS or which(item.text) is not None:
        return replace(none, pronoun=True, which=which(item.text), quantity=item.quantity)
    ranked, kind = priced(item.text) if main and (main.source or profile.reads) else (None, item.text)
    if ranked and not kind:
        return replace(none, pronoun=True, which=ranked, quantity=item.quantity)
    return replace(none, items=(replace(item, text=kind),), which=ranked)


def _announced(sheet: Sheet, profile: Profile) -> bool:
    """Whether several are announced, `two tasks: …`; the words that do so are crossed out."""
    tokens = sheet.clause.tokens
    for first, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        many = only_number(first.text) is not None or first.has("fn:determiner") or first.has("do:")
        if many and token.stem in profile.nouns and token.text.endswith("s") and after.text in ":：":
            sheet.take(first.start if not first.has("do:") else token.start, after.end)
            return True
    return False


def location(sheet: Sheet, profile: Profile, values: dict[str, object]) -> None:
    place = next((one for one in profile.places if one.role == "location"), None)
    if place is None or place.name in values:
        return
    text = sheet.without().rstrip(EDGE)
    found = _WHERE.search(text)
    if not found:
        _after_the_time(sheet, place, values)
        return
    group = next(name for name in ("value", "named", "zh", "street", "at") if found[name])
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
