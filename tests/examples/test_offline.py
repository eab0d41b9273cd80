"""The first minute with the shipped examples and no language model: what is ordered is done or proposed, and told."""

import asyncio
from collections.abc import Sequence

import pytest

from examples.loading import tools_of
from offline.shop import Shop, shop_tools
from support import PATIENCE_S, asked
from toolyard import Caller, Yard
from toolyard.core.events import Event, TurnEnded
from toolyard.core.items import Call, ModelText
from toolyard.demo import grocery_tools

OFFLINE = "toolyard:offline"
STAFF = Caller(user="li", roles=frozenset({"warehouse_staff"}), locale="zh")
Exchange = tuple[str, Sequence[str], str]
"""A message, the tools that are called for it, and what the answer holds."""


async def exchange(yard: Yard, message: str, caller: Caller) -> tuple[list[str], str, bool]:
    """Send a message; return the tools called, the last words, and whether it waits for a confirmation."""
    events: list[Event] = []
    async for event in yard.run(message, caller=caller, conversation="conversation_1"):
        events.append(event)
        if asked(events):
            break
    items = [item for event in events if isinstance(event, TurnEnded) for item in event.items]
    texts = [item.text for item in items if isinstance(item, ModelText)]
    return [item.tool for item in items if isinstance(item, Call)], "".join(texts[-1:]), bool(asked(events))


def hold(tools: Sequence[object], exchanges: Sequence[Exchange], caller: Caller = STAFF) -> None:
    async def test() -> None:
        async with asyncio.timeout(PATIENCE_S), Yard(tools=tools, model=OFFLINE) as yard:
            for message, calls, holds in exchanges:
                made, answer, waits = await exchange(yard, message, caller)
                assert made == list(calls), message
                assert holds in answer, (message, answer)
                assert waits == ("yes / no" in answer or "是 / 否" in answer), message

    asyncio.run(test())


def test_a_household_is_looked_after() -> None:
    hold(
        tools_of("household"),
        [
            ("Add milk to groceries", ["add_to_groceries"], "milk"),
            ("we need 3 lemons", ["add_to_groceries"], "3"),
            ("add eggs, tea and rye bread to groceries", ["add_to_groceries"] * 3, "rye bread"),
            ("把牛奶加到购物清单", ["add_to_groceries"], "牛奶"),
            ("what is on the grocery list?", ["list_groceries"], "| lemons |"),
            ("I bought milk", ["update_grocery_status"], "Bought"),
            ("I bought caviar", ["update_grocery_status"], "did not work"),
            ("remind me to water the plants", ["create_task"], "yes / no"),
            ("yes", ["create_task"], "water the plants"),
            ("which tasks are open?", ["list_tasks"], "water the plants"),
            ("schedule dentist tomorrow at 10:00", ["create_event"], "dentist"),
            ("how much did we spend this month?", ["budget_scan"], "total"),
        ],
    )


def test_a_warehouse_answers_in_chinese() -> None:
    hold(
        tools_of("warehouse"),
        [
            ("查找面粉", ["search_materials"], "高筋面粉"),
            ("统计库存", ["get_inventory_stats"], "面粉"),
            ("生成面粉库存报表", ["format_report"], "| 高筋面粉 |"),
        ],
    )


def test_a_shop_sells_without_a_model() -> None:
    hold(
        shop_tools(Shop()),
        [
            ("do you have oat milk?", ["search_products"], "Oat"),
            ("add garlic to my cart", ["search_products", "add_to_cart"], "Garlic"),
            ("add honey and garlic to my cart", ["search_products"] * 2 + ["add_to_cart"] * 2, "Honey"),
            ("what is in my cart?", ["get_cart"], "Garlic"),
            ("remove honey from my cart", ["get_cart", "remove_from_cart"], "Honey"),
            ("go to the dairy section", ["navigate_to_category"], "dairy"),
            ("take me to checkout", ["navigate_to_checkout"], "checkout"),
        ],
    )


def test_a_role_that_may_not_use_a_tool_is_not_offered_it() -> None:
    message = "新建一个名为“退货处理”的意图"
    for caller, calls in ((STAFF, []), (Caller(user="root", roles=frozenset({"admin"})), ["create_new_intent"])):
        hold(tools_of("warehouse"), [(message, calls, "")], caller)


@pytest.mark.parametrize("message", ["add milk to groceries", "turn on the light", "add", ""])
def test_without_tools_it_says_that_there_are_none(message: str) -> None:
    hold([], [(message, [], "There is no tool here")])


def test_the_grocery_list_of_the_terminal_is_kept() -> None:
    hold(
        grocery_tools(),
        [
            ("add 2 lemons to groceries", ["add_to_groceries"], "lemons"),
            ("show groceries", ["show_groceries"], "2 × lemons"),
        ],
    )
