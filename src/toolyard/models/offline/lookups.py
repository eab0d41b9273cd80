"""Looks up values with other tools: the words of a slot go to the tool that finds them, which returns rows."""

from collections.abc import Iterator, Mapping
from typing import cast

from toolyard.core.items import Result
from toolyard.models.offline.catalogue import Catalogue, CatalogueTool
from toolyard.models.offline.evidence import Draft
from toolyard.models.offline.parameters import Parameter, split_list
from toolyard.models.offline.text import fold
from toolyard.models.offline.wording import decode_result, show_value


def split_lookups(draft: Draft) -> list[Draft]:
    """Return one draft for each part of a list: `milk and bread` are looked up one by one."""
    if len(draft.lookups) != 1:
        return [draft]
    ((parameter, words),) = draft.lookups.items()
    return [Draft(tool=draft.tool, arguments=draft.arguments, lookups={parameter: part}) for part in split_list(words)]


def build_lookup_calls(catalogue: Catalogue, draft: Draft) -> Iterator[Draft]:
    """Yield the calls that look up the words of a draft. Only read-only tools are called without confirmation."""
    entry = catalogue.get_tool(draft.tool)
    for parameter, words in draft.lookups.items() if entry else ():
        source = catalogue.get_tool(entry.tool.sources.get(parameter, "")) if entry else None
        if source is None or not source.tool.read_only:
            continue
        query = _find_query_parameter(source)
        if query is not None or not any(other.required for other in source.parameters):
            yield Draft(tool=source.tool.name, arguments={query.name: words} if query else {})


def read_rows(
    catalogue: Catalogue, draft: Draft, parameter: str, words: str, result: Result
) -> list[tuple[object, str]]:
    """Return the values that a look-up found, each with a label; only the row with exactly these words if one has."""
    entry, source = catalogue.get_tool(draft.tool), catalogue.get_tool(result.tool)
    rows = [row for row in _list_rows(decode_result(result)) if _find_key(row, parameter) is not None]
    if source is None or _find_query_parameter(source) is None:
        rows = [row for row in rows if _mentions(row, words)]
    exact = [row for row in rows if any(fold(show_value(value)) == fold(words) for value in row.values())]
    values = [(row[str(_find_key(row, parameter))], _label_row(row)) for row in (exact if len(exact) == 1 else rows)]
    if values and entry and entry.get_parameter(parameter).kind == "list":
        return [([value for value, _ in values], "")]
    return values


def _find_query_parameter(source: CatalogueTool) -> Parameter | None:
    """Return the parameter of a look-up that takes words: its only required free text, or its only free text."""
    free = [parameter for parameter in source.parameters if parameter.is_free_text]
    required = [parameter for parameter in free if parameter.required] or free
    return required[0] if len(required) == 1 else None


def _list_rows(value: object) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a result: the objects of its list, or of the lists inside it."""
    if isinstance(value, list):
        for row in cast("list[object]", value):
            if isinstance(row, Mapping):
                yield cast("Mapping[str, object]", row)
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            if isinstance(inner, list):
                yield from _list_rows(cast("list[object]", inner))


def _find_key(row: Mapping[str, object], parameter: str) -> str | None:
    """Return the field of a row that a parameter is filled from."""
    singular = parameter.removesuffix("s")
    names = (parameter, singular, f"{singular}_id", "id", "code")
    return next((name for name in names if isinstance(row.get(name), str | int)), None)


def _mentions(row: Mapping[str, object], words: str) -> bool:
    needle = fold(words)
    return any(isinstance(value, str) and needle in fold(value) for value in row.values())


def _label_row(row: Mapping[str, object]) -> str:
    plain = [show_value(value) for value in row.values() if isinstance(value, str | int | float)]
    return ", ".join(plain[:4])
