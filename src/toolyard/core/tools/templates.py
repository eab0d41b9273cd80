"""Texts with slots: example requests in users' words, such as `add {item} to groceries`, and sentences about results.

Pure.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import cast

from toolyard.core.errors import Invalid
from toolyard.core.json_types import is_list
from toolyard.core.tools.definition import Tool

MAX_SAMPLE_CHARS = 60
_SLOT = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]{0,63})\}")
_CHINESE = re.compile("[\u4e00-\u9fff]")


def split_template(example: str) -> Iterator[tuple[str, str]]:
    """Yield each piece of text of an example with the slot that follows it; the last slot is empty."""
    at = 0
    for match in _SLOT.finditer(example):
        yield example[at : match.start()], match[1]
        at = match.end()
    yield example[at:], ""


def list_examples(tool: Tool) -> tuple[str, ...]:
    """Return all examples of a tool, those that are only proposed last."""
    return (*tool.examples, *tool.propose)


def find_unknown_slots(tool: Tool) -> list[str]:
    """Return the slots of a tool's examples that are not parameters of the tool."""
    names = _as_mapping(tool.parameters.get("properties"))
    return [slot for example in list_examples(tool) for slot in _SLOT.findall(example) if slot not in names]


def check_slots(tool: Tool) -> None:
    """Raise Invalid if an example of a tool has a slot that is not a parameter."""
    if slots := find_unknown_slots(tool):
        raise Invalid(f"its examples have a slot {slots[0]!r}, which is not a parameter")


def check_sentences(tool: Tool, result_fields: Collection[str]) -> None:
    """Raise Invalid if a sentence about the result has a slot that is neither a parameter nor a field of the result."""
    parameters = _as_mapping(tool.parameters.get("properties"))
    for sentence in tool.says:
        names = [slot for slot in _SLOT.findall(sentence) if slot not in parameters and slot not in result_fields]
        if names:
            slots = ", ".join(sorted({*parameters, *result_fields})) or "none"
            raise Invalid(
                f"says has a slot {names[0]!r}, which is neither a parameter nor a declared field of the result "
                f"(known: {slots})"
            )
        if re.search(r"[{}]", _SLOT.sub("", sentence)):
            raise Invalid(f"says has a brace that is not part of a slot such as {{name}}: {sentence[:80]!r}")


def fill_sentence(sentence: str, values: Mapping[str, str]) -> str | None:
    """Return a sentence with a value in each slot; None if a value is missing or empty."""
    pieces = list(split_template(sentence))
    if any(slot and not values.get(slot) for _, slot in pieces):
        return None
    return "".join(text + (values[slot] if slot else "") for text, slot in pieces)


def fill_examples(tool: Tool) -> list[str]:
    """Return a tool's examples for display, with a value in each slot."""
    schemas = _as_mapping(tool.parameters.get("properties"))
    return [
        "".join(
            text + (_pick_sample(slot, schemas.get(slot), example) if slot else "")
            for text, slot in split_template(example)
        )
        for example in list_examples(tool)
    ]


def _pick_sample(name: str, schema: object, example: str) -> str:
    """Return a value for a slot: one of the parameter's examples, or a value that suits its type."""
    branches = _as_mapping(schema).get("anyOf")
    for branch in (schema, *(branches if is_list(branches) else ())):
        if value := _sample_by_type(_as_mapping(branch), example):
            return value[:MAX_SAMPLE_CHARS]
    return f"“{name.replace('_', ' ')}”"


def _as_mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else dict[str, object]()


def _sample_by_type(schema: Mapping[str, object], example: str) -> str:
    chinese = bool(_CHINESE.search(example))
    for key in ("examples", "enum"):
        values = schema.get(key)
        if is_list(values) and values:
            texts = [str(value) for value in values]
            return next((text for text in texts if bool(_CHINESE.search(text)) == chinese), texts[0])
    if schema.get("type") in ("integer", "number"):
        return "2"
    if schema.get("format") in ("date", "date-time"):
        clock = schema["format"] == "date-time"
        return ("明天下午3点" if clock else "明天") if chinese else ("tomorrow at 3pm" if clock else "tomorrow")
    return ""
