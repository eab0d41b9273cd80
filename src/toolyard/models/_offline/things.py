"""The things that a message names: how many of each, and where one ends and the next begins."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from toolyard.models._offline.amounts import counted
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.sheet import EDGE
from toolyard.models._offline.words import Token, is_chinese, quoted, tokens_of

_IT_IS = re.compile(
    r"^\W*(?:to (?=[a-z])|it(?:'s| is)|that(?:'s| is| would be)|the (?:name|title|item|product) is|call it|name it|"
    r"let's say|make it|just|i mean|well|i(?:'d| would) like|i want|add|叫做?|"
    r"(?:名称|名字|标题|题目|名)(?:是|为|叫做?|就叫)|"
    r"就叫?|是|查|要|我要|我想要|加)\s*[:：]?\s*(?:called\s+)?",
    re.IGNORECASE,
)

_OR = frozenset({"or", "或", "或者", "还是"})
POLITE_END = re.compile(r"[,，]?\s*(?:please|thanks|thank you|谢谢)\W*$", re.IGNORECASE)


class Item(Struct, frozen=True):
    """One of the things that are asked for, and how many of it."""

    text: str
    quantity: float | None = None
    quoted: bool = False


def parts(tokens: Sequence[Token], *, either: bool = False) -> list[list[Token]]:
    """`milk, bread and two eggs` as three; with `either` also `tea or coffee` as two."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.has("fn:and") or token.text in ",，、&+" or (either and token.text.casefold() in _OR):
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def items_in(texts: Sequence[str], *, count: bool, trim: bool = True) -> Iterable[Item]:
    for part in texts:
        how_many, what = counted(part.strip(EDGE))
        what = what if how_many is not None or count else part
        what = _trimmed(what) if trim else what.strip(EDGE)
        if what:
            yield Item(what, how_many if count else None) if count else Item(what)


def counts(profile: Profile) -> bool:
    return any(place.kind == "number" and place.role == "quantity" for place in profile.places)


def _trimmed(text: str) -> str:
    """Without the articles and the like at its edges; `油脂类` is `油脂`."""
    text = text.strip(EDGE)
    text = text[:-1] if is_chinese(text) and text.endswith("类") and len(text) > 1 else text
    tokens = tokens_of(text)
    while tokens and (tokens[0].has("fn:determiner") or tokens[0].has("fn:polite")) and len(tokens) > 1:
        tokens = tokens[1:]
    return text[tokens[0].start :] if tokens else text


def items_of(text: str, profile: Profile, *, split: bool = True) -> list[Item]:
    """An answer to the question what is wanted: the things that it names."""
    if marked := quoted(text):
        return [Item(value, quoted=True) for _, value in marked]
    bare = POLITE_END.sub("", _IT_IS.sub("", text)).strip(EDGE)
    titled = profile.titled or not split
    texts = [bare[part[0].start : part[-1].end] for part in parts(tokens_of(bare))] if not titled else [bare]
    return list(items_in(texts, count=counts(profile)))
