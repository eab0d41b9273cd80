"""Reads a tool's parameters from its JSON Schema: the kind of each, and the values that a text can be.

Any schema is accepted. A parameter that is not understood has the kind `other`, for which no text is a value.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Literal, cast

import jsonschema_rs

from toolyard.core.tools.definition import Tool
from toolyard.models.offline.dates import TimeKind, parse_time
from toolyard.models.offline.text import fold, is_chinese, tokenize

ParameterKind = Literal["choice", "switch", "number", "time", "text", "list", "other"]
MAX_PARAMETERS, MAX_DEPTH, MAX_ITEMS = 50, 5, 8
_NUMBER = re.compile(r"[-+−]?[$€£¥]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?%?")
_NUMBER_WORDS = {
    word: number
    for number, line in enumerate(
        [
            "zero 零",
            "one 一",
            "two 两 二",
            "three 三",
            "four 四",
            "five 五",
            "six 六",
            "seven 七",
            "eight 八",
            "nine 九",
            "ten 十",
            "eleven 十一",
            "twelve 十二 dozen",
        ]
    )
    for word in line.split()
}
ON = frozenset({"on", "true", "yes", "开", "打开", "是"})
OFF = frozenset({"off", "false", "no", "关", "关闭", "否"})
_AND = re.compile(
    r"\s*(?:(?<!\d),|,(?!\d)|，|、|;|；)\s*(?:and\s+)?|\s+(?:and|&)\s+|(?<=[\u4e00-\u9fff])(?:和|跟|以及)(?=[\u4e00-\u9fff])",
    re.I,
)
_TIME_FORMATS: dict[object, TimeKind] = {
    "date": "date",
    "date-time": "date-time",
    "time": "time",
    "date or date-time": "date or date-time",
}


class Parameter:
    """One parameter of a tool, with references resolved."""

    def __init__(self, name: str, schema: Mapping[str, object], required: bool, definitions: object) -> None:
        self.name = name
        self.schema = schema
        self.required = required
        self._definitions = definitions
        self.description = str(schema.get("description") or "")[:500]
        self.format = form if isinstance(form := schema.get("format"), str) else None
        self.choices = _parse_choices(schema)
        self.kind = _detect_kind(schema, self.choices, self.format)

    @cached_property
    def is_free_text(self) -> bool:
        """Whether nearly any text is a value: a pattern that accepts two words is taken for one that accepts all."""
        return self.kind == "text" and self.format is None and ("pattern" not in self.schema or self.fits("or so"))

    @property
    def is_identifier(self) -> bool:
        """Whether the parameter is a code that identifies something, judged by its name."""
        return bool({"id", "code", "number", "no", "ref", "sku", "key", "编号"} & set(self.label.split()))

    @cached_property
    def label(self) -> str:
        """The parameter's name in words."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", self.name).strip().lower() or self.name

    @cached_property
    def choice_words(self) -> tuple[tuple[object, tuple[str, ...]], ...]:
        """Each choice with its words: `In cart`, `in_cart` and `in the cart` have the same."""
        return tuple((choice, words) for choice in self.choices if (words := split_words(str(choice))))

    @cached_property
    def items(self) -> "Parameter":
        """The items of a list as a parameter."""
        inner = self.schema.get("items")
        return Parameter(self.name, _resolve(inner, self._definitions), True, self._definitions)

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator | None:
        try:
            return jsonschema_rs.validator_for(
                {**self.schema, **({"$defs": self._definitions} if self._definitions else {})},
                validate_formats=self.kind == "text",
                offline=True,  # never fetch a reference from the network
            )
        except (ValueError, jsonschema_rs.ReferencingError):
            return None

    def fits(self, value: object) -> bool:
        """Return whether the schema accepts a value. An invalid schema accepts none."""
        try:
            return self._validator is not None and self._validator.is_valid(value)
        except ValueError:
            return False

    def parse(self, text: str, now: datetime, language: str) -> object | None:
        """Return a whole text as a value of this parameter; None if it is not one."""
        value = self._parse(text.strip(), now, language)
        return value if value is not None and self.fits(value) else None

    def _parse(self, text: str, now: datetime, language: str) -> object | None:
        match self.kind:
            case "choice":
                return self._find_choice(text)
            case "switch":
                word = fold(text)
                return True if word in ON else False if word in OFF else None
            case "number":
                return parse_number(text, whole=self.schema.get("type") == "integer")
            case "time":
                return parse_time(text, _TIME_FORMATS[self.format], now, language)
            case "list":
                parts = [self.items.parse(part, now, language) for part in split_list(text)]
                return None if None in parts or not parts else parts
            case "text":
                return text or None
            case _:
                return None

    def _find_choice(self, text: str) -> object | None:
        words = split_words(text)
        matches = [choice for choice, choice_words in self.choice_words if choice_words == words]
        return matches[0] if len(matches) == 1 else None


def parse_parameters(tool: Tool) -> tuple[Parameter, ...]:
    """Return the parameters of a tool in order; none if its schema is not that of an object."""
    properties, required = tool.parameters.get("properties"), tool.parameters.get("required")
    if not isinstance(properties, Mapping):
        return ()
    definitions: object = tool.parameters.get("$defs") or tool.parameters.get("definitions")
    names = cast("Sequence[object]", required) if isinstance(required, list | tuple) else ()
    table = cast("Mapping[str, object]", properties)
    return tuple(
        Parameter(str(name), _resolve(schema, definitions), name in names, definitions)
        for name, schema in list(table.items())[:MAX_PARAMETERS]
    )


def parse_number(text: str, *, whole: bool = False) -> int | float | None:
    """Return the number that a text is as a whole; None if it is anything else."""
    if (word := _NUMBER_WORDS.get(fold(text))) is not None:
        return word
    if not _NUMBER.fullmatch(text):
        return None
    plain = re.sub(r"[$€£¥,+%]", "", text).replace("−", "-")
    number = float(plain)
    if number.is_integer() and (whole or "." not in plain):
        return int(number) if abs(number) < 2**63 else None
    return None if whole else number


def split_list(text: str) -> list[str]:
    """Return the parts of `milk, eggs and bread`; one part if it is not a list."""
    return [part.strip() for part in _AND.split(text) if part.strip()][: MAX_ITEMS + 1]


def split_words(text: str) -> tuple[str, ...]:
    return tuple(token.folded for token in tokenize(re.sub(r"[_-]+", " ", text)))


def _resolve(schema: object, definitions: object, depth: int = 0) -> Mapping[str, object]:
    """Return a schema with its reference resolved, and without the null of an optional parameter."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {}
    keywords = cast("Mapping[str, object]", schema)
    plain = {key: value for key, value in keywords.items() if key not in ("$ref", "anyOf", "oneOf", "allOf")}
    if isinstance(reference := keywords.get("$ref"), str) and isinstance(definitions, Mapping):
        target = cast("Mapping[str, object]", definitions).get(reference.rpartition("/")[2])
        return {**_resolve(target, cast("object", definitions), depth + 1), **plain}
    for union in ("anyOf", "oneOf", "allOf"):
        options = keywords.get(union)
        if isinstance(options, list):
            branches = [_resolve(option, definitions, depth + 1) for option in cast("list[object]", options)]
            branches = [branch for branch in branches if branch.get("type") != "null"]
            return {**_join(branches), **plain}
    if isinstance(kinds := keywords.get("type"), list):
        others = [kind for kind in cast("list[object]", kinds) if kind != "null"]
        return {**keywords, "type": others[0]} if len(others) == 1 else {}
    return keywords


def _join(branches: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return the branches of a union as one schema: a single branch, or a day with or without a time; else empty."""
    if len(branches) == 1:
        return branches[0]
    if branches and all(branch.get("format") in ("date", "date-time") for branch in branches):
        return {"type": "string", "format": "date or date-time"}
    return {}


def _parse_choices(schema: Mapping[str, object]) -> tuple[object, ...]:
    values = schema.get("enum") if "enum" in schema else [schema["const"]] if "const" in schema else []
    usable = cast("Sequence[object]", values) if isinstance(values, list | tuple) else ()
    return tuple(value for value in usable[:200] if isinstance(value, str | int | float) and str(value).strip())


def _detect_kind(schema: Mapping[str, object], choices: Sequence[object], format: object) -> ParameterKind:
    if choices:
        return "choice"
    if format in _TIME_FORMATS and schema.get("type") == "string":
        return "time"
    kinds: dict[object, ParameterKind] = {
        "boolean": "switch",
        "integer": "number",
        "number": "number",
        "string": "text",
        "array": "list",
    }
    return kinds.get(schema.get("type"), "other")


def detect_language(text: str) -> str:
    """Return the language for answers and for parsing times: Chinese if the text contains any."""
    return "zh" if is_chinese(text) else "en"
