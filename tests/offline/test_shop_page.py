"""The tools of the shop example's page, as `examples/shop/page/tools.js` declares them, on the offline planner."""

import asyncio
from typing import Annotated

import pytest
from pydantic import Field

from toolyard import Yard, tool
from toolyard.core.events import TurnEnded
from toolyard.core.items import Call, ModelText

PRODUCTS = {
    "MIL-1": "Whole milk, Meadow, 1 l",
    "MIL-2": "Oat milk, Meadow, 1 l",
    "BRE-1": "Rye bread, Mill, 500 g",
    "CHE-1": "Gouda cheese, Meadow, 200 g",
}
Code = Annotated[str, Field(description="The product's code, as search_products tells it")]
Quantity = Annotated[int, Field(ge=1, le=99)]


class Page:
    def __init__(self) -> None:
        self.cart = {"BRE-1": 1}

    def tools(self) -> list[object]:
        pages = {"home": "the shop's front page", "cart": "the cart", "orders": "the orders of the customer"}
        pages |= {"checkout": "the checkout. The customer places the order, nobody else"}
        return [*self._cart(), *self._shown(), *(self._page(name, said) for name, said in pages.items())]

    def _cart(self) -> list[object]:
        @tool(
            description="Find products by name, brand or kind. Best match first, with code, price in cents and stock.",
            examples=["Do you have oat milk?", "Find bread"],
        )
        def search_products(
            query: Annotated[str, Field(description="Such as: milk")], limit: Annotated[int, Field(ge=1, le=20)] = 6
        ) -> dict[str, object]:
            found = [code for code, name in PRODUCTS.items() if query.casefold() in name.casefold()]
            return {"products": [self._row(code) for code in found[:limit]]}

        @tool(
            description="Put a product into the cart.",
            examples=["Add milk to my cart", "I need two loaves of bread"],
            sources={"code": "search_products"},
        )
        def add_to_cart(code: Code, quantity: Quantity = 1) -> dict[str, object]:
            self.cart[code] = self.cart.get(code, 0) + quantity
            return {"ok": True, "in_cart": self.cart[code]}

        @tool(
            description="Take a product out of the cart: some of it, or all if no quantity is given.",
            examples=["Remove the bread", "Take the milk out of my cart"],
            sources={"code": "get_cart"},
        )
        def remove_from_cart(code: Code, quantity: Quantity | None = None) -> dict[str, object]:
            self.cart[code] -= quantity or self.cart[code]
            return {"ok": True, "in_cart": self.cart[code]}

        @tool(description="What is in the cart, and what it costs, in cents.")
        def get_cart() -> dict[str, object]:
            return {"lines": [self._row(code) for code in self.cart], "total_cents": 199 * len(self.cart)}

        return [search_products, add_to_cart, remove_from_cart, get_cart]

    def _shown(self) -> list[object]:
        @tool(
            description="Show products as cards in the chat, instead of listing them in words.",
            examples=["Show me cheese"],
            sources={"codes": "search_products"},
        )
        def show_products(codes: Annotated[list[str], Field(min_length=1, max_length=12)]) -> str:
            return f"These are {len(codes)} products."

        @tool(description="Show the cart as a card in the chat, instead of listing it in words.")
        def show_cart() -> str:
            return "This is the cart: 1.99 in all."

        return [show_products, show_cart]

    def _page(self, name: str, said: str) -> object:
        @tool(name=f"open_{name}", description=f"Move the page to {said}.")
        def open_page() -> dict[str, object]:
            return {"page": name}

        return open_page

    def _row(self, code: str) -> dict[str, object]:
        return {"code": code, "name": PRODUCTS[code], "cents": 199, "stock": 9}


async def asked(message: str) -> tuple[list[tuple[str, object]], str]:
    calls: list[tuple[str, object]] = []
    async with Yard(tools=Page().tools()) as yard:
        said = ""
        async for event in yard.run(message):
            if isinstance(event, TurnEnded):
                calls += [(item.tool, item.arguments) for item in event.items if isinstance(item, Call)]
                said = "".join(item.text for item in event.items if isinstance(item, ModelText))
    return calls, said


MILK: list[tuple[str, object]] = [("search_products", {"query": "milk"}), ("add_to_cart", {"code": "MIL-1"})]


CASES: list[tuple[str, list[tuple[str, object]], list[str]]] = [
    ("Add milk to my cart", MILK, ["Whole milk"]),
    (
        "add milk and bread",
        [
            *(("search_products", {"query": "milk"}), ("search_products", {"query": "bread"})),
            *(("add_to_cart", {"code": "MIL-1"}), ("add_to_cart", {"code": "BRE-1"})),
        ],
        ["Whole milk", "Rye bread"],
    ),
    (
        "I need two loaves of bread",
        [("search_products", {"query": "bread"}), ("add_to_cart", {"code": "BRE-1", "quantity": 2})],
        ["Rye bread"],
    ),
    ("show me my cart", [("show_cart", {})], ["cart"]),
    ("what's in my cart?", [("show_cart", {})], ["cart"]),
    ("take me to checkout", [("open_checkout", {})], ["checkout"]),
    ("take me home", [("open_home", {})], ["home"]),
    ("show my orders", [("open_orders", {})], ["orders"]),
    (
        "Remove the bread",
        [("get_cart", {}), ("remove_from_cart", {"code": "BRE-1"})],
        ["Rye bread"],
    ),
    (
        "Show me cheese",
        [("search_products", {"query": "cheese"}), ("show_products", {"codes": ["CHE-1"]})],
        ["1 product"],
    ),
    ("add caviar to my cart", [("search_products", {"query": "caviar"})], ["caviar"]),
]


@pytest.mark.parametrize(("message", "calls", "named"), CASES)
def test_the_shop_needs_no_model(message: str, calls: list[tuple[str, object]], named: list[str]) -> None:
    made, said = asyncio.run(asked(message))
    assert made == calls
    assert all(one in said for one in named), said
