"""Turns a ModelRequest into messages for a model without native tool calling, and a grammar for its answer. Pure.

The grammar allows either text, free or of the output schema, or calls: one line of JSON each, with arguments that fit
the tool's schema.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.core.tools.definition import Tool
from toolyard.models.shared.option_support import add_output_prompt

TOOL_INSTRUCTIONS = """You can use tools. To use one, answer with nothing but one line of JSON, like this:
{"name":"tool","arguments":{"parameter":"value"}}
When you have its result, or need no tool, answer in words. The tools are:"""

MAX_CALLS = 4
"""The most calls in one answer: a weak model does not stop by itself."""

_json = msgspec.json.Encoder(order="deterministic")


def build_messages(request: ModelRequest) -> list[dict[str, str]]:
    """Return the messages. Consecutive texts of one role are one message, as most chat templates require."""
    texts = [("system", _build_system(request)), *_render_history(request.history)]
    if request.instructions:  # after a system text that begins the history, which joins the one before
        first = next((number for number, (role, _) in enumerate(texts) if role != "system"), len(texts))
        texts.insert(first, ("user", request.instructions))
    messages: list[dict[str, str]] = []
    for role, text in texts:
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n{text}"
        elif text:
            messages.append({"role": role, "content": text})
    return messages


def build_grammar(request: ModelRequest) -> str:
    """Return the grammar of the answer; empty if there are no tools to call and the text is free."""
    tools, choice, schema = list_usable_tools(request), request.tool_choice, request.options.output_schema
    text = "text: /[^{](.|\\n)*/" if schema is None else f"text: %json {_encode_schema(schema)}"
    if not tools:
        return "" if schema is None else f"%llguidance {{}}\nstart: text\n{text}\n"
    lines = ["%llguidance {}", "start: calls" if choice not in ("auto", "none") else "start: calls | text"]
    lines += [text, f'calls: call ("\\n" call){{0,{MAX_CALLS - 1}}}']
    lines.append(f"call: {' | '.join(f'call_{number}' for number in range(len(tools)))}")
    for number, tool in enumerate(tools):
        lines.append(f"call_{number}: {_quote(build_call_prefix(tool.name))} arguments_{number} {_quote('}')}")
        lines.append(f"arguments_{number}: %json {_encode_schema(tool.parameters)}")
    return "\n".join(lines) + "\n"


def list_usable_tools(request: ModelRequest) -> Sequence[Tool]:
    """Return the tools that the model may call in this turn."""
    choice, tools = request.tool_choice, request.offer.tools
    if choice == "none":
        return ()
    return tools if choice in ("auto", "required") else [tool for tool in tools if tool.name == choice] or tools


def build_call_prefix(name: str) -> str:
    """Return the text that a call of that tool begins with."""
    return f'{{"name":{_json.encode(name).decode()},"arguments":'


def _build_system(request: ModelRequest) -> str:
    tools, system, schema = list_usable_tools(request), request.system, request.options.output_schema
    if schema is not None:
        # The grammar enforces the schema, but a model that does not know it writes nonsense that fits.
        system = add_output_prompt(system, schema)
    if not tools:
        return system
    lines = [
        _json.encode({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        for tool in tools
    ]
    return "\n".join([*([system, ""] if system else []), TOOL_INSTRUCTIONS, *(line.decode() for line in lines)])


def _render_history(history: Sequence[Item]) -> Iterator[tuple[str, str]]:
    for item in history:
        match item:
            case SystemText():
                yield "system" if item is history[0] else "user", item.text
            case UserMessage():
                yield "user", item.text
            case ModelText():
                yield "assistant", item.text
            case Call():
                yield "assistant", f"{build_call_prefix(item.tool)}{_json.encode(item.arguments).decode()}}}"
            case Result():
                yield "user", f"Result of {item.tool}: {item.content}"
            case Reasoning():
                continue
            case _:
                assert_never(item)


def _encode_schema(schema: dict[str, object]) -> str:
    """Return the schema for the grammar. Keywords that it cannot express are ignored: values are validated later."""
    settings: dict[str, object] = {"whitespace_flexible": False, "lenient": True}
    return _json.encode({**schema, "x-guidance": settings}).decode()


def _quote(text: str) -> str:
    return _json.encode(text).decode()
