"""What strangers may have written, and what a call meets after it. Pure.

A model cannot tell an instruction of its user from one that a web page, a mail or a file brought along. So a call that
destroys something or reaches beyond this system, after such content, is put to a person: whatever the model was talked
into. An item counts while the model is shown it, or a summary of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.items import FilePart, ImagePart, Item, Result, UserMessage
from toolyard.core.setting_types import Name
from toolyard.core.tools import AfterUntrusted, Tool

APPLICATION = "the application"
"""The source of results that a client sends for its own tools."""
MAX_SOURCES = 5
MAX_PASSAGE_CHARS = 300
MIN_COPIED_CHARS = 4
"""Shorter values occur everywhere."""
_STRICTNESS: dict[AfterUntrusted, int] = {"allow": 0, "ask": 1, "deny": 2}


class TrustRules(Struct, frozen=True, kw_only=True):
    """What a call that is destructive or open-world meets after untrusted content, unless its tool says otherwise."""

    after_untrusted: AfterUntrusted = "ask"
    by_role: dict[Name, AfterUntrusted] = {}
    """For callers with a role; of several roles the strictest counts."""
    trust_client_results: bool = False
    """Whether the results that applications send for their own tools are trusted."""


DEFAULT_TRUST = TrustRules()


class UntrustedSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item that strangers may have written, as a person is shown it who decides about a call after it."""

    item_id: str
    name: str
    passage: str = ""
    """The text around a copied value, or else the beginning."""
    copied: tuple[str, ...] = ()
    """JSON pointers of the arguments whose values stand in the item word for word."""


def name_result_source(tool: Tool) -> str:
    """Return who may write the results of a tool, if they are not to be trusted; else an empty text."""
    if tool.venue == "client":
        return APPLICATION
    if not (tool.untrusted or tool.open_world):
        return ""
    return f"the tool {tool.name} of the server {tool.server}" if tool.server else f"the tool {tool.name}"


def name_source(item: Item) -> str:
    """Return who may have written an item that is not to be trusted; else an empty text."""
    match item:
        case Result():
            return item.untrusted
        case UserMessage():
            if item.untrusted:
                return item.untrusted
            files = [part for part in item.parts if isinstance(part, FilePart | ImagePart)]
            names = [part.name for part in files if isinstance(part, FilePart) and part.name]
            return f"the file {names[0]}" if names else "a file" if files else ""
        case _:
            return ""


def choose_decision(tool: Tool, caller: Caller, rules: TrustRules) -> AfterUntrusted:
    """Return what a call of a tool meets after untrusted content."""
    if not (tool.destructive or tool.open_world):
        return "allow"
    if tool.after_untrusted is not None:
        return tool.after_untrusted
    of_roles = [rules.by_role[role] for role in caller.roles if role in rules.by_role]
    return max(of_roles, key=lambda decision: _STRICTNESS[decision], default=rules.after_untrusted)


def describe_sources(items: Sequence[Item], arguments: Mapping[str, object]) -> tuple[UntrustedSource, ...]:
    """Return the sources of untrusted items: first those that values of the arguments were copied from, then the last.

    Only so many as a person reads.
    """
    values = dict(_list_values(arguments, ""))
    sources = [_describe_source(item, values) for item in reversed(items)]
    sources.sort(key=lambda source: not source.copied)
    return tuple(sources[:MAX_SOURCES])


def _describe_source(item: Item, values: Mapping[str, str]) -> UntrustedSource:
    text = item.content if isinstance(item, Result) else item.text if isinstance(item, UserMessage) else ""
    copied = tuple(pointer for pointer, value in values.items() if value in text)
    start = text.find(values[copied[0]]) if copied else 0
    begin = max(0, start - MAX_PASSAGE_CHARS // 3)
    return UntrustedSource(
        item_id=item.id, name=name_source(item), passage=text[begin : begin + MAX_PASSAGE_CHARS], copied=copied
    )


def _list_values(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the JSON pointer and the text of each value that is long enough to be recognised."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from _list_values(inner, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _list_values(inner, f"{pointer}/{index}")
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        if len(text) >= MIN_COPIED_CHARS:
            yield pointer, text
