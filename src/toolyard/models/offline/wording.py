"""The sentences of the offline model, in English and Chinese, and results formatted for people."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from toolyard.core.items import Result
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.templates import fill_examples, fill_sentence, list_examples
from toolyard.models.offline.parameters import Parameter
from toolyard.models.offline.text import is_chinese

MAX_ROWS, MAX_COLUMNS, MAX_CELL, MAX_DEPTH = 20, 6, 80, 3
_JSON = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"\d-])')
"""The beginning of JSON. A result that was too long arrives as a head and a tail, which do not decode."""
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00)?$")
_HIDDEN_FIELDS = frozenset({"ok", "success"})

SENTENCES: dict[str, tuple[str, str]] = {
    "no_model": (
        "I am Toolyard's offline helper, not a language model; to talk to one, set `model`, for example "
        '"openai:gpt-4o-mini".',
        "我是 Toolyard 的离线助手，不是语言模型；要接入语言模型，请设置 model，例如 “dashscope:qwen-plus”。",
    ),
    "abilities": (
        "I can only use the tools here. Try for example {examples}.",
        "我只能使用这里的工具，例如：{examples}。",
    ),
    "no_tools": ("There is no tool here that you may use.", "这里没有您可以使用的工具。"),
    "nothing_fits": ("I know no tool for that.", "没有找到适合的工具。"),
    "choose_tool": ("Which of these do you mean? Answer with a number.", "您指的是哪一个？请回复数字。"),
    "choose_row": ("Which “{words}” do you mean? Answer with a number.", "您指的是哪一个“{words}”？请回复数字。"),
    "propose": ("Shall I do this? {calls} (yes / no)", "要执行吗？{calls}（是 / 否）"),
    "ask": ("{tool}: what is the {parameter}?", "{tool}：请问{parameter}是什么？"),
    "ask_choice": ("{tool}: which {parameter}: {choices}?", "{tool}：请选择{parameter}：{choices}？"),
    "declined": ("All right, nothing was done.", "好的，没有执行。"),
    "empty": ("Nothing was found.", "没有找到任何内容。"),
    "no_match": ("No entry matched {filter}.", "没有符合条件的条目（{filter}）。"),
    "nothing_for": ("Nothing was found for “{words}”.", "没有找到“{words}”。"),
    "done": ("{tool}: done.", "{tool}：已完成。"),
    "unreadable": ("{tool}: done; the result is too long to show here.", "{tool}：已完成，结果太长，无法在此显示。"),
    "failed": ("{tool} did not work: {error}", "{tool}没有成功：{error}"),
    "more_rows": ("… and {count} more.", "……还有 {count} 项。"),
}


def format_sentence(name: str, language: str, **values: object) -> str:
    return SENTENCES[name][language == "zh"].format(**values)


def format_title(tool: Tool | str) -> str:
    """Return a tool's name in words."""
    name = tool if isinstance(tool, str) else tool.name
    return re.sub(r"[_-]+", " ", name).strip().capitalize() or name


def describe_abilities(tools: Sequence[Tool], language: str) -> str:
    """Return one line that says what can be done here, with an example of each of these tools."""
    if not tools:
        return format_sentence("no_tools", language)
    examples = ("、" if language == "zh" else ", ").join(f"“{pick_example(tool, language)}”" for tool in tools)
    return format_sentence("abilities", language, examples=examples)


def pick_example(tool: Tool, language: str) -> str:
    """Return a request for a tool: one of its examples, or its name in words."""
    return next(iter(_select_language(fill_examples(tool), language)), format_title(tool))


def describe_tool(tool: Tool, language: str) -> str:
    summary = tool.description.strip().partition("\n")[0][:120]
    example_text = f" – “{pick_example(tool, language)}”" if list_examples(tool) else ""
    return f"**{format_title(tool)}**{': ' + summary if summary else ''}{example_text}"


def describe_call(tool: str, arguments: Mapping[str, object]) -> str:
    values = ", ".join(f"{name.replace('_', ' ')}: {show_value(value)}" for name, value in arguments.items())
    return f"**{format_title(tool)}**" + (f" ({values})" if values else "")


def format_question(tool: Tool, parameter: Parameter, language: str) -> str:
    """Return the question for a parameter that is missing."""
    label = parameter.description.rstrip(".。") if language == "zh" and parameter.description else parameter.label
    if parameter.choices:
        choices = ", ".join(str(choice) for choice in parameter.choices[:12])
        return format_sentence("ask_choice", language, tool=format_title(tool), parameter=label, choices=choices)
    return format_sentence("ask", language, tool=format_title(tool), parameter=label)


def show_result(result: Result, tool: Tool | None, arguments: Mapping[str, object], language: str) -> str:
    """Return a result as text for people: in the tool's own words, if it has some, or as the values that it holds."""
    if result.outcome != "ok":
        error = result.error.error if result.error else result.outcome
        return format_sentence("failed", language, tool=format_title(result.tool), error=error)
    value = decode_result(result)
    if sentence := tool and _say_result(tool, value, arguments, language):
        return sentence
    filters = _keep_plain(arguments)
    if tool is None or not tool.read_only or not filters or not _is_empty_total(value):
        return _show_value(result, value, arguments, language)
    totals = _show_value(result, _keep_plain(cast("Mapping[str, object]", value)), arguments, language)
    return f"{totals}\n{format_sentence('no_match', language, filter=_join_values(filters))}"


def _say_result(tool: Tool, value: object, arguments: Mapping[str, object], language: str) -> str | None:
    """Return the first of the tool's sentences whose values are all known; None if there is none."""
    fields = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else dict[str, object]()
    # The result comes last: it has the names that were stored, and the values of parameters that were left out.
    values = {name: _TIME.sub(r"\1 \2", show_value(inner)) for name, inner in {**arguments, **fields}.items()}
    sentences = (fill_sentence(sentence, values) for sentence in _select_language(tool.says, language))
    return next(filter(None, sentences), None)


def _select_language(texts: Sequence[str], language: str) -> Sequence[str]:
    """Return the texts in a language; all of them if there are none."""
    return [text for text in texts if is_chinese(text) == (language == "zh")] or texts


def _is_empty_total(value: object) -> bool:
    """Return whether a result is a total of 0 over nothing: it has lists or tables, and all are empty."""
    inner = list(cast("Mapping[str, object]", value).values()) if isinstance(value, Mapping) else []
    tables = [part for part in inner if _is_table(part)]
    has_zero = any(part == 0 and isinstance(part, int | float) and not isinstance(part, bool) for part in inner)
    return has_zero and bool(tables) and not any(tables)


def _is_table(value: object) -> bool:
    return isinstance(value, list | Mapping)


def _show_value(result: Result, value: object, arguments: Mapping[str, object], language: str) -> str:
    if value is None or value == "":
        return format_sentence("done", language, tool=format_title(result.tool))
    if isinstance(value, str):
        return (
            value if not _JSON.match(value) else format_sentence("unreadable", language, tool=format_title(result.tool))
        )
    if isinstance(value, Mapping):
        return _show_object(result.tool, cast("Mapping[str, object]", value), arguments, language)
    if isinstance(value, list):
        return _show_list(cast("list[object]", value), language)
    return f"{format_title(result.tool)}: {show_value(value)}"


def decode_result(result: Result) -> object:
    """Return the decoded value of a result, without the line for language models that an edited call has before it."""
    for text in (result.content, result.content.partition("\n")[2]):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            continue
    return result.content


def _show_object(tool: str, value: Mapping[str, object], arguments: Mapping[str, object], language: str) -> str:
    """Return a sentence with the plain values, then each list or table inside."""
    visible = {name: inner for name, inner in value.items() if name not in _HIDDEN_FIELDS and inner not in (None, "")}
    plain = {name: inner for name, inner in visible.items() if not isinstance(inner, list | Mapping)}
    parts = {**_keep_plain(arguments), **plain}
    long_texts = [str(inner) for inner in plain.values() if isinstance(inner, str) and "\n" in inner]
    sentence = _join_values({name: inner for name, inner in parts.items() if str(inner) not in long_texts})
    lines = [f"{format_title(tool)}: {sentence}." if sentence else "", *long_texts]
    for inner in visible.values():
        if isinstance(inner, list):
            lines.append(_show_list(cast("list[object]", inner), language))
        elif isinstance(inner, Mapping):
            rows = cast("Mapping[str, object]", inner)
            lines += [f"- {name}: {show_value(cell)}" for name, cell in list(rows.items())[:MAX_ROWS]]
    return "\n".join(line for line in lines if line) or format_sentence("done", language, tool=format_title(tool))


def _keep_plain(values: Mapping[str, object]) -> dict[str, object]:
    return {name: inner for name, inner in values.items() if _is_plain(inner)}


def _join_values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {show_value(inner)}" for name, inner in values.items())


def _show_list(values: Sequence[object], language: str) -> str:
    if not values:
        return format_sentence("empty", language)
    rows = [cast("Mapping[str, object]", value) for value in values if isinstance(value, Mapping)]
    lines = (
        _format_table(rows[:MAX_ROWS])
        if len(rows) == len(values)
        else [f"- {show_value(value)}" for value in values[:MAX_ROWS]]
    )
    more = [format_sentence("more_rows", language, count=len(values) - MAX_ROWS)] if len(values) > MAX_ROWS else []
    return "\n".join([*lines, *(["", *more] if more else [])])


def _format_table(rows: Sequence[Mapping[str, object]]) -> list[str]:
    columns = list(dict.fromkeys(name for row in rows for name in row))[:MAX_COLUMNS]
    if not columns:
        return []
    body = [[_format_cell(row.get(name)) for name in columns] for row in rows]
    head = [name.replace("_", " ").replace("|", "\\|") for name in columns]
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(columns), *body)]


def _format_cell(value: object) -> str:
    return show_value(value).replace("|", "\\|").replace("\n", " ")[:MAX_CELL]


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def show_value(value: object, depth: int = 0) -> str:
    """Return a value as one line. Values nested deeper than `MAX_DEPTH` are left out."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    if depth == MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        fields = list(cast("Mapping[str, object]", value).items())[:MAX_ROWS]
        return ", ".join(f"{name} {show_value(inner, depth + 1)}" for name, inner in fields)
    if isinstance(value, list):
        values = cast("list[object]", value)[:MAX_ROWS]
        return (", " if all(_is_plain(inner) for inner in values) else "; ").join(
            show_value(inner, depth + 1) for inner in values
        )
    return str(value)
