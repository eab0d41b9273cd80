"""Parses a call's streamed arguments into an object, or into an error for the model.

Trailing commas are dropped. Arguments that were cut off are never completed: half a request must not run. Whether the
arguments fit a tool is validated later, by the registry.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

from toolyard.core.json_types import is_list, is_object
from toolyard.models.shared.json_values import has_lone_surrogates

MAX_DEPTH = 100
MAX_SHOWN_CHARACTERS = 200
"""The length of the excerpt of unreadable arguments that the model sees."""

_decode = msgspec.json.Decoder(dict[str, object]).decode
_STRING_OR_TRAILING_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"?|,(?=\s*[}\]])', re.DOTALL)


class Arguments(Struct, frozen=True):
    value: dict[str, object]
    unreadable: str = ""


def read_arguments(fragments: Sequence[str], *, cut_off: bool = False, damaged: bool = False) -> Arguments:
    """Return the parsed arguments. `cut_off`: the model was stopped. `damaged`: bytes of the text were invalid."""
    text = "".join(fragments)
    if damaged:
        return _report_unreadable("the arguments are not valid Unicode", text)
    if not text.strip():
        return _report_unreadable("the reply was cut off before the arguments", "") if cut_off else Arguments({})
    first = _parse_object(text)
    if not first.unreadable or _is_cut_off(first):
        return first
    for candidate in _list_other_readings(text, fragments):
        read = _parse_object(candidate)
        if not read.unreadable:
            return read
    return first


def is_whole(fragments: Sequence[str]) -> bool:
    """Return whether the arguments so far are a complete object."""
    return bool(fragments) and fragments[-1].rstrip().endswith("}") and not read_arguments(fragments).unreadable


class CallInProgress:
    """A call while the model is still writing it."""

    __slots__ = ("arguments_bytes", "damaged", "fragments", "id", "name", "name_restated", "number", "provider_id")

    def __init__(self, number: int, id: str) -> None:
        """`id` is Toolyard's id of the call; `provider_id` arrives with the stream."""
        self.number = number
        self.id = id
        self.name = ""
        self.provider_id = ""
        self.fragments: list[str] = []
        self.arguments_bytes = 0
        self.damaged = False
        self.name_restated = False

    def parse_arguments(self, *, cut_off: bool) -> Arguments:
        return read_arguments(self.fragments, cut_off=cut_off, damaged=self.damaged)


def _parse_object(text: str) -> Arguments:
    try:
        value = _decode(text)
    except RecursionError:
        return _report_unreadable(_TOO_DEEP, text)
    except msgspec.ValidationError as error:
        return _report_unreadable(f"the arguments are not a JSON object that can be used ({error})", text)
    except (msgspec.DecodeError, UnicodeError) as error:
        return _report_unreadable(_describe_error(text, error), text)
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        return _report_unreadable(_TOO_DEEP, text)
    return Arguments(value)


_TOO_DEEP = f"the arguments are nested more than {MAX_DEPTH} levels deep"
_CUT_OFF = "the arguments were cut off"


def _describe_error(text: str, error: Exception) -> str:
    if isinstance(error, UnicodeError) or has_lone_surrogates(text):
        return "the arguments are not valid Unicode"
    return _CUT_OFF if "truncated" in str(error) else f"the arguments are not valid JSON ({error})"


def _is_cut_off(read: Arguments) -> bool:
    """Return whether arguments are only incomplete. No other reading is tried then: `{"a":` `{"a":1}` may be nested."""
    return read.unreadable.startswith(_CUT_OFF)


def _list_other_readings(text: str, fragments: Sequence[str]) -> list[str]:
    # Some providers send the whole arguments so far in every piece instead of what is new.
    candidates = [text]
    pieces = [fragment for fragment in fragments if fragment]
    if len(pieces) > 1 and all(later.startswith(earlier) for earlier, later in pairwise(pieces)):
        candidates.append(pieces[-1])
    return [reading for candidate in candidates for reading in (candidate, _strip_trailing_commas(candidate))]


def _strip_trailing_commas(text: str) -> str:
    return _STRING_OR_TRAILING_COMMA.sub(lambda match: "" if match[0] == "," else match[0], text)


def _depth_exceeds(value: object, max_depth: int) -> bool:
    level: list[object] = [value]
    for _ in range(max_depth):
        level = [inner for outer in level for inner in _list_children(outer)]
        if not level:
            return False
    return True


def _list_children(value: object) -> list[object]:
    """Return the values directly inside a decoded value."""
    if is_object(value):
        return [*value.values()]
    return value if is_list(value) else []


def _report_unreadable(why: str, text: str) -> Arguments:
    head = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 1]}…"
    excerpt = head.encode("utf-8", "replace").decode()
    return Arguments({}, f"{why}: {excerpt}" if text else why)
