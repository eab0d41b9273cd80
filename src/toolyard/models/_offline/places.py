"""What a tool takes, as places that words can go into: read from its schema."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.tools import Tool
from toolyard.finding.index import MOST_DEPTH
from toolyard.models._offline.literals import Written, written
from toolyard.models._offline.words import is_chinese

Kind = Literal["text", "word", "choice", "number", "flag", "day", "moment", "month", "clock", "other"]
Schema = Mapping[str, object]
Role = Literal["", "title", "location", "remark", "quantity", "upper", "lower", "ending"]
_SUCH_AS = re.compile(r"\b(?:such as|for example|e\.g\.|like)\b[:,]?\s*|例如[:：]?|比如[:：]?|如[:：]", re.IGNORECASE)
_FORMATS: dict[str, Kind] = {"date-time": "moment", "date": "day", "time": "clock"}
_TITLES = frozenset({"title", "subject", "text", "name", "summary", "message", "content", "body", "headline", "label"})
_ROLES: tuple[tuple[frozenset[str], Role], ...] = (
    (_TITLES, "title"),
    (frozenset({"location", "place", "where", "venue", "address", "room"}), "location"),
    (frozenset({"description", "note", "notes", "details", "comment", "remark", "reason"}), "remark"),
    (frozenset({"end", "ends", "until", "finish", "to", "checkout", "return"}), "ending"),
)
_DAYS = frozenset({"due", "due_date", "due_string", "deadline", "date", "day"})
_LAST = re.compile(r"(?:last|end|to|until|return|check_?out|finish|最后|结束)(?:_|$|[A-Z])", re.I)
_UPPER, _LOWER = (
    re.compile(r"\bmax(?:im\w+)?\b|up to|at most|upper|limit|不超过|最高|最大", re.I),
    re.compile(r"\bmin(?:im\w+)?\b|at least|最低|最小", re.I),
)
_CODE = re.compile(r"(?P<letters>[A-Za-z]{1,6}[-_#]?)(?P<figures>\d{1,10})\b")
MOST_PATTERN, MOST_UNBOUND, MOST_SEARCHED = 240, 2, 200
_UNBOUND, _NESTED = re.compile(r"[*+]|\{\d*,(?:\d{2,})?\}"), re.compile(r"\)[*+{]")
_BOUND = re.compile(r"(?<!\()\?|\{\d*,\d\}")
_QUANTITY = re.compile(r"qty|quantit|count|amount|number of|^number\b|how many|pieces|数量|个数|件数", re.I)


class Place(Struct, frozen=True, kw_only=True):
    """A parameter, as far as words can fill it."""

    name: str
    kind: Kind
    role: Role = ""
    required: bool = False
    many: bool = False
    choices: tuple[str, ...] = ()
    """The values it takes, or examples of them if its kind is `word`."""
    typed: dict[str, object] | None = None
    """The choices as they are, where they are not all texts."""
    pattern: str = ""
    source: str = ""
    said: str = ""
    """What is said about it, without examples."""
    whole: bool = False
    """Numbers without a fraction."""
    shape: str = ""
    """A pattern that no word fits, only its codes: given, or made of the example in what is said about it."""
    written: Written = ""
    """If it takes a path, an address or a time zone: words are nothing for it."""

    @property
    def wants_item(self) -> bool:
        return bool(self.source) or (self.kind == "text" and self.role in ("", "title") and not self.written)


def places_of(tool: Tool) -> Iterator[Place]:
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    wanted = cast("list[str]", required) if isinstance(required, list) else []
    known_names = set(cast("Schema", properties)) if isinstance(properties, Mapping) else set[str]()
    for name, schema in cast("Schema", properties).items() if isinstance(properties, Mapping) else ():
        if isinstance(schema, Mapping):
            known = _known(cast("Schema", schema), tool.parameters)
            place = _place(name, known, name in wanted, tool.sources.get(name, ""))
            way = written(name, str(known.get("format", "")), f"{tool.name} {tool.description}")
            if {"owner", "repo"} <= known_names and name in ("owner", "repo"):
                way = "repo"
            yield replace(place, written=way) if place.kind == "text" and not place.source else place


def _place(name: str, schema: Schema, required: bool, source: str) -> Place:
    inner, many = schema, False
    if inner.get("type") == "array" and isinstance(inner.get("items"), Mapping):
        inner, many = cast("Schema", inner["items"]), True
    description = str(schema.get("description") or inner.get("description") or "")
    said, *examples = _SUCH_AS.split(description, maxsplit=1)
    pattern = str(inner.get("pattern", ""))
    kind = _kind(name, inner, pattern, description)
    enum = cast("list[object]", inner["enum"]) if kind == "choice" else []
    choices = tuple(str(one) for one in enum if one is not None)
    if kind == "word":
        choices = tuple(one.strip(" .。") for one in re.split(r"[,，、]| or ", examples[0])) if examples else ()
    return Place(
        name=name,
        kind=kind,
        role=_role(name, kind, f"{name.replace('_', ' ')} {said}", inner.get("type") == "integer"),
        required=required,
        many=many,
        choices=choices,
        typed=None if all(isinstance(one, str) for one in enum) else {str(one): one for one in enum},
        pattern=pattern,
        source=source,
        shape=(pattern or _shape(examples)) if kind in ("text", "word") else "",
        said=said.strip(" ,;:，；："),
        whole=inner.get("type") == "integer",
    )


def _known(schema: Schema, whole: Schema, depth: int = 0) -> Schema:
    """A schema with what it refers to; of a choice between a schema and null, the schema."""
    if depth == MOST_DEPTH:
        return schema
    inner = next(_meant(schema, whole), None)
    known = {**_known(inner, whole, depth + 1), **schema} if inner else schema
    if isinstance(items := known.get("items"), Mapping):
        known = {**known, "items": _known(cast("Schema", items), whole, depth + 1)}
    return known


def _meant(schema: Schema, whole: Schema) -> Iterator[Schema]:
    """The schemas that one stands for: what it refers to, and its options."""
    if isinstance(way := schema.get("$ref"), str):
        definitions = whole.get("$defs") or whole.get("definitions")
        found = cast("Schema", definitions).get(way.rpartition("/")[2]) if isinstance(definitions, Mapping) else None
        if isinstance(found, Mapping):
            yield cast("Schema", found)
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        for one in cast("list[object]", options) if isinstance(options, list) else []:
            if isinstance(one, Mapping) and cast("Schema", one).get("type") != "null":
                yield cast("Schema", one)


def _kind(name: str, schema: Schema, pattern: str, description: str) -> Kind:
    if isinstance(schema.get("enum"), list):
        return "choice"
    kinds = schema.get("type")
    if isinstance(kinds, list):
        kinds = next((one for one in cast("list[object]", kinds) if one != "null"), None)
    match kinds:
        case "integer" | "number":
            return "number"
        case "boolean":
            return "flag"
        case "string" | None:
            return _text_kind(name, str(schema.get("format", "")), pattern, description)
        case _:
            return "other"


def _text_kind(name: str, written: str, pattern: str, description: str) -> Kind:
    if written in _FORMATS:
        return _FORMATS[written]
    if _takes(pattern, "2026-11-20") or "YYYY-MM-DD" in description or name in _DAYS:
        return "day"
    if _takes(pattern, "2026-11") or "YYYY-MM" in description:
        return "month"
    if _takes(pattern, "18:30") or "HH:MM" in description:
        return "clock"
    if "ISO 8601" in description:
        return "moment"
    return "text" if fits(pattern, "two words") else "word"


def _takes(pattern: str, value: str) -> bool:
    """Whether a pattern is made for values such as this one: it allows it and no usual word."""
    return bool(pattern) and fits(pattern, value) and not fits(pattern, "abc")


def fits(pattern: str, value: str) -> bool:
    """Whether the value is one that the pattern allows; one that cannot be tried here allows all."""
    known = _compiled(pattern)
    return known is None or known.search(value[:MOST_SEARCHED]) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """None if Python cannot read it, or if it might take its time: patterns are written by whoever has a tool."""
    unbound, bound = len(_UNBOUND.findall(pattern)), len(_BOUND.findall(pattern))
    slow = len(pattern) > MOST_PATTERN or _NESTED.search(pattern) or unbound > MOST_UNBOUND or unbound * 2 + bound > 5
    try:
        return None if slow or not pattern else re.compile(pattern)
    except (re.error, OverflowError, RecursionError, FutureWarning):
        return None


def _shape(examples: Sequence[str]) -> str:
    """`S-101` stands for all of `S-` and figures."""
    found = _CODE.match(examples[0]) if examples else None
    return rf"{re.escape(found['letters'])}\d{{1,{len(found['figures']) + 2}}}" if found else ""


@lru_cache(maxsize=4096)
def shape_of(pattern: str) -> re.Pattern[str] | None:
    """What a text can be searched for by: of a pattern that no word fits, for codes and numbers of its own."""
    if any(fits(pattern, word) for word in ("abc", "two words", "light.kitchen", "2026-11", "商品")):
        return None
    return _compiled(rf"(?<![A-Za-z0-9])(?:{pattern.removeprefix('^').removesuffix('$')})(?![A-Za-z0-9])")


def label_before(place: Place, text: str, start: int) -> int:
    """Where the Chinese characters begin that stand before a value and say what it is: `住` of `住两晚`."""
    while start and not text[start - 1].isascii() and text[start - 1] in place.said:
        start -= 1
    return start


def in_shape(place: Place, text: str) -> bool:
    """Whether a text has a code that the place is for."""
    shape = shape_of(place.shape) if place.shape else None
    return shape is not None and shape.search(text[:MOST_SEARCHED]) is not None


def _role(name: str, kind: Kind, said: str, whole: bool) -> Role:
    if kind == "number":
        if _UPPER.search(said):
            return "upper"
        if _LOWER.search(said):
            return "lower"
        return "quantity" if _QUANTITY.search(said) and not (name == "amount" and not whole) else ""
    for names, role in _ROLES:
        if name.casefold().split("_")[-1] in names:
            return role
    if kind in ("day", "moment") and (_LAST.match(name) or re.search(r"(?:_|^)(?:max|before|end|to)$", name)):
        return "ending"
    return ""


def as_number(value: float, place: Place) -> float:
    return int(value) if place.whole or value == int(value) else value


def label(place: Place, language: str) -> str:
    """What to call a place when asking for it."""
    if language == "zh" and is_chinese(place.said):
        return re.split(r"[，,；;、。]", place.said)[0]
    return place.name.replace("_", " ")
