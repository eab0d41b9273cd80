"""A grocery list and a model that follows a script: enough to see the loop at work without a key or a network."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from toolyard.core.items import Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.models.scripted import Turn, call, say
from toolyard.venues.function import FunctionTool, tool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saying:
    """A way to ask for a tool: the named groups of the pattern are its arguments, beside those that are always so."""

    tool: str
    pattern: str
    example: str
    answer: str
    always: dict[str, object] = field(default_factory=dict[str, object])


_SAYINGS = (
    _Saying(
        tool="create_task",
        pattern=r"\b(?:(?:add|create) (?:a )?task:?|remind (?:me|us) to) (?P<title>.+)",
        example="add task call the plumber",
        answer='I\'ve put "{item}" on the list of tasks.',
    ),
    _Saying(
        tool="add_to_groceries",
        pattern=r"\b(?:add|buy) (?:(?P<qty>\d{1,3}) )?(?!to |on )(?P<item>.+?)(?: (?:to|on) .*)?$",
        example="add milk to groceries",
        answer="I've added {item} to your grocery list.",
    ),
    _Saying(
        tool="update_grocery_status",
        pattern=r"\bbought (?:the |some )?(?P<item>.+)",
        example="I bought milk",
        answer="I've marked {item} as {status}.",
        always={"status": "Bought"},
    ),
    _Saying(
        tool="update_task_status",
        pattern=r"\b(?:finished|done with) (?P<task>.+)",
        example="I finished call the plumber",
        answer='I\'ve marked "{item}" as {status}.',
        always={"status": "Done"},
    ),
    _Saying(
        tool="ha_service_call",
        pattern=r"\b(?P<service>turn (?:on|off)) (?:the )?(?P<entity_id>\w+(?: \w+)?)",
        example="turn on the kitchen light",
        answer="I've asked for {item}.",
        always={"domain": "light"},
    ),
    _Saying(
        tool="budget_scan",
        pattern=r"\b(?:budget|spen[dt])\b",
        example="how much did we spend?",
        answer="In {month} you have spent {total:.2f}.",
    ),
    _Saying(
        tool="show_groceries",
        pattern=r"\b(?:show|list|groceries|what do we need)\b",
        example="show my groceries",
        answer="On your list: {content}",
    ),
)


def _help(tools: Collection[str]) -> str:
    tries = [f'"{saying.example}"' for saying in _SAYINGS if saying.tool in tools]
    hint = f"Try {' or '.join(tries)}. " if tries else ""
    return (
        f"This is a scripted demo, not a language model. {hint}"
        "To talk to a real model: toolyard chat --model openai:gpt-4o-mini (with OPENAI_API_KEY set), "
        "or --model ollama:qwen3."
    )


HELP = _help(("add_to_groceries", "show_groceries"))


def grocery_tools() -> list[FunctionTool]:
    groceries: list[str] = []

    @tool(examples=["add milk to groceries"])
    def add_to_groceries(item: str, qty: int = 1) -> dict[str, object]:
        """Put an item on the grocery list."""
        groceries.append(f"{qty} × {item}" if qty > 1 else item)
        return {"ok": True, "item": item, "qty": qty, "on_the_list": len(groceries)}

    @tool(idempotent=True, examples=["show my groceries"])
    def show_groceries() -> list[str]:
        """Everything on the grocery list."""
        return groceries

    return [add_to_groceries, show_groceries]


class _Told(msgspec.Struct):
    """What the demo's sentences use of a result."""

    item: str = "it"
    status: str = "done"
    month: str = "this month"
    total: float = 0.0
    note: str = ""


def demo_script(request: ModelRequest) -> Turn:
    """Answers a result, or asks for the first offered tool that the message fits, or says what it understands."""
    last = request.history[-1]
    if isinstance(last, Result):
        return _spoken(_answer(last))
    text = last.text.strip(" .,!?") if isinstance(last, UserMessage) else ""
    offered = {tool.name for tool in request.offer.tools} if request.tool_choice != "none" else set[str]()
    if "add_to_groceries" in offered and re.search(r"\badd(?: (?:to|on)\b.*)?$", text, re.IGNORECASE):
        return say("What should I add?")
    for saying in _SAYINGS:
        found = re.search(saying.pattern, text, re.IGNORECASE)
        if found and saying.tool in offered:
            return call(saying.tool, **_arguments(found), **saying.always)
    return _spoken(_help(offered))


def _arguments(found: re.Match[str]) -> dict[str, object]:
    given: dict[str, object] = {name: text for name, text in found.groupdict().items() if text}
    if "qty" in given:
        given["qty"] = int(found["qty"])
    if "service" in given:
        words = found["entity_id"].lower().removesuffix(" light").replace(" ", "_")
        given |= {"service": found["service"].lower().replace(" ", "_"), "entity_id": f"light.{words}"}
    return given


def _answer(result: Result) -> str:
    if result.outcome != "ok":
        return f"That did not work: {result.error.error if result.error else result.content}"
    try:
        told = msgspec.json.decode(result.content, type=_Told)
    except msgspec.DecodeError:
        told = _Told()
    answer = next((saying.answer for saying in _SAYINGS if saying.tool == result.tool), "{content}")
    return f"{answer.format(content=result.content, **msgspec.structs.asdict(told))} {told.note}".strip()


def _spoken(text: str) -> Turn:
    """Word by word, as a model would."""
    return say(*re.findall(r"\S+\s*", text))
