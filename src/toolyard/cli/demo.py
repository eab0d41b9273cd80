"""The tools of `toolyard chat --demo`: a grocery list in memory, which needs no file, no key and no network."""

from typing import Annotated

from pydantic import Field

from toolyard.venues.function import FunctionTool, tool


def build_grocery_tools() -> list[FunctionTool[..., object]]:
    groceries: list[str] = []

    @tool(examples=["add {item} to groceries", "we need {qty} {item}", "把{item}加到购物清单"])
    def add_to_groceries(item: Annotated[str, Field(examples=["milk", "牛奶"])], qty: int = 1) -> dict[str, object]:
        """Put an item on the grocery list."""
        groceries.append(f"{qty} × {item}" if qty > 1 else item)
        return {"ok": True, "item": item, "qty": qty, "on_the_list": len(groceries)}

    @tool(read_only=True, examples=["show groceries", "查看购物清单"])
    def show_groceries() -> list[str]:
        """Everything on the grocery list."""
        return groceries

    return [add_to_groceries, show_groceries]
