"""A grocery list and a model that follows a script: enough to see the loop at work without a key or a network."""

from toolyard.core.items import Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.models.scripted import Turn, call, say
from toolyard.venues.function import FunctionTool, tool

HELP = (
    'This is a scripted demo, not a language model. Try "add milk to groceries" or "show my groceries". '
    "To talk to a real model: toolyard chat --model openai:gpt-4o-mini (with OPENAI_API_KEY set), "
    "or --model ollama:qwen3."
)


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


def demo_script(request: ModelRequest) -> Turn:
    last = request.history[-1]
    if isinstance(last, Result):
        return _answer(last)
    words = last.text.split() if isinstance(last, UserMessage) else []
    lowered = [word.lower().strip(".,!?") for word in words]
    if "add" in lowered:
        rest = words[lowered.index("add") + 1 :]
        stop = next((i for i, word in enumerate(rest) if word.lower() in ("to", "on")), len(rest))
        return call("add_to_groceries", item=" ".join(rest[:stop])) if rest[:stop] else say("What should I add?")
    if {"show", "list", "groceries"} & set(lowered):
        return call("show_groceries")
    return say(HELP)


def _answer(result: Result) -> Turn:
    if result.outcome != "ok":
        return say("That ", "did not work: ", result.content)
    if result.tool == "add_to_groceries":
        return say("I've ", "added it ", "to your ", "grocery list.")
    return say("On your list: ", result.content)
