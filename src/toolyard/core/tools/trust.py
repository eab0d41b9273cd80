"""Untrusted content, and how calls are restricted after it. Pure.

A model cannot tell an instruction of its user from one that a web page, a mail or a file brought along. So a call that
destroys something or reaches beyond this system, after such content, is put to a person: whatever the model was talked
into. An item counts while the model is shown it, a summary of it, or anything that the model wrote after it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.items import Call, FilePart, Item, ModelText, Reasoning, Result, SystemText, TextPart, UserMessage
from toolyard.core.json_types import is_list, is_object
from toolyard.core.settings.tool_rules import AfterUntrusted, TrustRules
from toolyard.core.tools.definition import Tool

APPLICATION = "the application"
"""The source of results that a client sends for its own tools."""
SENT_HISTORY = "the history that the application sent"
"""The source of texts of a model in such a history: nobody knows what the model was shown when it wrote them."""
SOURCE_SEPARATOR = ", "
MAX_SOURCE_CHARS = 500
MAX_SOURCES = 5
MAX_PASSAGE_CHARS = 300
MIN_COPIED_CHARS = 4
"""Shorter values occur everywhere."""


class UntrustedText(NamedTuple):
    """An untrusted text that the model is shown, with its possible author."""

    source: str
    text: str
    item_id: str = ""
    """Empty for descriptions of tools."""


class UntrustedSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An untrusted text, as it is shown to the approver of a call after it."""

    item_id: str = ""
    """The item that holds the text; empty for descriptions of tools."""
    name: str
    passage: str = ""
    """The text around a copied value, or else the beginning."""
    copied: tuple[str, ...] = ()
    """JSON pointers of the arguments whose values stand in the item word for word, in whatever case."""


def name_result_source(tool: Tool) -> str:
    """Return who may write the results of a tool, if they are not to be trusted; else an empty text."""
    if tool.venue == "client":
        return APPLICATION
    if not (tool.untrusted or tool.open_world):
        return ""
    return f"the tool {tool.name} of the server {tool.server}" if tool.server else f"the tool {tool.name}"


def find_result_server(name: str, source: str) -> str:
    """Return the server that `name_result_source` names for a tool of this name; empty if it names none."""
    prefix = f"the tool {name} of the server "
    return next((text.removeprefix(prefix) for text in source.split(SOURCE_SEPARATOR) if text.startswith(prefix)), "")


def name_source(item: Item) -> str:
    """Return who may have written an item that is not to be trusted; else an empty text."""
    if type(item) is SystemText:
        return ""
    if item.untrusted or type(item) is not UserMessage:
        return item.untrusted
    source = ""
    for part in item.parts:
        if type(part) is FilePart and part.name:
            return f"the file {part.name}"
        if type(part) is not TextPart:
            source = "a file"
    return source


def split_sources(item: Item) -> list[str]:
    """Return the names of an item's untrusted sources, one by one."""
    source = name_source(item)
    return source.split(SOURCE_SEPARATOR) if source else []


def join_sources(*sources: str) -> str:
    """Return one text that names each of these sources once; empty if there are none."""
    if not any(sources):  # the usual case
        return ""
    names = dict.fromkeys(name for source in sources if source for name in source.split(SOURCE_SEPARATOR))
    return SOURCE_SEPARATOR.join(names)[:MAX_SOURCE_CHARS]


def mark_model_items(items: Sequence[Item], earlier_sources: str) -> tuple[Item, ...]:
    """Return the items of a turn, with the untrusted sources that the model was shown set on those that it wrote.

    `earlier_sources` are those of what the model was shown before the turn. What it wrote may repeat them, so that it
    stays untrusted when they are left out of the history or removed.
    """
    sources = join_sources(earlier_sources, *map(name_source, items))
    if not sources:
        return tuple(items)
    return tuple(
        replace(item, untrusted=sources) if isinstance(item, ModelText | Reasoning | Call) else item for item in items
    )


def choose_decision(tool: Tool, caller: Caller, rules: TrustRules) -> AfterUntrusted:
    """Return what a call of a tool meets after untrusted content."""
    if not (tool.destructive or tool.open_world):
        return "allow"
    if tool.after_untrusted is not None:
        return tool.after_untrusted
    decisions = {rules.by_role[role] for role in caller.roles if role in rules.by_role} or {rules.after_untrusted}
    if "deny" in decisions:
        return "deny"
    return "ask" if "ask" in decisions else "allow"


def to_untrusted_text(item: Item) -> UntrustedText:
    """Return the text of an untrusted item with its source. A call has no text."""
    text = item.content if isinstance(item, Result) else "" if isinstance(item, Call) else item.text
    return UntrustedText(name_source(item), text, item.id)


def list_unreviewed_servers(tools: Iterable[Tool]) -> tuple[str, ...]:
    """Return the servers of the tools whose descriptions are untrusted."""
    return tuple(dict.fromkeys(tool.server for tool in tools if tool.unreviewed))


def name_description_source(server: str) -> str:
    """Return how the tool descriptions of a server are named as a source."""
    return f"the tool descriptions of the server {server}"


def list_untrusted_descriptions(servers: Iterable[str], offered: Iterable[Tool], called: Tool) -> list[UntrustedText]:
    """Return the descriptions of these servers that are still offered, except those of the called tool's server.

    A server's own tools are not held back by its own descriptions: a person who lets one of them run has seen them.
    """
    by_server: dict[str, list[str]] = {server: [] for server in servers if server != called.server}
    for tool in offered:
        if tool.server in by_server:
            by_server[tool.server].append(f"{tool.name}: {tool.description}")
    return [
        UntrustedText(name_description_source(server), "\n".join(descriptions))
        for server, descriptions in by_server.items()
    ]


def describe_sources(texts: Sequence[UntrustedText], arguments: Mapping[str, object]) -> tuple[UntrustedSource, ...]:
    """Return the sources of untrusted texts: first those that values of the arguments were copied from, then the last.

    Only so many as a person reads.
    """
    values = dict(_list_values(arguments, ""))
    sources = [_describe_source(text, values) for text in reversed(texts)]
    sources.sort(key=lambda source: not source.copied)
    return tuple(sources[:MAX_SOURCES])


def _describe_source(untrusted: UntrustedText, values: Mapping[str, str]) -> UntrustedSource:
    text, lower_text = untrusted.text, untrusted.text.lower()
    offsets = {pointer: offset for pointer, value in values.items() if (offset := _find_copy(value, lower_text)) >= 0}
    begin = max(0, next(iter(offsets.values()), 0) - MAX_PASSAGE_CHARS // 3)
    passage = text[begin : begin + MAX_PASSAGE_CHARS]
    return UntrustedSource(item_id=untrusted.item_id, name=untrusted.source, passage=passage, copied=tuple(offsets))


def _find_copy(value: str, lower_text: str) -> int:
    """Return where a value stands in a text, in whatever case, as it is or as JSON writes it; -1 if nowhere."""
    lower_value = value.lower()
    offset = lower_text.find(lower_value)
    return offset if offset >= 0 else lower_text.find(msgspec.json.encode(lower_value).decode()[1:-1])


def _list_values(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield the JSON pointer and the text of each value that is long enough to be recognised."""
    if is_object(value):
        for key, inner in value.items():
            yield from _list_values(inner, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")
    elif is_list(value):
        for index, inner in enumerate(value):
            yield from _list_values(inner, f"{pointer}/{index}")
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        text = str(value)
        if len(text) >= MIN_COPIED_CHARS:
            yield pointer, text
